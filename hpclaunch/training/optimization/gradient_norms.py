"""Measures the norms of gradients on one rank, before and after Horovod averages them; it changes no gradient."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow as tf

from hpclaunch.training.rank.horovod import hvd
from hpclaunch.training.rank.world import World

Watcher = Callable[[Any, Any], None]
"""Takes two squared norms (float32 scalars): the mean over the ranks' own gradients, and that of their average."""


def watch(optimizer: Any, world: World, watcher: Watcher) -> None:
    """Call `watcher` in every step of `optimizer` (of reduction.distributed), on more than one rank.

    All watchers share one pass over the gradients and one 4-byte all-reduce per step, which is a collective.
    """
    if world.size == 1:
        return
    if hasattr(optimizer, "_watchers"):
        optimizer._watchers.append(watcher)
        return
    optimizer._watchers = [watcher]
    inner = optimizer._allreduce_grads

    def watched(gradients: Any, *rest: Any, **named: Any) -> Any:
        gradients = list(gradients)
        reduced = inner(gradients, *rest, **named)
        # float32 like the gradients, so that Horovod sends it together with the last of them.
        one = hvd.allreduce(squared_norm(gradients), name="gradient_norm")
        both = squared_norm(reduced)
        for tell in optimizer._watchers:
            tell(one, both)
        return reduced

    optimizer._allreduce_grads = watched


def squared_norm(gradients: Any) -> Any:
    """The squared norm of all gradients together, float32."""
    dense = [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]
    return tf.add_n([2 * tf.nn.l2_loss(tf.cast(gradient, tf.float32)) for gradient in dense])
