"""The files of models of every kind, read by Keras, by tf.saved_model and by NumPy."""

from __future__ import annotations

import pytest

try:
    import horovod.tensorflow
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpclaunch.training.exports import files, portable
from hpclaunch.training.optimization import batch_norm, precision, training_step

layers = tf.keras.layers
RANDOM = np.random.RandomState(2)
FEATURES = tf.TensorSpec([6], tf.float32)
assert horovod.tensorflow
SAMPLES = RANDOM.normal(size=(5, 6)).astype("float32")


def with_other_weights(model: Any) -> Any:
    """The model, with statistics and weights that no new model has."""
    model.set_weights([np.abs(value + RANDOM.normal(0.5, 0.1, value.shape)) for value in model.get_weights()])
    return model


def dense(normalization: Callable[[], Any] = layers.ReLU) -> Any:
    features = layers.Input((6,))
    x = normalization()(layers.Dense(4)(features))
    return tf.keras.Model(features, layers.Dense(2, dtype="float32")(layers.Dropout(0.5)(x)))


def sequential() -> Any:
    """Its batch has the size of the first one."""
    model = tf.keras.Sequential([layers.Dense(4, "relu"), layers.Dense(1)])
    model(tf.zeros([1, 6]))
    return model


def nested() -> Any:
    """Two models inside one; both have a layer of the same name, and the second one ghost batch normalization."""
    first = tf.keras.Sequential([layers.Input((6,)), layers.Dense(4, name="dense")], name="first")
    normalization = batch_norm.GhostBatchNormalization(2)
    second = tf.keras.Sequential([layers.Input((4,)), normalization, layers.Dense(4, name="dense")], name="second")
    features = layers.Input((6,))
    return tf.keras.Model(features, second(first(features)))


class Doubled(layers.Layer):  # type: ignore[misc]
    """A layer of a program, which its get_config() describes."""

    def __init__(self, factor: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, inputs: Any) -> Any:
        return inputs * self.factor

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "factor": self.factor}


class Forgetful(Doubled):
    """A layer whose get_config() leaves its factor out."""

    def get_config(self) -> dict[str, Any]:
        return layers.Layer.get_config(self)


