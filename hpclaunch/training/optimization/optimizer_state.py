"""The variables of a Keras optimizer, of both kinds: the older ones (optimizers.legacy), and those since Keras 2.11."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import tensorflow as tf

OLDER = "optimizer"
"""The name of an older optimizer's arrays in a checkpoint. Those of a newer one have its class's name, too."""


class Together:
    """A variable of an optimizer whose value no rank holds alone: to read it is a collective, on every rank.

    It has shape and dtype, numpy() and assign(whole), as a tf.Variable has.
    """

    shape: Any
    dtype: Any

    def numpy(self) -> np.ndarray:
        """The whole value, the same on every rank. A collective."""
        raise NotImplementedError

    def assign(self, whole: Any) -> None:
        """Keep what this rank holds of an array or tensor of the whole value."""
        raise NotImplementedError


def variables(optimizer: Any, weights: Sequence[Any]) -> list[Any]:
    """Its variables, with the step count first; they are made now, as the first step would make them.

    Of a sharded optimizer (sharded_optimizer), what stands for the whole ones.
    """
    if hasattr(optimizer, "state"):
        return list(optimizer.state())
    if hasattr(optimizer, "_create_all_weights"):
        optimizer._create_all_weights(weights)
    elif not getattr(optimizer, "_built", False):
        optimizer.build(weights)
    return list(optimizer.variables())  # a property of the newer ones, whose list can be called


def name(optimizer: Any) -> str:
    """The name of its arrays in a checkpoint: optimizer, or optimizer-Adam.

    Two newer optimizers may have variables of the same shapes, as SGD with momentum and RMSprop do. So their names
    differ, and the state of one is not taken for that of the other.
    """
    optimizer = getattr(optimizer, "inner", optimizer)
    return OLDER if hasattr(optimizer, "_create_all_weights") else OLDER + "-" + type(optimizer).__name__


def unknown(optimizer: Any, weights: Sequence[Any]) -> list[str]:
    """The names of variables that a newer optimizer does not list, so that no checkpoint can have them.

    Keras's Nadam has one. The learning rate is not listed either; it follows from the schedule.
    """
    if hasattr(optimizer, "state"):
        optimizer, weights = optimizer.inner, optimizer.held
    if hasattr(optimizer, "_create_all_weights"):
        return []
    listed = {variable.ref() for variable in variables(optimizer, weights)}
    own = {name: value for name, value in vars(optimizer).items() if isinstance(value, tf.Variable)}
    rates = ("_learning_rate", "_current_learning_rate")
    return sorted(name for name, value in own.items() if value.ref() not in listed and name not in rates)
