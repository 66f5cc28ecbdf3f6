"""Makes the variables of a model's loss and metrics, as the first step of Keras would."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def make(model: Any, output: Any, targets: Any) -> None:
    """Make those that are not there yet. output: of the whole model, with a known shape [b, ...]; targets: [b, ...].

    Both may be several, as tuples or dictionaries.
    """
    outputs = tf.nest.map_structure(lambda one: tf.zeros([1, *one.shape[1:]], one.dtype), output)
    if model.compiled_loss is not None and not model.compiled_loss.built:
        model.compiled_loss.build(outputs)
    if model.compiled_metrics is not None and not model.compiled_metrics.built:
        if tf.nest.is_nested(outputs):  # as Keras does before it builds them
            targets = model.compiled_metrics._conform_to_outputs(outputs, targets)
        model.compiled_metrics.build(outputs, targets)
