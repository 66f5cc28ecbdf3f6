"""The variables of an optimizer that a checkpoint has: all of them, before the first step, under names of its own."""

from __future__ import annotations

import pytest

try:
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.optimization import optimizer_state

keras = tf.keras.optimizers


@pytest.mark.parametrize("home", [keras, keras.legacy])
def test_all_variables_are_there_before_the_first_step(home: object) -> None:
    weights = [tf.Variable([1.0, 2.0]), tf.Variable([[3.0]])]
    optimizer = home.Adam(0.1)  # type: ignore[attr-defined]
    found = optimizer_state.variables(optimizer, weights)
    assert sorted(len(one.shape) for one in found) == [0, 1, 1, 2, 2]
    optimizer.apply_gradients(zip([tf.ones([2]), tf.ones([1, 1])], weights, strict=True))
    again = optimizer_state.variables(optimizer, weights)
    assert [one.ref() for one in again] == [one.ref() for one in found]
    assert int(found[0]) == 1 and optimizer_state.unknown(optimizer, weights) == []


def test_the_state_of_one_class_has_another_name_than_that_of_another() -> None:
    assert optimizer_state.name(keras.legacy.Adam()) == optimizer_state.name(keras.legacy.SGD()) == "optimizer"
    assert optimizer_state.name(keras.SGD()) == "optimizer-SGD"
    assert optimizer_state.name(keras.RMSprop()) == "optimizer-RMSprop"


def test_a_variable_that_the_optimizer_does_not_list_is_found() -> None:
    assert optimizer_state.unknown(keras.Nadam(), [tf.Variable([1.0])]) == ["_u_product"]
    assert optimizer_state.unknown(keras.legacy.Nadam(), [tf.Variable([1.0])]) == []
