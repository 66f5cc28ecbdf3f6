"""The reference models, parameter by parameter, and the images that TensorFlow decodes for class folders."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training import model_probe
from hpclaunch.training.input import augmentation, datasets
from hpclaunch.training.input.source import DataError, ImageSet
from hpclaunch.training.optimization import batch_norm
from tests.builders import bundled_job
from tests.horovod.conftest import ROOT
from tests.tiers import LONG

# Other versions of TensorFlow build the same step of some operations more or fewer.
IS_DEFAULT = tf.__version__.startswith("2.15.")
OPERATIONS = 0.02 if IS_DEFAULT else 0.05
SMALL = ImageSet("small", shape=(8, 8, 3), classes=2, job="small")


def model_of(job: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{job}_model", ROOT / "jobs" / job / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(spec.name, None)
    return module


@pytest.mark.parametrize(("kind", "parameters"), [("none", 482_442), ("local", 490_378), ("ghost", 490_378)])
def test_mini_resnet_has_the_reference_parameters(kind: str, parameters: int) -> None:
    model = model_of("cifar").mini_resnet(batch_norm.maker(kind))
    assert model.count_params() == parameters
    assert model.output_shape == (None, 10)


def reference_resnet() -> tf.keras.Model:
    """The notebook's mini-ResNet without batch norm, as its layers stand there: 1 x 1 convolutions with strides."""
    layers = tf.keras.layers

    def residual(x: Any, narrow: int, wide: int, stride: int) -> Any:
        y = layers.Conv2D(narrow, 1, strides=stride, activation="relu")(x)
        y = layers.Conv2D(narrow, 3, padding="same", activation="relu")(y)
        y = layers.Conv2D(wide, 1)(y)
        return layers.ReLU()(layers.Add()([y, layers.Conv2D(wide, 1, strides=stride)(x)]))

    image = layers.Input((32, 32, 3))
    x = layers.Conv2D(64, 7, strides=2, activation="relu")(layers.ZeroPadding2D(3)(image))
    x = layers.MaxPooling2D(3, strides=2)(x)
    x = residual(residual(x, 64, 256, 1), 128, 512, 2)
    x = layers.Flatten()(layers.AveragePooling2D(2, padding="same")(x))
    return tf.keras.Model(image, layers.Dense(10, activation="softmax")(x))


