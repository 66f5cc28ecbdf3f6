"""Arrays of several inputs and targets with weights, and what `fit` refuses of them before it makes a model."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

try:
    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.input.array_file import ArrayFile
from hpclaunch.training.input.source import DataError
from hpclaunch.training.program import fit
from hpclaunch.training.program.own_samples import Pipeline

assert hvd is not None
A, B = np.arange(8.0).reshape(4, 2), np.arange(4)
NAMES: tuple[Any, ...] = ({"left": "a", "right": "b"}, ("a", "b"), "w")


def written(folder: Path, **arrays: Any) -> str:
    np.savez(folder / "own.npz", **arrays)
    return str(folder / "own.npz")


def test_arrays_are_read_in_the_form_of_their_names(tmp_path: Path) -> None:
    found = ArrayFile(written(tmp_path, a=A, b=B, w=B / 2), NAMES, 0.0, seed=1)
    assert found.several_inputs["left"].shape == (2,) and found.several_targets[1].dtype == np.int64
    assert found.is_weighted and found.needs_own_measures and not found.has_classes and not found.has_images
    inputs, targets, weights = found.read("train", np.arange(4))
    assert sorted(inputs) == ["left", "right"] and isinstance(targets, tuple)
    for inner in (inputs["left"], targets[0]):
        assert sorted(map(tuple, inner)) == sorted(map(tuple, A))
    assert np.array_equal(inputs["right"] / 2, weights)


def test_arrays_of_other_lengths_or_shapes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a has 4 samples, w has 3"):
        ArrayFile(written(tmp_path, a=A, b=B, w=B[:3]), NAMES, 0.0, seed=1)
    both = {"a_train": A, "b_train": B, "w_train": B, "a_test": A[:, :1], "b_test": B, "w_test": B}
    with pytest.raises(DataError, match="training and test have other shapes"):
        ArrayFile(written(tmp_path, **both), NAMES, 0.0, seed=1)
    with pytest.raises(DataError, match="no array w_train"):
        ArrayFile(written(tmp_path, a_train=A, b_train=B), NAMES, 0.0, seed=1)


def test_a_pipeline_of_several_parts_is_read_by_position() -> None:
    dataset = tf.data.Dataset.from_tensor_slices(({"left": A, "right": B}, (A, B), B / 2))
    found = Pipeline("own", {"train": dataset})
    assert found.several_inputs["left"].shape == (2,) and found.is_weighted and not found.has_classes
    inputs, targets, weights = found.read("train", np.array([3, 0, 3]))
    assert inputs["right"].tolist() == [3, 0, 3] == targets[1].tolist() and weights.tolist() == [1.5, 0, 1.5]


def why_not(asked: Any = None, loss: Any = "mse", **how: Any) -> str:
    source = {"several_inputs": None, "several_targets": None, "needs_own_measures": False, "has_classes": True}
    mixes, distribute, size = how.pop("mixes", False), how.pop("distribute", None), how.pop("size", 2)
    data = SimpleNamespace(source=SimpleNamespace(**{**source, **how}), augment=SimpleNamespace(mixes=mixes))
    run = SimpleNamespace(size=size, world=SimpleNamespace(distribute=distribute))
    return fit._why_not(run, data, loss, asked)  # type: ignore[arg-type]


SUM = tf.keras.losses.MeanSquaredError(reduction="sum")
MEAN = tf.keras.losses.MeanSquaredError()


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({}, ""),
        ({"asked": {1: 2.0, 0: 1.0}}, ""),
        ({"asked": {1: 2.0}}, "class_weight must have every class from 0 on"),
        ({"asked": {0: 1.0}, "has_classes": False}, "class_weight needs one target that is a class"),
        ({"asked": {0: 1.0}, "mixes": True, "loss": None}, "class_weight needs one target that is a class"),
        ({"several_targets": (), "has_classes": False, "loss": None}, "name the loss of each output"),
        ({"several_inputs": (), "distribute": object()}, "need --strategy=horovod"),
        ({"needs_own_measures": True, "distribute": object()}, "need --strategy=horovod"),
        ({"loss": SUM}, "with 2 ranks it would train with 1/2 of the gradient"),
        ({"loss": {"price": MEAN, "rooms": [SUM]}, "size": 3}, "with 3 ranks it would train with 1/3"),
        ({"loss": SUM, "size": 1}, ""),
        ({"loss": [MEAN, "mse"]}, ""),
    ],
)
def test_what_cannot_be_done_is_refused_at_the_start(how: dict[str, Any], why: str) -> None:
    found = why_not(**how)
    assert found == why if not why else why in found


@pytest.mark.parametrize(("outputs", "classes", "is_refused"), [(3, 3, False), (1, 2, False), (3, 2, True)])
def test_every_class_of_the_model_has_its_weight(outputs: int, classes: int, is_refused: bool) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(outputs, input_shape=(2,))])
    found = fit._why_not_weighted(model, dict.fromkeys(range(classes), 1.0))
    assert is_refused == ("class_weight has 2 classes, the model 3" in found)
