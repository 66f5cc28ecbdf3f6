"""What ranks that share a layer exchange, with its gradient: Megatron's f and g, and the parts of a last axis.

Source: Shoeybi et al. 2019, arXiv 1909.08053, section 3. Horovod's own gradients add up once more, which would be right
for a sum of the ranks' losses; here all ranks of a group have the same loss. Each function gets a name that is the same
on all ranks, and returns its argument if the group has one rank. Scopes of TensorFlow are no part of the name: they
contain names of models, which differ if one rank has made a model that the others have not.
"""

from __future__ import annotations

import itertools
from typing import Any

import tensorflow as tf

from hpclaunch.training.model_parallel.groups import Group
from hpclaunch.training.rank.horovod import hvd

_calls = itertools.count()


def _unique(name: str) -> str:
    """A name for one call in a graph, which may call a layer twice, and run both calls at the same time."""
    return name if tf.executing_eagerly() else "{}.{}".format(name, next(_calls))


def enter(x: Any, group: Group, name: str) -> Any:
    """Megatron's f, before a layer whose outputs are divided: x itself; its gradient is the sum over the group."""
    if group.size == 1:
        return x
    name = _unique(name)

    @tf.custom_gradient
    def function(x: Any) -> Any:
        return tf.identity(x), lambda upstream: total(upstream, group, name + ".gradient")

    return function(x)


def leave(x: Any, group: Group, name: str) -> Any:
    """Megatron's g, after a layer whose inputs are divided: the sum over the group; the gradient passes unchanged."""
    if group.size == 1:
        return x
    name = _unique(name)

    @tf.custom_gradient
    def function(x: Any) -> Any:
        return total(x, group, name), lambda upstream: upstream

    return function(x)


def join(x: Any, group: Group, name: str) -> Any:
    """The parts of the last axis put together, on every rank of the group; the gradient is this rank's part."""
    if group.size == 1:
        return x
    name, length = _unique(name), x.shape[-1]

    @tf.custom_gradient
    def function(x: Any) -> Any:
        begin = group.index * length
        return joined(x, group, name), lambda upstream: upstream[..., begin : begin + length]

    return function(x)


def divide(x: Any, group: Group, name: str) -> Any:
    """This rank's part of the last axis of x, which all ranks of the group have; the gradient is that of all parts."""
    if group.size == 1:
        return x
    name, length = _unique(name), x.shape[-1] // group.size
    begin = group.index * length

    @tf.custom_gradient
    def function(x: Any) -> Any:
        return x[..., begin : begin + length], lambda upstream: joined(upstream, group, name + ".gradient")

    return function(x)


def total(x: Any, group: Group, name: str) -> Any:
    """The sum over the group, without a gradient."""
    found = hvd.allreduce(_wire_format(x), op=hvd.Sum, name=name, process_set=group.process_set, ignore_name_scope=True)
    return tf.cast(found, x.dtype)


def summed(x: Any, group: Group, name: str) -> Any:
    """The sum over a group of any size, without a gradient."""
    return x if group.size == 1 else total(x, group, name)


def largest(x: Any, group: Group, name: str) -> Any:
    """The largest value over the group, element by element, without a gradient."""
    if group.size == 1:
        return x
    found = hvd.allreduce(_wire_format(x), op=hvd.Max, name=name, process_set=group.process_set, ignore_name_scope=True)
    return tf.cast(found, x.dtype)


def joined(x: Any, group: Group, name: str, axis: int = -1) -> Any:
    """The parts of an axis put together, without a gradient."""
    if group.size == 1:
        return x
    axis = axis % x.shape.rank
    rank = x.shape.rank
    sent = _wire_format(x)[None]
    parts = hvd.allgather(sent, name=name, process_set=group.process_set, ignore_name_scope=True)  # [parts, ...]
    parts = tf.cast(parts, x.dtype)
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank + 1)]
    shape = tf.concat([tf.shape(x)[:axis], [group.size * x.shape[axis]], tf.shape(x)[axis + 1 :]], 0)
    whole = tf.reshape(tf.transpose(parts, order), shape)
    return tf.ensure_shape(whole, [*x.shape[:axis], group.size * x.shape[axis], *x.shape[axis + 1 :]])


def _wire_format(x: Any) -> Any:
    """A tensor as it travels: Horovod 0.28 takes no bfloat16 from TensorFlow, and a sum in float32 rounds only once."""
    return tf.cast(x, tf.float32) if x.dtype == tf.bfloat16 else x
