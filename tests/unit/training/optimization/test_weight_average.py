"""The average of the weights of a Keras model, by its formula."""

from __future__ import annotations

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.optimization.weight_average import WeightAverage


@pytest.mark.parametrize(("kind", "rounding"), [("float32", 0.0), ("bfloat16", 2**-8)])
def test_the_average_of_weights_of_any_type_follows_its_formula(kind: str, rounding: float) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, dtype=kind)])
    model.build((None, 2))
    (weight,) = model.trainable_variables
    weight.assign(tf.ones((2, 1), kind))
    average, mean = WeightAverage(model, 0.999), np.ones((2, 1))
    for step in range(1, 21):
        weight.assign(tf.constant([[1.0 + step], [1.0 - step]], kind))
        average.step_ended()
        mean = 0.999 * mean + 0.001 * np.array([[1.0 + step], [1.0 - step]])
    (variable,) = average.variables
    assert variable.dtype == tf.float32 and np.allclose(variable.numpy(), mean, rtol=1e-6, atol=0)
    now, held = weight.numpy(), variable.numpy()
    with average.in_use():
        assert np.allclose(weight.numpy().astype(np.float32), held, rtol=rounding, atol=0)
    assert np.array_equal(weight.numpy(), now) and np.array_equal(variable.numpy(), held)
    average.take()
    assert np.allclose(weight.numpy().astype(np.float32), held, rtol=rounding, atol=0)
