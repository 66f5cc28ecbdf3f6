"""Makes the variables of a model's loss and metrics, as the first step of Keras would."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def make(model: Any, output: Any, targets: Any) -> None:
    """Make those that are not there yet. output: of the whole model, with a known shape [b, ...]; targets: [b, ...]."""
    outputs = tf.zeros([1, *output.shape[1:]], output.dtype)
    if model.compiled_loss is not None and not model.compiled_loss.built:
        model.compiled_loss.build(outputs)
    if model.compiled_metrics is not None and not model.compiled_metrics.built:
        model.compiled_metrics.build(outputs, targets)
