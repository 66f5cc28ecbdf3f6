"""Sums and averages of a few numbers over the ranks, by Horovod, or under a strategy of TensorFlow without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from hpclaunch.training.model_parallel import groups
from hpclaunch.training.rank.horovod import hvd
from hpclaunch.training.rank.world import World


def summed(world: World, values: Any, name: str) -> Any:
    """The sum of `values` (float64, of one shape) over the ranks with different samples, for two or more. A collective.

    name: of this sum alone.
    """
    if world.distribute is not None:
        return np.sum(world.gather(np.asarray(values, np.float64)), axis=0)
    own = tf.constant(values, tf.float64)
    return hvd.allreduce(own, op=hvd.Sum, name=name, process_set=groups.samples_set(world)).numpy()


def averaged(world: World, values: Any, name: str, of_all: bool = False) -> Any:
    """The average of `values`, otherwise as `summed`. of_all: over all ranks, also those with the same samples."""
    if world.distribute is not None:
        return np.mean(world.gather(np.asarray(values, np.float64)), axis=0)
    ranks = hvd.global_process_set if of_all else groups.samples_set(world)
    return hvd.allreduce(tf.constant(values, tf.float64), name=name, process_set=ranks).numpy()
