"""The reference models, parameter by parameter, and the images that TensorFlow decodes for class folders."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training import augmentation, batch_norm, datasets
from tests.builders import bundled_job
from tests.horovod.conftest import ROOT

SMALL = datasets.ImageSet("small", shape=(8, 8, 3), classes=2, job="small")


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
    with pytest.raises(datasets.DataError, match=r"class0/1\.JPG: not a readable image \(100 bytes"):
        source.read("train", np.arange(2))
    other.write_bytes(tf.io.encode_png(np.zeros((9, 8, 3), np.uint8)).numpy())
    with pytest.raises(datasets.DataError, match=r"class1/0\.png: the image is 9 x 8 x 3"):
        source.read("train", np.array([2]))


def test_training_batches_read_every_sample_once_an_epoch_in_a_new_order() -> None:
    from hpclaunch.training import pipeline

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


def probed(model: tf.keras.Model, batch: int) -> tuple[float, float]:
    """(FLOPs of the forward pass, bytes saved for backward) of a whole batch, from the graph; nothing is run."""
    spec = tf.TensorSpec((batch, *model.input_shape[1:]), tf.float32)
    function = tf.function(lambda x: tf.reduce_sum(model(x, training=True))).get_concrete_function(spec)
    own = len(function.graph.outputs)
    options = {**tf.compat.v1.profiler.ProfileOptionBuilder.float_operation(), "output": "none"}
    flops = tf.compat.v1.profiler.profile(function.graph, options=options).total_float_ops
    function._delayed_rewrite_functions.forward_backward()  # what GradientTape does: the residuals become outputs
    tensors = {id(one): one for one in function.graph.outputs[own:]}.values()
    kept = [one for one in tensors if one.op.type not in ("Const", "ReadVariableOp")]
    sizes = [one.dtype.size * one.shape.num_elements() for one in kept if one.shape.is_fully_defined()]
    return float(flops), float(sum(sizes))


@pytest.mark.parametrize("job", ["cifar", "mnist"])
def test_the_figures_in_the_job_file_are_those_of_the_model(job: str) -> None:
    training = bundled_job(job).training
    assert training is not None and training.model is not None
    model = getattr(model_of(job), training.model.split(":")[1])()
    trained = sum(int(tf.size(one)) for one in model.trainable_variables)
    assert training.figures["parameters"] == trained
    assert training.figures.get("fixed_parameters", 0) == model.count_params() - trained
    assert training.figures["largest_layer"] == max(layer.count_params() for layer in model.layers)
    (flops, small), (more_flops, large) = probed(model, 1), probed(model, 8)
    # Per sample: what grows with the batch. Some tensors (statistics, weights as matrices) do not.
    assert training.figures["flops_per_sample"] == pytest.approx((more_flops - flops) / 7, rel=1e-3)
    assert training.figures["saved_bytes_per_sample"] == pytest.approx((large - small) / 7, rel=1e-3)
