"""A training step that computes gradients in parts of its batch, or compiled by XLA, and reduces them once."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow as tf

from hpclaunch.training.optimization import precision, reduction
from hpclaunch.training.optimization.gradient_norms import squared_norm


class StepInParts(tf.keras.Model):
    """A model whose step computes the gradients of `parts` parts of its batch one after the other, then reduces once.

    The result is that of the whole batch, with the memory of one part; only batch normalization sees the part alone.
    The last batch may be smaller, so parts are weighted by their samples. Compile the model with an optimizer of
    reduction.distributed.

    Horovod's own backward_passes_per_step is not used: it counts every part as a step in Adam's bias correction, and
    under float16 ranks could choose different loss scales.
    """

    def __init__(self, *args: Any, parts: int = 1, xla: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._parts = parts
        self._watch: Any = None
        self._gradients = tf.function(self._gradients_of_all, jit_compile=True) if xla else self._gradients_of_all

    def watch_parts(self, watcher: Callable[[Any, Any, Any], None]) -> None:
        """Call `watcher` in every step of several parts, before gradients are reduced.

        It takes float32 scalars: the mean of the parts' squared gradient norms, weighted by their samples; the squared
        norm of the whole batch's gradient; and the number of parts with samples.
        """
        self._watch = watcher if self._parts > 1 else None

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y, sample_weight = tf.keras.utils.unpack_x_y_sample_weight(data)
        variables = self.trainable_variables
        gradients = reduction.reduced(
            precision.unscaled(self.optimizer), self._gradients(x, y, sample_weight), variables
        )
        if hasattr(self.optimizer, "get_unscaled_gradients"):
            gradients = self.optimizer.get_unscaled_gradients(gradients)
        self.optimizer.apply_gradients(zip(gradients, variables))
        return {metric.name: metric.result() for metric in self.metrics}

    def _gradients_of_all(self, x: Any, y: Any, weight: Any) -> list[Any]:
        """The gradient of the mean loss over the batch (scaled under float16), per trainable variable.

        weight: the weight of every sample, float [b], or None. As in Keras, the weighted losses are divided by b.
        Each of the three may be several tensors, as tuples or dictionaries.
        """
        if self._parts == 1:
            return self._gradients_of(x, y, weight, 1.0)
        samples = tf.shape(tf.nest.flatten(y)[0])[0]
        size = tf.maximum(1, -(-samples // self._parts))

        def add(start: Any, squares: Any, sums: Any) -> Any:
            mine = slice(start, tf.minimum(start + size, samples))
            share = tf.cast(mine.stop - mine.start, tf.float64) / tf.cast(samples, tf.float64)
            of_x, of_y, of_weight = tf.nest.map_structure(
                lambda one: None if one is None else one[mine], (x, y, weight)
            )
            new = self._gradients_of(of_x, of_y, of_weight, share)
            if self._watch:
                squares += squared_norm(new) / tf.cast(
                    share, tf.float32
                )  # `new` is the part's gradient times its share
            return start + size, squares, [total + gradient for total, gradient in zip(sums, new)]

        zeros = [tf.zeros_like(variable) for variable in self.trainable_variables]
        # One part at a time: parallel parts would need the memory of the whole batch again.
        loop = tf.while_loop(lambda start, *_: start < samples, add, (0, 0.0, zeros), parallel_iterations=1)
        _, squares, gradients = loop
        if self._watch:
            self._watch(squares, squared_norm(gradients), tf.cast(-(-samples // size), tf.float32))
        return gradients

    def _gradients_of(self, x: Any, y: Any, weight: Any, share: Any) -> list[Any]:
        """The gradient of `share` times the mean loss of some samples; counts them in the metrics."""
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compute_loss(x, y, predicted, weight)
            loss *= tf.cast(share, loss.dtype)
            if hasattr(self.optimizer, "get_scaled_loss"):
                loss = self.optimizer.get_scaled_loss(loss)
        self.compute_metrics(x, y, predicted, weight)
        found = tape.gradient(loss, self.trainable_variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return [tf.convert_to_tensor(gradient) for gradient in found]


def has_own_step(model: Any) -> bool:
    """Whether the program has written the model's training step, which decides itself how it applies gradients."""
    step = getattr(model.train_step, "__func__", model.train_step)
    if step not in (tf.keras.Model.train_step, StepInParts.train_step):
        return True
    return type(model).make_train_function is not tf.keras.Model.make_train_function


def why_not_in_parts(model: Any) -> str:
    """What `in_parts` needs and this model has not, in words; empty if it can have that step."""
    if not getattr(model, "inputs", None):
        return "a functional or sequential model: this one is a subclass of Model, whose inputs are not known"
    if has_own_step(model):
        return "Keras's own train_step: that of {} would be left out".format(type(model).__name__)
    return ""


def in_parts(model: Any, parts: int, xla: bool = False) -> Any:
    """The functional or sequential `model` with this training step and the same weights, or itself if it needs none."""
    if parts == 1 and not xla:
        return model
    made = StepInParts(model.input, model.output, name=model.name, parts=parts, xla=xla)
    if hasattr(model, "whole_again"):
        made.whole_again = model.whole_again
    return made
