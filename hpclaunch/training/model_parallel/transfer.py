"""What the stages of a pipeline send each other: a tensor from one rank to the other of a pair, over Horovod.

Horovod sends between two ranks by a broadcast in a group of two. TensorFlow takes this operation for a pure function.
So it would leave out a sending whose result nobody uses, and would compute a receiving while it optimises the graph, if
the argument were a constant. Both would let the other rank wait for ever.
"""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

from hpclaunch.training.model_parallel.groups import Group
from hpclaunch.training.rank.horovod import hvd


class Channel:
    """The connection of the ranks of a group, over which one of them sends to the others. name: the same on all."""

    def __init__(self, group: Group, name: str) -> None:
        self._group, self._name = group, name
        with tf.init_scope():
            self._zero = tf.Variable(0.0, trainable=False)  # no constant
            self._used = tf.Variable(0.0, trainable=False)

    def send(self, x: Any, name: str) -> Any:
        """Send x; returns the operation to wait for."""
        sent = self._broadcast(x, self._group.rank, name)
        return self._used.assign(tf.cast(tf.reshape(sent, [-1])[0], tf.float32), read_value=False)

    def receive(self, sender: int, like: tf.TensorSpec, samples: Any, name: str) -> Any:
        """What rank `sender` sends: `samples` (int32 scalar) of the shape of `like`, whose first axis is the batch."""
        shape = tf.concat([[samples], like.shape[1:].as_list()], 0)
        place = tf.fill(shape, tf.cast(self._zero.read_value(), like.dtype))
        return tf.ensure_shape(self._broadcast(place, sender, name), [None, *like.shape[1:]])

    def from_rank(self, sender: int, value: Any) -> Any:
        """The value of rank `sender`, of the same shape and type on all ranks, outside of a graph."""
        return self._broadcast(value, sender, "value")

    def share(self, values: Sequence[Any], sender: int, name: str) -> Any:
        """The same values (of any shapes and float types, at least one) of rank `sender` on all ranks, as float64 [n].

        They must not be constants, and all ranks must use the result.
        """
        flat = tf.concat([tf.reshape(tf.cast(one, tf.float64), [-1]) for one in values], 0)
        return self._broadcast(flat, sender, name)

    def _broadcast(self, x: Any, sender: int, name: str) -> Any:
        # Horovod 0.28 knows no bfloat16. A copy of its bits is the same as that of another format of 16 bits.
        sent = hvd.broadcast(
            tf.bitcast(x, tf.float16) if x.dtype == tf.bfloat16 else x,
            root_rank=sender,
            name="{}.{}".format(self._name, name),
            process_set=self._group.process_set,
            ignore_name_scope=True,
        )
        return tf.bitcast(sent, x.dtype) if x.dtype == tf.bfloat16 else sent
