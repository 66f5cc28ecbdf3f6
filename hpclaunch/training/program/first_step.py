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
    if targets is None or not getattr(model, "outputs", None):
        return
    if any(None in one.shape[1:] for one in model.outputs):
        return
    metric_variables.make(model, model.output, targets)


def _targets_of(batches: tf.data.Dataset) -> Any:
    """One sample's targets, all zeros; None if their shape is not known, or a batch has other parts."""
    spec = batches.element_spec
    if not isinstance(spec, tuple) or len(spec) < 2:
        return None
    for one in tf.nest.flatten(spec[1]):
        if not isinstance(one, tf.TensorSpec) or one.shape.rank is None or None in one.shape[1:]:
            return None
    return tf.nest.map_structure(lambda one: tf.zeros([1, *one.shape[1:]], one.dtype), spec[1])
