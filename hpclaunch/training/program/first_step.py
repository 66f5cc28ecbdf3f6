"""Makes the variables of a training step before the first one: TensorFlow traces a step that makes variables twice."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hpclaunch.training.optimization import metric_variables, optimizer_state, precision


def make_variables(model: Any, batches: tf.data.Dataset) -> None:
    """Make those of the optimizer and of the metrics, where the shapes of a batch (inputs, targets) are known.

    Otherwise the first step makes them, as Keras does.
    """
    optimizer_state.variables(precision.unscaled(model.optimizer), model.trainable_variables)
    targets = _targets_of(batches)
    if targets is None or len(getattr(model, "outputs", None) or ()) != 1:
        return
    output = model.outputs[0]
    if None in output.shape[1:]:
        return
    metric_variables.make(model, output, targets)


def _targets_of(batches: tf.data.Dataset) -> Any:
    """One sample's targets, all zeros; None if their shape is not known, or a batch has other parts."""
    spec = batches.element_spec
    if not isinstance(spec, tuple) or len(spec) < 2 or not isinstance(spec[1], tf.TensorSpec):
        return None
    shape = spec[1].shape
    return None if shape.rank is None or None in shape[1:] else tf.zeros([1, *shape[1:]], spec[1].dtype)
