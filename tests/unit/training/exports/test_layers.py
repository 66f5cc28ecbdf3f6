"""The list of a model's layers: shapes without the batch, inner models in their place, what Keras does not know."""

from __future__ import annotations

import pytest

try:
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed", allow_module_level=True)

from hpclaunch.training.exports.layers import layers_of


def rows(model: tf.keras.Model) -> list[tuple[str, list[int], int]]:
    return [(one["kind"], one["shape"], one["parameters"]) for one in layers_of(model)]


def test_a_network_with_an_inner_model_is_listed_layer_by_layer() -> None:
    layers = tf.keras.layers
    inner = tf.keras.Sequential([layers.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.BatchNormalization()])
    model = tf.keras.Sequential([layers.Input((8, 8, 3)), inner, layers.Flatten(), layers.Dense(2)])
    expected = [("Conv2D", [6, 6, 4], 112), ("BatchNormalization", [6, 6, 4], 16)]
    assert rows(model) == [*expected, ("Flatten", [144], 0), ("Dense", [2], 290)]
    assert sum(parameters for *_, parameters in rows(model)) == model.count_params()
    assert len({one["name"] for one in layers_of(model)}) == 4


def test_lengths_and_shapes_that_are_not_known() -> None:
    layers = tf.keras.layers
    words = tf.keras.Input((None,), dtype=tf.int64)
    model = tf.keras.Model(words, layers.LSTM(5, return_state=True)(layers.Embedding(7, 3)(words)))
    assert rows(model) == [("InputLayer", [0], 0), ("Embedding", [0, 3], 21), ("LSTM", [5], 180)]

    class Own(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = layers.Dense(2)

        def call(self, inputs: tf.Tensor) -> tf.Tensor:
            return self.dense(inputs)

    own = Own()
    own(tf.zeros([1, 3]))
    assert rows(own)[0][0::2] == ("Dense", 8)
    assert rows(Own()) == [("Dense", [], 0)]


def test_a_layer_with_several_shapes_has_none() -> None:
    shared = tf.keras.layers.Conv2D(1, 1)
    inputs = [tf.keras.Input((size, size, 1)) for size in (4, 6)]
    model = tf.keras.Model(inputs, [shared(one) for one in inputs])
    assert rows(model)[-1] == ("Conv2D", [], 2)
