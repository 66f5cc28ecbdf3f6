"""Activation recomputation: a block of a model keeps its input alone, and computes the rest again for the gradients."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hpclaunch.training.model_parallel.randomness import generators


class Recomputed(tf.keras.Model):
    """A functional model whose activations are computed again in the backward pass.

    block: one input and one output, float [b, ...]. Random numbers, such as dropout's masks, are the same both times,
    and statistics of batch normalization change once. Source: Chen et al. 2016, arXiv 1604.06174.
    """

    def __init__(self, block: Any, **named: Any) -> None:
        super().__init__(**named)
        self.block = block

    def call(self, inputs: Any, training: Any = None) -> Any:
        if training is None:
            training = tf.keras.backend.learning_phase()
        if isinstance(training, (bool, int)) and training:
            return recomputed(self.block, inputs)
        return self.block(inputs, training=training)


def recomputed(block: Any, x: Any) -> Any:
    """The outputs of a block in training, whose backward pass computes them again from x."""
    changing = [*block.non_trainable_variables, *(one.state for one in generators(block))]

    @tf.custom_gradient
    def function(x: Any) -> Any:
        before = [variable.read_value() for variable in changing]
        outputs = block(x, training=True)

        def backward(upstream: Any, variables: Any = None) -> Any:
            variables = list(variables or [])
            after = [variable.read_value() for variable in changing]
            _assign(changing, before)
            # Not before the gradient is there. Without this, TensorFlow would find that it has computed all of this
            # already, and keep it.
            with tf.control_dependencies([upstream]):
                again = tf.identity(x)
            with tf.GradientTape() as tape:
                tape.watch(again)
                outputs = block(again, training=True)
            _assign(changing, after)
            first, *others = tape.gradient(
                outputs, [again, *variables], upstream, unconnected_gradients=tf.UnconnectedGradients.ZERO
            )
            return (first, others) if variables else first

        return outputs, backward

    return function(x)


def _assign(variables: list[Any], values: list[Any]) -> None:
    for variable, value in zip(variables, values):
        variable.assign(value)