class TwoLayers(tf.keras.Model):  # type: ignore[misc]
    """A subclass without arguments."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden, self.out = layers.Dense(4, "relu"), layers.Dense(1)

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.out(self.hidden(inputs))

    def get_config(self) -> dict[str, Any]:
        return {}


class OfLayers(TwoLayers):
    """A subclass that takes what no file can hold."""

    def __init__(self, hidden: Any) -> None:
        super().__init__()
        self.hidden = hidden

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError("OfLayers has no config")


def built(model: Any) -> Any:
    model(tf.zeros([1, 6]))
    return model


MODELS: dict[str, Callable[[], Any]] = {
    "functional": dense,
    "sequential": sequential,
    "ghost": lambda: dense(batch_norm.maker("ghost", 2)),
    "synchronized": lambda: dense(batch_norm.maker("synchronized")),
    "accumulation": lambda: training_step.in_parts(dense(batch_norm.maker("ghost", 2)), 2),
    "nested": nested,
    "a layer of its own": lambda: dense(lambda: Doubled(3.0)),
    "a subclass": lambda: built(TwoLayers()),
}


def served(folder: Path, inputs: Any = SAMPLES) -> Any:
    serve = tf.saved_model.load(str(folder / files.SAVED_MODEL)).signatures[files.SIGNATURE]
    return serve(inputs=tf.constant(inputs))


@pytest.mark.filterwarnings("ignore:.layer.updates. will be removed")  # that is how Horovod does it
@pytest.mark.parametrize("kind", MODELS)
def test_every_file_gives_the_outputs_of_the_model(kind: str, tmp_path: Path) -> None:
    model = with_other_weights(MODELS[kind]())
    model.compile("adam", "mse")
    expected = model(SAMPLES, training=False).numpy()
    copy = portable.copy_of(model, FEATURES)
    files.write_saved_model(copy, FEATURES, str(tmp_path))
    files.write_weights(copy, str(tmp_path))

    own = portable.own_classes(copy)
    assert list(own) == {"a layer of its own": ["Doubled"], "a subclass": ["TwoLayers"]}.get(kind, [])
    for name in files.keras_names(tf.__version__):
        if kind == "a subclass" and name == files.HDF5:  # Keras has no HDF5 of it
            continue
        files.write_keras(copy, str(tmp_path), name)
        again = tf.keras.models.load_model(tmp_path / name, custom_objects=own)
        assert again.optimizer is None
        np.testing.assert_allclose(again(SAMPLES, training=False), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(served(tmp_path)[files.OUTPUTS], expected, rtol=1e-5, atol=1e-6)
    with np.load(tmp_path / files.WEIGHTS) as weights:
        assert len(weights.files) == len(model.weights)
        for one, value in zip(weights.files, model.get_weights(), strict=True):
            assert one.split("/")[-1].rsplit("_", 1)[0] in " ".join(variable.name for variable in model.weights)
            np.testing.assert_array_equal(weights[one], value)


def test_weights_have_names_of_their_own() -> None:
    found = files.named_weights(nested())
    assert list(found)[:2] == ["dense/kernel", "dense/bias"] and {"dense/kernel_1", "dense/bias_1"} < set(found)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: built(OfLayers(layers.Dense(3))), "NotImplementedError: OfLayers has no config"),
        (lambda: dense(lambda: Forgetful(3.0)), r"gives other outputs: get_config\(\) leaves something out"),
    ],
)
def test_a_model_that_keras_cannot_make_again_has_the_other_files(
    model: Callable[[], Any], reason: str, tmp_path: Path
) -> None:
    made = with_other_weights(model())
    with pytest.raises(portable.NotPortable, match=reason):
        portable.copy_of(made, FEATURES)
    files.write_saved_model(made, FEATURES, str(tmp_path))
    files.write_weights(made, str(tmp_path))
    np.testing.assert_allclose(served(tmp_path)[files.OUTPUTS], made(SAMPLES, training=False), rtol=1e-5)


def test_sixteen_bits(tmp_path: Path) -> None:
    precision.use("bfloat16")
    try:
        model = with_other_weights(dense(batch_norm.maker("ghost", 2)))
        copy = portable.copy_of(model, FEATURES)
        for name in files.keras_names(tf.__version__):
            files.write_keras(copy, str(tmp_path), name)
    finally:
        precision.use("float32")
    files.write_saved_model(copy, FEATURES, str(tmp_path))
    expected = model(SAMPLES, training=False).numpy()
    atol = 0.02 * np.abs(expected).max()  # TensorFlow may round in another order where it compiles a function
    np.testing.assert_allclose(served(tmp_path)[files.OUTPUTS], expected, rtol=0, atol=atol)
    assert {value.dtype for value in files.named_weights(copy).values()} == {np.dtype("float32")}


def test_words_and_several_outputs(tmp_path: Path) -> None:
    words = layers.Input((2,), dtype="string")
    numbers = layers.StringLookup(vocabulary=["green", "red"])(words)
    model = tf.keras.Model(words, {"numbers": numbers, "twice": numbers * 2})
    files.write_saved_model(model, tf.TensorSpec([2], tf.string), str(tmp_path))
    found = served(tmp_path, [["red", "green"], ["blue", "red"]])
    assert found["numbers"].numpy().tolist() == [[2, 1], [0, 2]] and found["twice"].numpy().tolist() == [[4, 2], [0, 4]]
    parts = layers.Input((6,))
    files.write_saved_model(tf.keras.Model(parts, [parts, parts + 1]), FEATURES, str(tmp_path))
    found = served(tmp_path)
    np.testing.assert_allclose(found["output_1"] - found["output_0"], 1, rtol=1e-5)


def test_a_file_that_cannot_be_read_again_is_not_left(tmp_path: Path) -> None:
    class Spoilt(Doubled):
        """Its weights cannot be read."""

        def build(self, shape: Any) -> None:
            self.scale = self.add_weight("scale", (1,), initializer="ones")

        def load_own_variables(self, store: Any) -> None:
            raise ValueError("these are not mine")

    copy = dense(Spoilt)
    with pytest.raises(portable.NotPortable, match=r"it cannot be read again: .*not mine"):
        files.write_keras(copy, str(tmp_path), files.KERAS)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("version", "names"), [("2.9.3", 1), ("2.11.1", 1), ("2.12.0", 2), ("2.18.1", 2)])
def test_keras_own_format_is_written_from_tensorflow_2_12_on(version: str, names: int) -> None:
    assert files.keras_names(version) == [files.KERAS, files.HDF5][-names:]
