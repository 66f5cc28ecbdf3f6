"""Batch normalization over the batch of a rank, over small parts of it (ghost batches), or over those of all ranks."""

from __future__ import annotations

import itertools
from typing import Any, Callable

import tensorflow as tf

KINDS = ("none", "local", "ghost", "synchronized")


class GhostBatchNormalization(tf.keras.layers.Layer):
    """Batch normalization in which every `ghost_size` samples are normalized separately.

    Small batches give noisy statistics, which large-batch training otherwise lacks (Hoffer et al. 2017,
    arXiv 1705.08741, algorithm 1). The input is [b, ..., c], with statistics per channel c. A batch is divided into
    max(1, b // ghost_size) parts, whose sizes differ by at most one. The moving statistics for evaluation follow the
    mean of the parts' statistics.
    """

    def __init__(self, ghost_size: int = 32, momentum: float = 0.99, epsilon: float = 1e-3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ghost_size, self.momentum, self.epsilon = ghost_size, momentum, epsilon

    def build(self, shape: Any) -> None:
        def weight(name: str, start: str, trainable: bool) -> Any:
            # Unlike in Keras, these are not cast to 16 bits inside call(): everything is computed in float32.
            own = {"trainable": trainable, "dtype": tf.float32, "experimental_autocast": False}
            return self.add_weight(name=name, shape=(shape[-1],), initializer=start, **own)

        self.gamma = weight("gamma", "ones", True)
        self.beta = weight("beta", "zeros", True)
        self.moving_mean = weight("moving_mean", "zeros", False)
        self.moving_variance = weight("moving_variance", "ones", False)
        super().build(shape)

    def call(self, inputs: Any, training: Any = None) -> Any:
        if training is None:
            training = tf.keras.backend.learning_phase()
        if isinstance(training, (bool, int)):
            return self._normalize_parts(inputs) if training and self.trainable else self._normalize_by_moving(inputs)
        return tf.cond(
            tf.cast(training, tf.bool), lambda: self._normalize_parts(inputs), lambda: self._normalize_by_moving(inputs)
        )

    def _normalize_parts(self, inputs: Any) -> Any:
        x = tf.cast(inputs, tf.float32)  # squares overflow in float16, and lose digits in bfloat16
        samples, rank = tf.shape(x)[0], x.shape.rank
        parts = tf.maximum(1, samples // self.ghost_size)
        part = tf.range(samples) * parts // samples  # sample -> part
        inner = list(range(1, rank - 1))

        def of_parts(values: Any) -> Any:
            """Means over parts, [parts, c], and those of each sample's part, in a shape that fits x."""
            means = tf.math.unsorted_segment_mean(tf.reduce_mean(values, inner), part, parts)
            wide = tf.gather(means, part)
            return means, tf.reshape(wide, tf.concat([[samples], tf.ones(len(inner), tf.int32), [x.shape[-1]]], 0))

        means, mean = of_parts(x)
        centred = x - mean
        variances, variance = of_parts(tf.square(centred))
        self._follow(self.moving_mean, tf.reduce_mean(means, 0))
        self._follow(self.moving_variance, tf.reduce_mean(variances, 0))
        out = centred * tf.math.rsqrt(variance + self.epsilon) * self.gamma + self.beta
        return tf.ensure_shape(tf.cast(out, inputs.dtype), inputs.shape)

    def _normalize_by_moving(self, inputs: Any) -> Any:
        scale = self.gamma * tf.math.rsqrt(self.moving_variance + self.epsilon)
        x = tf.cast(inputs, tf.float32)
        return tf.cast((x - self.moving_mean) * scale + self.beta, inputs.dtype)

    def _follow(self, moving: Any, now: Any) -> None:
        moving.assign_sub((moving - tf.stop_gradient(now)) * (1 - self.momentum))

    def compute_output_shape(self, shape: Any) -> Any:
        return shape

    def get_config(self) -> dict[str, Any]:
        own = {"ghost_size": self.ghost_size, "momentum": self.momentum, "epsilon": self.epsilon}
        return {**super().get_config(), **own}


def maker(kind: str, ghost_size: int = 32, momentum: float = 0.99) -> Callable[[], Any]:
    """A function that makes a new normalization layer of `kind` (one of KINDS) for the channels of [b, ..., c].

    "local" is Keras's own: each rank normalizes its batch, which is usual at scale (Goyal et al. 2017). "synchronized"
    is Horovod's: k ranks train like one process with the whole batch, at the cost of an all-reduce per layer.
    """
    if kind == "none":
        return lambda: lambda x: x
    if kind == "local":
        return lambda: tf.keras.layers.BatchNormalization(momentum=momentum)
    if kind == "ghost":
        return lambda: GhostBatchNormalization(ghost_size, momentum=momentum)
    if kind == "synchronized":
        from hpclaunch.training.rank.horovod import hvd

        # By default Horovod gives all such layers the same name, but names in a model must differ.
        number = itertools.count()
        return lambda: hvd.SyncBatchNormalization(momentum=momentum, name="sync_batch_norm_{}".format(next(number)))
    raise ValueError("{!r} is not one of {}".format(kind, ", ".join(KINDS)))