def test_mini_resnet_computes_what_the_reference_computes() -> None:
    model, reference = model_of("cifar").mini_resnet(batch_norm.maker("none")), reference_resnet()
    reference.set_weights(model.get_weights())
    images = np.random.RandomState(1).rand(6, 32, 32, 3).astype(np.float32)
    found, gradients = [], []
    for one in (model, reference):
        with tf.GradientTape() as tape:
            found.append(one(images, training=True))
            loss = tf.reduce_sum(found[-1][:, 0])
        gradients.append(tape.gradient(loss, one.trainable_variables))
    np.testing.assert_allclose(*found, atol=1e-6)
    for mine, theirs in zip(*gradients, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
        assert np.abs(theirs).max() > 1e-4  # or nothing was compared


def test_mnist_cnn_has_the_reference_parameters() -> None:
    assert model_of("mnist").cnn().count_params() == 1_199_882


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_images_as_they_are_give_what_scaled_ones_give(policy: str) -> None:
    images = np.random.RandomState(1).randint(0, 256, (6, 28, 28, 1)).astype(np.uint8)
    tf.keras.mixed_precision.set_global_policy(policy)
    try:
        scaled, whole = model_of("mnist").cnn(), model_of("mnist").cnn(white=255)
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    whole.set_weights(scaled.get_weights())
    expected = scaled(augmentation.to_float(images), training=False)
    for given in (images, images.astype(np.float32)):
        np.testing.assert_allclose(whole(given, training=False), expected, atol=1e-6)
    assert np.abs(whole(images // 2, training=False) - expected).max() > 1e-3  # it does depend on them


def write_images(folder: Path) -> Path:
    for split in ("train", "test"):
        for label in range(2):
            place = folder / split / f"class{label}"
            place.mkdir(parents=True)
            image = np.full((8, 8, 3), 100 * label + 50, np.uint8)
            (place / "0.png").write_bytes(tf.io.encode_png(image).numpy())
            (place / "1.JPG").write_bytes(tf.io.encode_jpeg(image, quality=100).numpy())
    return folder


def test_class_folders_are_decoded(tmp_path: Path) -> None:
    source = datasets.open_dataset(str(write_images(tmp_path)), SMALL)
    images, labels = source.read("train", np.array([3, 0]))
    assert list(labels) == [1, 0]
    assert (images[0] == 150).all() and (images[1] == 50).all()


def test_an_image_that_is_damaged_or_of_another_size_is_named(tmp_path: Path) -> None:
    source = datasets.open_dataset(str(write_images(tmp_path)), SMALL)
    truncated, other = tmp_path / "train" / "class0" / "1.JPG", tmp_path / "train" / "class1" / "0.png"
    truncated.write_bytes(truncated.read_bytes()[:100])
    with pytest.raises(DataError, match=r"class0/1\.JPG: not a readable image \(100 bytes"):
        source.read("train", np.arange(2))
    other.write_bytes(tf.io.encode_png(np.zeros((9, 8, 3), np.uint8)).numpy())
    with pytest.raises(DataError, match=r"class1/0\.png: the image is 9 x 8 x 3"):
        source.read("train", np.array([2]))


def test_training_batches_read_every_sample_once_an_epoch_in_a_new_order() -> None:
    from hpclaunch.training.input import pipeline

    images, labels = np.arange(10, dtype=np.uint8).reshape(10, 1, 1, 1), np.arange(10, dtype=np.int64)
    batches = iter(pipeline.training_batches(images, labels, batch_size=4, seed=1, rank=0))
    epochs = [[next(batches) for _ in range(3)] for _ in range(2)]
    for epoch in epochs:
        assert [len(batch_labels) for _, batch_labels in epoch] == [4, 4, 2]
        assert sorted(np.concatenate([batch_labels for _, batch_labels in epoch])) == list(range(10))
        for batch_images, batch_labels in epoch:
            assert batch_images.dtype == tf.float32
            assert np.allclose(batch_images.numpy().ravel() * 255, batch_labels)
    orders = [list(np.concatenate([batch_labels for _, batch_labels in epoch])) for epoch in epochs]
    assert orders[0] != orders[1]
    resumed = iter(pipeline.training_batches(images, labels, batch_size=4, seed=1, rank=0, first_epoch=1))
    assert list(next(resumed)[1].numpy()) == orders[1][:4]


@pytest.mark.parametrize("job", ["chips", "cifar", "cosmoflow", "mnist", *(["resnet50"] if LONG else [])])
def test_the_figures_in_the_job_file_are_those_of_the_model(job: str) -> None:
    training = bundled_job(job).training
    assert training is not None and training.model is not None
    model = getattr(model_of(job), training.model.split(":")[1])()
    found = model_probe.figures(model)
    assert not found["saved_at_most"] and not found["flops_at_least"]
    assert found["parameters"] + found["fixed_parameters"] == model.count_params()
    for name in ("parameters", "fixed_parameters", "largest_layer", "flops_per_sample", "saved_bytes_per_sample"):
        assert training.figures.get(name, 0) == pytest.approx(found[name], rel=1e-3), name
    # SGD updates a variable with 8 operations where Adam, whose operations the look counts, needs 21.
    fewer = 13 * len(model.trainable_variables) if job in ("cosmoflow", "resnet50") else 0
    assert training.figures["operations"] == pytest.approx(found["operations"] - fewer, rel=OPERATIONS)


@pytest.mark.parametrize("sizes", [(2, 128, 4, 64, 1024), *([(3, 96, 3, 24, 400)] if LONG else [])])
def test_the_formulas_of_the_transformer_give_the_figures_of_its_models(sizes: tuple[int, ...]) -> None:
    layers, hidden, _, context, vocabulary = sizes
    names = ("layers", "hidden", "heads", "context", "vocabulary")
    training = bundled_job("transformer").sized(zip(names, map(str, sizes), strict=True)).training
    assert training is not None
    figures, found = training.figures, model_probe.figures(model_of("transformer").gpt(*sizes))
    assert figures["parameters"] == found["parameters"]
    assert figures["operations"] == pytest.approx(found["operations"], rel=0 if IS_DEFAULT else OPERATIONS)
    # The probe knows no loss, which keeps the logits. Other versions keep up to a tenth more.
    kept = figures["saved_bytes_per_sample"] - 4 * context * vocabulary
    assert kept == pytest.approx(found["saved_bytes_per_sample"], rel=0 if IS_DEFAULT else 0.12)
    # The formula leaves out normalization, GELU and softmax: a small part of models that are not this small.
    assert figures["flops_per_sample"] == pytest.approx(found["flops_per_sample"], rel=0.04)
    assert found["largest_layer"] <= figures["largest_layer"] <= 2 * found["largest_layer"]
    # The ends and the blocks are the whole; a block keeps less than it saves.
    ends = figures["first_stage_parameters"] + figures["last_stage_parameters"]
    assert figures["parameters"] - ends == layers * (12 * hidden * hidden + 13 * hidden)
    assert figures["kept_bytes_per_sample"] < figures["saved_bytes_per_sample"]
    inside = figures["saved_bytes_per_sample"] - layers * figures["layer_bytes_per_sample"]
    assert inside == figures["kept_bytes_per_sample"] - layers * 4 * hidden * context


def a_small_model() -> tf.keras.Model:
    """A convolution of one layer, and one layer of a model inside it that is called twice."""
    image = tf.keras.Input((8, 8, 3))
    first = tf.keras.layers.Conv2D(4, 3, padding="same", use_bias=False)
    inner = tf.keras.Sequential([tf.keras.Input((8, 8, 4)), tf.keras.layers.Conv2D(4, 1, use_bias=False)])
    return tf.keras.Model(image, inner(inner(first(image))))


def test_a_model_counts_as_worked_out_by_hand() -> None:
    found = model_probe.figures(a_small_model())
    assert (found["parameters"], found["fixed_parameters"], found["largest_layer"]) == (3 * 9 * 4 + 16, 0, 3 * 9 * 4)
    convolutions = 2 * 64 * 4 * (3 * 9 + 4 + 4)
    assert found["flops_per_sample"] == pytest.approx(convolutions + 64 * 4, abs=2)  # the sum at the end, too
    kinds = [(kind, parameters, outputs) for _, kind, parameters, outputs in found["layers"] if parameters]
    # The inner layer's own outputs: its own model's, beside those of both calls.
    assert kinds[0] == ("Conv2D", 3 * 9 * 4, 64 * 4) and kinds[1][:2] == ("Conv2D", 16)
    # Two convolutions with their gradients, the sum at the end, and Adam's updates of two variables.
    assert 2 * 21 + 20 + 6 <= found["operations"] <= 2 * 21 + 20 + 30
    # Kept: the image, and the outputs of the first two convolutions.
    assert (found["saved_bytes_per_sample"], found["saved_at_most"]) == (4 * 64 * (3 + 4 + 4), False)


def test_a_recurrent_model_has_bounds_instead_of_figures() -> None:
    layers = tf.keras.layers
    model = tf.keras.Sequential([tf.keras.Input((20, 6)), layers.LSTM(32, return_sequences=True), layers.LSTM(16)])
    found = model_probe.figures(model)
    assert found["flops_at_least"] and found["saved_at_most"]
    assert found["saved_bytes_per_sample"] == 4 * (20 * 32 + 16)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("", "m has no function make"),
        ("make = lambda size: None", "TypeError: <lambda>() missing 1 required positional argument: 'size'"),
        ("make = lambda: 3", "m:make returns no Keras model with an Input"),
        ("import tensorflow as tf\nmake = lambda: tf.keras.Sequential([tf.keras.Input((None, 3))])", "no fixed shape"),
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
    ],
)
def test_a_model_that_cannot_be_looked_at_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: str,
    words: str,
) -> None:
    (tmp_path / "m.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "m", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert model_probe.main(["m:make", str(tmp_path / "found.json")]) == 1
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "found.json").exists()
