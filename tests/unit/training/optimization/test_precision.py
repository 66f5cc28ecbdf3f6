"""The loss scale of float16: what it has found out can be put into a checkpoint and back."""

from __future__ import annotations

import pytest

try:
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from typing import Any

from hpclaunch.training.optimization import precision
from hpclaunch.training.rank import legacy_keras


def scaling() -> Any:
    return precision.scaled(legacy_keras.SGD(0.1), "float16")


def step(optimizer: Any, gradient: float) -> None:
    weight = tf.Variable(1.0)
    optimizer.apply_gradients([(tf.constant(gradient), weight)])


def state(optimizer: Any) -> list[float]:
    return [float(variable.numpy()) for variable in precision.scale_variables(optimizer)]


def test_the_scale_of_a_restored_run_goes_on() -> None:
    first, again = scaling(), scaling()
    assert state(first) == [2.0**15, 0]
    for gradient in (1.0, float("inf"), float("inf"), 1.0, 1.0, 1.0):
        step(first, gradient)
    assert state(first) == [2.0**13, 3]
    for new, old in zip(precision.scale_variables(again), precision.scale_variables(first), strict=True):
        new.assign(old)
    assert float(again.get_scaled_loss(tf.constant(1.0))) == 2.0**13
    for optimizer in (first, again):
        step(optimizer, float("nan"))
    assert state(first) == state(again) == [2.0**12, 0]


def test_without_loss_scaling_there_is_nothing_to_keep() -> None:
    assert precision.scale_variables(precision.scaled(legacy_keras.SGD(0.1), "bfloat16")) == []


def test_plain_variables_are_those_that_a_16_bit_layer_casts() -> None:
    precision.use("float16")
    try:
        layer = tf.keras.layers.Dense(2)
        layer.build((None, 3))
    finally:
        precision.use("float32")
    counter = tf.Variable(0)
    *plain, same = precision.plain([*layer.variables, counter])
    assert {type(variable).__name__ for variable in layer.variables} == {"AutoCastVariable"}
    assert all(type(variable) is type(counter) and variable.dtype == tf.float32 for variable in plain)
    assert same is counter
    plain[0].assign(tf.ones((3, 2)))
    assert float(tf.reduce_sum(layer.kernel)) == 6
