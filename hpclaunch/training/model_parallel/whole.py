"""A variable of which each rank has a part, read and assigned as the whole one."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from hpclaunch.training.model_parallel import collectives, groups, splits
from hpclaunch.training.model_parallel.splits import Split


class Whole:
    """The whole of a variable (or of a slot of an optimizer) that is a part of it. name: the same on every rank."""

    def __init__(self, variable: Any, split: Split, name: str) -> None:
        self._variable, self._split, self._name = variable, split, name
        self.shape, self.dtype = tf.TensorShape(split.whole_shape(variable.shape)), variable.dtype

    def numpy(self) -> np.ndarray:
        """The whole variable, on every rank that shares it. A collective of these."""
        own = tf.constant(self._variable.numpy())
        axis = self._split.axis
        return np.asarray(collectives.joined(own, groups.tensor(), "whole." + self._name, axis).numpy())

    def assign(self, whole: Any) -> None:
        """Keep this rank's part of an array or tensor."""
        self._variable.assign(self._split.part(whole))


def seen_whole(variable: Any, name: str) -> Any:
    """The variable itself if this rank has all of it, else what stands for the whole one."""
    split = splits.split_of(variable)
    return variable if split is None else Whole(variable, split, name)
