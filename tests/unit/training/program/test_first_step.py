"""A step whose variables are there is traced once, with the results of one that makes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

try:
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed", allow_module_level=True)

from hpclaunch.training.optimization.lamb import AdamW
from hpclaunch.training.program import first_step


class Trained:
    """A small model after two epochs, the number of its traces, and its last loss and error."""

    def __init__(self, make_first: bool) -> None:
        traces = []

        def loss(expected: Any, found: Any) -> Any:
            traces.append(1)
            return tf.reduce_mean(tf.square(expected - found), axis=-1)

        tf.keras.backend.clear_session()
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(3,))])
        model.compile(optimizer=AdamW(0.01), loss=loss, metrics=["mae"])
        values = np.arange(24, dtype="float32").reshape(8, 3) / 24
        batches = tf.data.Dataset.from_tensor_slices((values, values[:, :1])).batch(4)
        if make_first:
            first_step.make_variables(model, batches)
        history = model.fit(batches, epochs=2, verbose=0).history
        self.traces = len(traces)
        self.found = [history["loss"][-1], history["mae"][-1]]
        self.state = len(model.optimizer.weights)


def test_a_step_is_traced_once_and_has_the_same_results() -> None:
    usual, made = Trained(make_first=False), Trained(make_first=True)
    assert (usual.traces, made.traces) == (2, 1)
    assert made.found == usual.found
    assert made.state == usual.state > 1


def test_targets_of_an_unknown_shape_are_left_to_keras() -> None:
    batches = tf.data.Dataset.from_generator(
        lambda: iter([(np.ones((2, 3)), np.ones((2, 1)))]),
        output_signature=(tf.TensorSpec([None, 3]), tf.TensorSpec(None)),
    )
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])
    model.compile(optimizer=AdamW(0.01), loss="mse", metrics=["mae"])
    first_step.make_variables(model, batches)
    assert not model.compiled_metrics.built
    assert len(model.optimizer.weights) == 5  # the step count, and two for each weight
