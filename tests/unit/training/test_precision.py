"""The loss scale of float16: what it has found out can be put into a checkpoint and back."""

from __future__ import annotations

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from typing import Any

from hpclaunch.training import legacy_keras, precision
from hpclaunch.training.failure import TrainingError


def scaling() -> Any:
    return precision.scaled(legacy_keras.SGD(0.1), "float16")


def step(optimizer: Any, gradient: float) -> None:
    weight = tf.Variable(1.0)
    optimizer.apply_gradients([(tf.constant(gradient), weight)])


def state(optimizer: Any) -> tuple[float, int]:
    held = precision.loss_scale_state(optimizer)
    return float(held["loss_scale"]), int(held["loss_scale_good_steps"])


def test_the_scale_of_a_restored_run_goes_on() -> None:
    first = scaling()
    assert state(first) == (2.0**15, 0)
    for gradient in (1.0, float("inf"), float("inf"), 1.0, 1.0, 1.0):
        step(first, gradient)
    assert state(first) == (2.0**13, 3)
    held = precision.loss_scale_state(first)
    assert [held[name].dtype for name in sorted(held)] == [np.float32, np.int64]
    again = scaling()
    precision.restore_loss_scale(again, {**held, "weight-000": np.zeros(3)})
    assert state(again) == (2.0**13, 3)
    assert float(again.get_scaled_loss(tf.constant(1.0))) == 2.0**13
    for optimizer in (first, again):
        step(optimizer, float("nan"))
    assert state(first) == state(again) == (2.0**12, 0)


def test_without_loss_scaling_there_is_nothing_to_keep() -> None:
    plain = precision.scaled(legacy_keras.SGD(0.1), "bfloat16")
    assert precision.loss_scale_state(plain) == {}
    precision.restore_loss_scale(plain, precision.loss_scale_state(scaling()))
    fresh = scaling()
    precision.restore_loss_scale(fresh, {})
    assert state(fresh) == (2.0**15, 0)


@pytest.mark.parametrize(("scale", "steps"), [(0.0, 1), (float("nan"), 1), (float("inf"), 1), (8.0, -1)])
def test_a_state_that_cannot_be_is_refused(scale: float, steps: int) -> None:
    with pytest.raises(TrainingError, match="loss scale is"):
        precision.restore_loss_scale(scaling(), {"loss_scale": scale, "loss_scale_good_steps": steps})
