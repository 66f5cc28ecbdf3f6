"""Which weights Muon takes, of models as people build them."""

from __future__ import annotations

from typing import Any

import pytest

try:
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.optimization.hidden_weights import Division, mark, name_of, rows_of

layers = tf.keras.layers


def language_model() -> Any:
    """An embedding, an attention, a dense block, a head for 50 tokens with a softmax of its own; all named."""
    tokens = layers.Input((16,), dtype="int32")
    x = layers.Embedding(50, 32, name="words")(tokens)
    x = x + layers.MultiHeadAttention(4, 8, name="attention")(x, x)
    x = layers.LayerNormalization(name="norm")(x)
    x = x + layers.Dense(32, name="down")(layers.Dense(64, activation="gelu", name="up")(x))
    return tf.keras.Model(tokens, layers.Softmax()(layers.Dense(50, name="head")(x)))


def test_of_a_language_model_muon_takes_the_blocks() -> None:
    """The embedding and the head are for AdamW, and biases of heads, which have two dimensions, are no matrices."""
    model = language_model()
    kernels = ["attention/query/kernel", "attention/key/kernel", "attention/value/kernel"]
    kernels += ["attention/attention_output/kernel", "up/kernel", "down/kernel"]
    biases = ["attention/query/bias", "attention/key/bias", "attention/value/bias"]
    found = mark(model)
    assert sorted(found.hidden) == sorted(kernels)
    assert sorted(found.others) == sorted([*biases, "words/embeddings", "head/kernel"])
    rows = {name_of(one): rows_of(one) for one in model.trainable_variables}
    assert (rows["attention/query/kernel"], rows["attention/attention_output/kernel"]) == (1, 2)
    assert {rows[name] for name in found.others} == {0}
    assert rows["norm/gamma"] == rows["up/bias"] == 0


def test_a_first_and_a_last_layer_are_found_through_layers_without_matrices() -> None:
    parts = [layers.Rescaling(1 / 255), layers.Conv2D(4, 3, name="first"), layers.BatchNormalization()]
    parts += [layers.SeparableConv2D(4, 3, name="apart"), layers.Conv2D(4, 3, name="inner"), layers.Flatten()]
    parts += [layers.Dense(5, name="before"), layers.ReLU(), layers.Dense(3, name="last"), layers.Dropout(0.1)]
    inner = tf.keras.Sequential(parts)
    inner.build((None, 20, 20, 3))
    expected = Division(
        ["apart/pointwise_kernel", "inner/kernel", "before/kernel"],
        ["first/kernel", "apart/depthwise_kernel", "last/kernel"],
    )
    assert mark(inner) == expected
    image = layers.Input((20, 20, 3))
    assert mark(tf.keras.Model(image, layers.Softmax()(inner(image)))) == expected, "a model in a model"


def test_every_input_and_every_output_has_its_layer() -> None:
    left, right = layers.Input((4,)), layers.Input((6,))
    x = layers.Dense(5, name="a")(left) + layers.Dense(5, name="b")(right)
    x = layers.Dense(5, name="c")(x)
    model = tf.keras.Model([left, right], [layers.Dense(1, name="d")(x), layers.Dense(2, name="e")(x)])
    assert mark(model) == Division(["c/kernel"], ["a/kernel", "b/kernel", "d/kernel", "e/kernel"])


def test_of_a_model_without_a_graph_the_order_of_its_layers_counts() -> None:
    class Own(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__(name="own")
            self.first, self.inner, self.last = (layers.Dense(4, name=name) for name in ("first", "inner", "last"))

        def call(self, inputs: Any) -> Any:
            return self.last(self.inner(self.first(inputs)))

    model = Own()
    model(tf.zeros([1, 3]))
    assert mark(model) == Division(["own/inner/kernel"], ["own/first/kernel", "own/last/kernel"])


def test_names_exclude_more_and_a_frozen_layer_is_not_counted() -> None:
    model = language_model()
    model.get_layer("up").trainable = False
    found = mark(model, ["attention/*", "*own/kernel"])
    assert found.hidden == [] and "up/kernel" not in found.others
    assert found.in_words() == "Muon takes no weight of this model: all are updated by AdamW."
    assert len(mark(model, only_hidden=False).hidden) == 7, "with the embedding and the head, without biases"
    with pytest.raises(ValueError, match=r"no weight with two dimensions is called router/\*; there are attention/att"):
        mark(model, ["attention/*", "router/*"])


def test_slopes_of_activations_are_no_matrices() -> None:
    parts = [layers.Conv2D(4, 3, name="a"), layers.PReLU(name="slopes"), layers.Conv2D(4, 3, name="b"), layers.PReLU()]
    model = tf.keras.Sequential([layers.Input((9, 9, 3)), *parts, layers.Flatten(), layers.Dense(2, name="head")])
    found = mark(model)
    assert found.hidden == ["b/kernel"] and "slopes/alpha" in found.others


def test_the_first_layer_above_a_frozen_base_is_a_hidden_one() -> None:
    base = tf.keras.Sequential([layers.Input((5,)), layers.Dense(6, name="base")], name="frozen")
    base.trainable = False
    model = tf.keras.Sequential([base, layers.Dense(8, name="trained"), layers.Dense(2, name="head")])
    model.build((None, 5))
    assert mark(model) == Division(["trained/kernel"], ["head/kernel"])


def test_a_run_says_what_muon_takes() -> None:
    assert Division(["a/kernel"], []).in_words() == (
        "Muon takes one matrix of the model; AdamW takes biases and normalization."
    )
    assert Division(["a/kernel", "b/kernel"], ["head/kernel", "words"]).in_words() == (
        "Muon takes 2 matrices of the model; AdamW takes biases and normalization, and head/kernel, words."
    )
