"""Models in blocks, in one process: as the same layers without blocks, with and without recomputation."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

try:
    import horovod.tensorflow
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

import numpy as np
from tensorflow.python.eager import context

from hpclaunch.training.layers.blocks import in_blocks
from hpclaunch.training.model_parallel import groups
from hpclaunch.training.program import preparation
from hpclaunch.training.rank.failure import AgreedError, TrainingError

layers = tf.keras.layers
SAMPLES = np.random.RandomState(2).normal(size=(8, 6)).astype("float32")
WIDTH = 16
assert horovod.tensorflow


def begin(x: Any) -> Any:
    return layers.Dense(WIDTH, "tanh")(x)


def block(x: Any) -> Any:
    y = layers.Dropout(0.5)(layers.Dense(WIDTH, "gelu")(layers.BatchNormalization()(x)))
    return x + layers.Dense(WIDTH)(y)


def end(x: Any) -> Any:
    return layers.Dense(1)(x)


def chain(recompute: bool = False, width: int = WIDTH) -> Any:
    random.seed(7)
    tf.keras.backend.experimental.enable_tf_random_generator()
    groups._Here.recompute = recompute
    return in_blocks(tf.keras.Input(6), [begin, block, block, block, end], [width], name="chain")


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    was = tf.keras.backend.experimental.is_tf_random_generator_enabled()
    yield
    groups._Here.recompute = False
    if not was:
        tf.keras.backend.experimental.disable_tf_random_generator()


def trained(model: Any) -> list[float]:
    model.compile("sgd", "mse")
    return [float(model.train_on_batch(SAMPLES, SAMPLES[:, :1])) for _ in range(4)]


def test_recomputation_changes_neither_losses_nor_statistics() -> None:
    """With dropout, whose masks are the same both times, and batch normalization, whose statistics change once."""
    plain, again = chain(), chain(recompute=True)
    assert trained(again) == pytest.approx(trained(plain), rel=1e-6)
    for one, other in zip(again.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(again.predict(SAMPLES, verbose=0), plain.predict(SAMPLES, verbose=0), rtol=1e-4)


def products(model: Any) -> int:
    """The matrix products of a step, after TensorFlow has left out what it finds twice."""

    @tf.function
    def gradients(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=True) ** 2)
        return tape.gradient(loss, model.trainable_variables)

    context.context().enable_run_metadata()
    gradients(SAMPLES)
    metadata = context.context().export_run_metadata()
    context.context().disable_run_metadata()
    nodes = [node for graph in metadata.partition_graphs for node in graph.node]
    return sum("MatMul" in node.op for node in nodes)


def test_the_blocks_are_really_computed_again() -> None:
    # The first of two dense layers in each of three blocks: no gradient needs what the second one gives.
    assert products(chain(recompute=True)) == products(chain()) + 3


def test_the_whole_model_can_be_made_again_with_the_same_weights() -> None:
    model = chain(recompute=True)
    with groups.whole_models():
        copy = model.whole_again()
    assert [one.shape for one in copy.get_weights()] == [one.shape for one in model.get_weights()]
    np.testing.assert_array_equal(copy.get_weights()[0], model.get_weights()[0])
    assert not any(isinstance(layer, tf.keras.Model) for layer in copy.layers)


def test_a_block_does_not_depend_on_the_blocks_before_it() -> None:
    """So a rank that makes the last stage alone begins with the same weights."""
    first, longer = chain(), None
    random.seed(7)
    longer = in_blocks(tf.keras.Input(6), [begin, begin_twice, block, block, end], [WIDTH])
    np.testing.assert_array_equal(first.get_weights()[-2], longer.get_weights()[-2])


def begin_twice(x: Any) -> Any:
    return layers.Dense(WIDTH)(layers.Dense(3)(x))


def test_another_shape_between_blocks_is_refused() -> None:
    with pytest.raises(TrainingError, match=r"block 0 of the model chain gives float32 \[16\], but between=\[17\]"):
        chain(width=17)


def test_a_mask_is_refused_where_it_would_be_lost() -> None:
    def begin_with_mask(x: Any) -> Any:
        return layers.Embedding(9, WIDTH, mask_zero=True)(x)

    def make() -> Any:
        return in_blocks(tf.keras.Input(6), [begin_with_mask, end], [6, WIDTH])

    assert make().layers
    groups._Here.recompute = True
    with pytest.raises(TrainingError, match="gives a mask, which neither stages nor recomputation pass on"):
        make()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"pipeline_stages": 2}, "--pipeline-stages=2 needs a model that training.layers.in_blocks makes"),
        ({"recompute": True}, "--recompute=true needs a model that training.layers.in_blocks makes"),
        ({"pipeline_stages": 2, "recompute": True}, "--pipeline-stages=2 and --recompute=true need a model"),
    ],
)
def test_a_model_without_blocks_cannot_be_divided(asked: dict[str, Any], words: str) -> None:
    run: Any = SimpleNamespace(settings=SimpleNamespace(**asked), is_root=True)
    with pytest.raises(AgreedError, match=words):
        preparation._check_division(run, chain())
    preparation._check_division(SimpleNamespace(settings=SimpleNamespace(), is_root=True), chain())
    recomputed: Any = SimpleNamespace(settings=SimpleNamespace(recompute=True), is_root=True)
    preparation._check_division(recomputed, chain(recompute=True))
