"""Ghost batch normalization against NumPy and Keras."""

from __future__ import annotations

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.optimization import batch_norm

X = np.random.RandomState(3).normal(5, 2, (11, 4, 4, 3)).astype(np.float32)


def normalized(part: np.ndarray) -> np.ndarray:
    axes = tuple(range(part.ndim - 1))
    return (part - part.mean(axes)) / np.sqrt(part.var(axes) + 1e-3)


@pytest.mark.parametrize("x", [X, X[:, 0, 0]], ids=["images", "features"])
def test_every_part_is_normalized_by_itself(x: np.ndarray) -> None:
    layer = batch_norm.GhostBatchNormalization(ghost_size=3, momentum=0.9)
    found = layer(tf.constant(x), training=True).numpy()
    parts = [x[:4], x[4:8], x[8:]]  # 11 // 3 parts, as equal as they can be
    np.testing.assert_allclose(found, np.concatenate([normalized(part) for part in parts]), atol=2e-5)
    axes = tuple(range(x.ndim - 1))
    mean, variance = [np.mean([getattr(p, kind)(axes) for p in parts], 0) for kind in ("mean", "var")]
    np.testing.assert_allclose(layer.moving_mean.numpy(), 0.1 * mean, rtol=1e-5)
    np.testing.assert_allclose(layer.moving_variance.numpy(), 0.9 + 0.1 * variance, rtol=1e-5)


def test_a_batch_of_one_part_is_keras_batch_norm() -> None:
    ghost = batch_norm.maker("ghost", ghost_size=100, momentum=0.9)()
    keras = tf.keras.layers.BatchNormalization(momentum=0.9, fused=False)
    for training in (True, False):
        np.testing.assert_allclose(ghost(X, training=training), keras(X, training=training), atol=2e-5)
    for mine, theirs in zip(ghost.get_weights(), keras.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def test_sixteen_bits_are_normalized_in_thirty_two() -> None:
    layer = batch_norm.GhostBatchNormalization(ghost_size=4, dtype="mixed_float16")
    found = layer(tf.constant(X * 300), training=True)  # squares of these overflow in float16
    assert found.dtype == tf.float16 and np.isfinite(found.numpy()).all()
    assert {variable.dtype for variable in layer.variables} == {tf.float32}


def test_a_kind_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="not one of none, local"):
        batch_norm.maker("group")
