"""Self-attention whose heads are divided among the ranks."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hpclaunch.training.layers.divided import ParallelDropout
from hpclaunch.training.layers.parallel import Parallel
from hpclaunch.training.model_parallel import collectives

PROJECTIONS = ("query", "key", "value")
MASKED = -1e9  # before the softmax; -inf would make a gradient of NaN; float16 takes its own smallest number


class ParallelAttention(Parallel):
    """Multi-head self-attention, [b, s, n] to [b, s, n] on every rank; each rank computes heads / ranks of the heads.

    head_size: of a head; n / heads without one. causal: a position attends to itself and those before it, as in a GPT.
    dropout: of the attention weights. use_bias: of the four projections. Source: Vaswani et al. 2017, arXiv 1706.03762,
    section 3.2, divided as by Shoeybi et al. 2019, arXiv 1909.08053, section 3.
    """

    def __init__(
        self,
        heads: int,
        head_size: int = 0,
        causal: bool = False,
        dropout: float = 0.0,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        **named: Any,
    ) -> None:
        super().__init__(**named)
        self.heads, self.head_size, self.causal, self.dropout, self.use_bias = (
            heads,
            head_size,
            causal,
            dropout,
            use_bias,
        )
        self.kernel_initializer = tf.keras.initializers.get(kernel_initializer)
        self.drop = ParallelDropout(dropout, axis=1, name="dropout")

    def build(self, shape: Any) -> None:
        width = shape[-1]
        self.own_heads = self.split("heads", self.heads, 0).length
        self.each = self.head_size or width // self.heads
        inner = self.heads * self.each
        columns, rows = self.split("heads x head_size", inner, 1), self.split("heads x head_size", inner, 0)
        for name in PROJECTIONS:
            kernel = self.add_part(name + "_kernel", (width, inner), columns, self.kernel_initializer)
            setattr(self, name + "_kernel", kernel)
            if self.use_bias:
                setattr(self, name + "_bias", self.add_part(name + "_bias", (inner,), rows, "zeros"))
        self.output_kernel = self.add_part("output_kernel", (inner, width), rows, self.kernel_initializer)
        if self.use_bias:
            self.output_bias = self.add_weight(name="output_bias", shape=(width,), initializer="zeros")
        super().build(shape)

    def call(self, inputs: Any, training: Any = None) -> Any:
        x = collectives.enter(inputs, self.group, self.shared_name + ".enter")
        query, key, value = (self._heads(x, name) for name in PROJECTIONS)
        scores = tf.matmul(query, key, transpose_b=True) / tf.cast(self.each, query.dtype) ** 0.5  # [b, h, s, s]
        if self.causal:
            length = tf.shape(scores)[-1]
            later = tf.linalg.band_part(tf.ones([length, length], tf.bool), 0, -1) & ~tf.eye(length, dtype=tf.bool)
            scores = tf.where(later, tf.cast(max(MASKED, scores.dtype.min), scores.dtype), scores)
        weights = self.drop(tf.nn.softmax(scores), training=training)
        found = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])  # [b, s, h, head_size]
        shape = tf.shape(inputs)
        flat = tf.reshape(found, [shape[0], shape[1], self.own_heads * self.each])
        out = collectives.leave(tf.tensordot(flat, self.output_kernel, 1), self.group, self.shared_name + ".leave")
        out = out + self.output_bias if self.use_bias else out
        return tf.ensure_shape(out, inputs.shape)

    def _heads(self, x: Any, name: str) -> Any:
        """A projection of [b, s, n], as [b, own heads, s, head_size]."""
        found = tf.tensordot(x, getattr(self, name + "_kernel"), 1)
        if self.use_bias:
            found = found + getattr(self, name + "_bias")
        shape = tf.shape(x)
        return tf.transpose(tf.reshape(found, [shape[0], shape[1], self.own_heads, self.each]), [0, 2, 1, 3])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "heads": self.heads,
            "head_size": self.head_size,
            "causal": self.causal,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "kernel_initializer": tf.keras.initializers.serialize(self.kernel_initializer),
        }
