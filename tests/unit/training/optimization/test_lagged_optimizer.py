"""Gradient lag against sequences worked out by hand, and against the same optimizer without lag, one step later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

try:
    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.checkpoints.training_state import TrainingState
from hpclaunch.training.optimization import optimizers, reduction
from hpclaunch.training.optimization.lagged_optimizer import LaggedOptimizer
from hpclaunch.training.rank import legacy_keras
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World
from tests.unit.training.optimization.test_learning_rate import asked

assert hvd is not None
ALONE = World(0, 1, 0, 1, "host", "CPU", 1, ".")
GRADIENTS = [np.array([[3.0, -1.0]]), np.array([[0.5, 2.0]]), np.array([[-4.0, 1.0]]), np.array([[1.0, 1.0]])]
KINDS = {
    "sgd": lambda: optimizers.make("sgd", 0.1),
    "adam": lambda: legacy_keras.Adam(0.1),
    "lamb": lambda: optimizers.make("lamb", 0.1, weight_decay=0.1),
    "lars": lambda: optimizers.make("lars", 2.0, weight_decay=0.1),
    "keras": lambda: tf.keras.optimizers.Adam(0.1, clipnorm=0.5),
}


def quadratic(optimizer: Any) -> Any:
    """A model with one weight w, 1 at first, and the loss w^2, whose gradient is 2 w."""
    model = tf.keras.Sequential(
        [tf.keras.layers.Input(1), tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")]
    )
    model.compile(LaggedOptimizer(optimizer, model.trainable_variables, ALONE), "mse")
    return model


def after_a_step(model: Any) -> float:
    model.train_on_batch(np.ones((4, 1), np.float32), np.zeros((4, 1), np.float32))
    return float(model.trainable_variables[0].numpy()[0, 0])


def test_sgd_applies_the_gradient_of_the_step_before() -> None:
    """w(n+1) = w(n) - 0.1 x 2 w(n-1); the first step changes nothing."""
    model = quadratic(legacy_keras.SGD(0.1))
    assert [after_a_step(model) for _ in range(6)] == pytest.approx([1, 0.8, 0.6, 0.44, 0.32, 0.232], rel=1e-6)


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_optimizer_makes_its_steps_one_step_later(kind: str) -> None:
    """Also its count of updates, which Adam's bias correction needs; nothing decays in the first step."""
    lagged, plain = (tf.Variable([[1.0, 2.0]]) for _ in range(2))
    optimizer, reference = LaggedOptimizer(KINDS[kind](), [lagged], ALONE), KINDS[kind]()

    @tf.function
    def step(gradient: Any) -> None:
        optimizer.apply_gradients(zip(optimizer._allreduce([gradient], [lagged]), [lagged], strict=True))

    held = []
    for gradient in GRADIENTS:
        step(tf.constant(gradient, tf.float32))
        held.append(lagged.numpy())
    np.testing.assert_array_equal(held[0], [[1.0, 2.0]])
    for number, gradient in enumerate(GRADIENTS[:-1], 1):
        reference.apply_gradients([(tf.constant(gradient, tf.float32), plain)])
        np.testing.assert_allclose(held[number], plain.numpy(), rtol=1e-6)
    assert int(optimizer.iterations) == len(GRADIENTS) - 1


def test_a_checkpoint_has_the_gradient_that_waits(tmp_path: Path) -> None:
    """The next weights are those of an uninterrupted training: 0.44 follows 0.6 only with the gradient at 0.8."""
    before, after = quadratic(legacy_keras.SGD(0.1)), quadratic(legacy_keras.SGD(0.1))
    assert [after_a_step(before) for _ in range(3)][-1] == pytest.approx(0.6)
    arrays = dict(TrainingState(before, ALONE, seed=1).shared())
    assert list(arrays) == ["weight-000", "optimizer-000", "optimizer-001", "optimizer-002"]
    assert (int(arrays["optimizer-000"]), int(arrays["optimizer-001"])) == (2, 3)  # updates, steps
    assert arrays["optimizer-002"].tolist() == [[pytest.approx(1.6)]]
    state = TrainingState(after, ALONE, seed=1)
    state.put_shared(arrays)
    state.spread()
    assert [after_a_step(after) for _ in range(2)] == [after_a_step(before) for _ in range(2)]


def test_an_optimizer_that_needs_whole_variables_is_refused() -> None:
    if not hasattr(tf.keras.optimizers, "Adafactor"):
        pytest.skip("group training: this Keras has no Adafactor")
    with pytest.raises(AgreedError, match="--gradient-lag=true needs one of the settings' optimizers"):
        reduction.lagged(tf.keras.optimizers.Adafactor(), [tf.Variable([[1.0]])], ALONE, asked())
