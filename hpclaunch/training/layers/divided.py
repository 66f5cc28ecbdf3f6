"""Layers for activations of which each rank has a part of the last axis: dropout and batch normalization."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hpclaunch.training.model_parallel import groups, splits
from hpclaunch.training.model_parallel.splits import Split


class ParallelDropout(tf.keras.__internal__.layers.BaseRandomLayer):
    """Dropout between shared layers, where each rank has a part of the units, [..., n / ranks].

    axis: that of the units; 1 for the weights of attention, [b, heads / ranks, s, s]. Every rank draws the mask of all
    units, and uses its part: so the losses are those of the whole model.
    """

    def __init__(self, rate: float, axis: int = -1, seed: int | None = None, **named: Any) -> None:
        super().__init__(seed=seed, **named)
        self.rate, self.axis, self.seed = rate, axis, seed
        self.group = groups.tensor()

    def build(self, shape: Any) -> None:
        self._random_generator._maybe_init()
        super().build(shape)

    def call(self, inputs: Any, training: Any = None) -> Any:
        if training is None:
            training = tf.keras.backend.learning_phase()
        if not self.rate:
            return inputs
        if isinstance(training, (bool, int)):
            return self._drop(inputs) if training else inputs
        return tf.cond(tf.cast(training, tf.bool), lambda: self._drop(inputs), lambda: tf.identity(inputs))

    def _drop(self, x: Any) -> Any:
        axis = self.axis % x.shape.rank
        split = Split(axis, x.shape[axis] * self.group.size, self.group.size, self.group.index)
        shape = tf.concat([tf.shape(x)[:axis], [split.whole], tf.shape(x)[axis + 1 :]], 0)
        kept = split.part(self._random_generator.random_uniform(shape, dtype=tf.float32) >= self.rate)
        return tf.where(kept, x / tf.cast(1 - self.rate, x.dtype), tf.zeros([], x.dtype))

    def of_keras(self) -> Any:
        """The same layer of Keras, for all units."""
        return tf.keras.layers.Dropout(self.rate, name=self.name, dtype=self.dtype_policy, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate, "axis": self.axis, "seed": self.seed}


class ParallelBatchNormalization(tf.keras.layers.BatchNormalization):
    """Keras's batch normalization between shared layers: each rank has a part of the channels, [b, ..., c / ranks].

    The statistics are over the batch of the rank, which all ranks that share the layer have in common.
    """

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.group = groups.tensor()

    def build(self, shape: Any) -> None:
        super().build(shape)
        if self.group.size > 1:
            split = Split(0, shape[-1] * self.group.size, self.group.size, self.group.index)
            for variable in self.variables:
                splits.mark(variable, split)

    def of_keras(self) -> Any:
        """The same layer of Keras, for all channels."""
        return tf.keras.layers.BatchNormalization.from_config(self.get_config())
