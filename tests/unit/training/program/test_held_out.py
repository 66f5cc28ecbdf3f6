"""What is not trained on: a part of the training samples, or samples of their own; on every rank a share of it."""

from __future__ import annotations

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed", allow_module_level=True)

from pathlib import Path
from typing import Any

from hpclaunch import training
from hpclaunch.training.input import tfrecords
from hpclaunch.training.input.source import ImageSet
from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.program.run import Run
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World
from tests.unit.training.several_ranks import on_ranks

SAMPLES = 50


def a_run(world: World, words: list[str]) -> Run:
    return Run("test", training.settings(words=words), world, MetricsLog(None, False))


def alone(*words: str) -> Run:
    return a_run(World(0, 1, 0, 1, "here", "CPU", 1, "/nowhere"), list(words))


def numbers(folder: Path, validation: int = 0) -> str:
    """An npz file whose samples are their own numbers: 0.. for training, 1000.. for validation, 2000.. for the test."""
    arrays = {}
    for split, count, first in (("train", SAMPLES, 0), ("validation", validation, 1000), ("test", 7, 2000)):
        if count:
            arrays[f"x_{split}"] = arrays[f"y_{split}"] = np.arange(first, first + count, dtype="float32")
    np.savez(folder / "numbers.npz", **arrays)
    return str(folder / "numbers.npz")


def read(batches: Any) -> list[int]:
    return [int(target) for _, targets in batches for target in targets]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_part_of_the_training_samples_is_validated_once_and_never_trained_on(size: int, tmp_path: Path) -> None:
    path = numbers(tmp_path)

    def work(world: World) -> tuple[list[int], list[int], str]:
        data = training.arrays(a_run(world, ["--validation-part=0.22"]), path)
        trained = read(data.feed.batches_from(0, 0).take(data.feed.steps))
        return trained, read(data.held_out("validation")), data.validation

    found = on_ranks(size, tmp_path, work)
    validated = sorted(number for _, part, _ in found for number in part)
    trained = {number for part, _, _ in found for number in part}
    assert len(validated) == len(set(validated)) == 11
    assert trained | set(validated) == set(range(SAMPLES)) and not trained & set(validated)
    assert {split for _, _, split in found} == {"validation"}
    assert validated == sorted(read(training.arrays(alone("--validation-part=0.22"), path).held_out("validation")))


def test_samples_for_validation_come_with_the_data_too(tmp_path: Path) -> None:
    data = training.arrays(alone(), numbers(tmp_path, validation=4))
    assert data.validation == "validation" and data.feed.samples == SAMPLES
    assert read(data.held_out("validation")) == [1000, 1001, 1002, 1003]
    assert training.arrays(alone("--validation-every=0"), str(tmp_path / "numbers.npz")).validation == ""

    pipeline = tf.data.Dataset.range(5).map(lambda n: (tf.cast(n, tf.float32), tf.cast(n, tf.float32)))
    data = training.samples(alone(), pipeline, validation=pipeline.take(2))
    assert data.validation == "validation" and read(data.held_out("validation")) == [0, 1]


def test_the_test_samples_are_validated_on_request(tmp_path: Path) -> None:
    data = training.arrays(alone("--validate-on=test"), numbers(tmp_path))
    assert data.validation == "test" and data.feed.samples == SAMPLES


def test_without_samples_for_it_nothing_is_validated(tmp_path: Path) -> None:
    assert training.arrays(alone(), numbers(tmp_path)).validation == ""


@pytest.mark.parametrize(
    ("words", "validation", "message"),
    [
        (["--validation-every=2"], 0, "--validation-every has no effect: .* Set --validation-part=0.1"),
        (["--validation-part=0.001"], 0, "--validation-part=0.001 of 50 training samples is 0 of them"),
        (["--validation-part=0.999"], 0, "--validation-part=0.999 of 50 training samples is 50 of them"),
        (["--validation-part=0.1"], 4, "--validation-part=0.1 has no effect: .* has 4 samples for validation"),
    ],
)
def test_a_validation_that_these_data_do_not_have_is_refused(
    words: list[str], validation: int, message: str, tmp_path: Path
) -> None:
    with pytest.raises(AgreedError, match=message):
        training.arrays(alone(*words), numbers(tmp_path, validation))


def photographs(folder: Path, splits: dict[str, int]) -> str:
    for split, count in splits.items():
        for number in range(count):
            place = folder / split / ("dark", "light")[number % 2]
            place.mkdir(parents=True, exist_ok=True)
            pixels = tf.fill([8, 8, 3], tf.constant(number, tf.uint8))
            (place / f"{number:02}.png").write_bytes(tf.io.encode_png(pixels).numpy())
    return str(folder)


@pytest.mark.parametrize("how", ["memory", "stream"])
def test_a_part_of_class_folders_is_held_out_in_memory_and_streamed(how: str, tmp_path: Path) -> None:
    folder = photographs(tmp_path, {"train": 20, "test": 2})
    data = training.image_folder(alone(f"--input={how}", "--validation-part=0.3"), folder, size=(8, 8))
    held = [int(image[0, 0, 0]) for images, _ in data.held_out("validation") for image in images.numpy()]
    batches = data.feed.batches_from(0, 0).take(data.feed.steps)
    trained = [int(image[0, 0, 0]) for images, _ in batches for image in images.numpy()]
    assert len(held) == 6 and sorted(held + trained) == list(range(20))


def test_a_folder_for_validation_is_one_of_the_class_folders(tmp_path: Path) -> None:
    folder = photographs(tmp_path, {"train": 4, "test": 2, "validation": 3})
    data = training.image_folder(alone(), folder, size=(8, 8))
    assert data.source.counts == {"train": 4, "test": 2, "validation": 3}
    assert sum(len(labels) for _, labels in data.held_out("validation")) == 3


def write_records(folder: Path, *names: str) -> str:
    for name in names:
        with tf.io.TFRecordWriter(str(folder / f"{name}.tfrecord")) as file:
            for number in range(6):
                image = tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes([number]) * 4]))
                label = tf.train.Feature(int64_list=tf.train.Int64List(value=[number % 2]))
                features = tf.train.Features(feature={"image": image, "label": label})
                file.write(tf.train.Example(features=features).SerializeToString())
    return str(folder)


@pytest.mark.parametrize(
    ("names", "counts"),
    [
        (["train", "validation"], {"train": 6, "test": 6}),  # as ImageNet's
        (["train", "test"], {"train": 6, "test": 6}),
        (["train", "test", "validation"], {"train": 6, "test": 6, "validation": 6}),
    ],
)
def test_records_of_the_validation_are_the_test_where_there_is_no_other(
    names: list[str], counts: dict[str, int], tmp_path: Path
) -> None:
    source = tfrecords.find(ImageSet("tiny", (2, 2, 1), 2, "tiny"), write_records(tmp_path, *names))
    assert source is not None and source.counts == counts


def test_a_part_of_records_is_not_streamed(tmp_path: Path) -> None:
    schema = {"label": tf.io.FixedLenFeature([], tf.int64)}
    run = alone("--input=stream", "--validation-part=0.3")
    with pytest.raises(AgreedError, match="omit --train-samples and --validation-part"):
        training.records(
            run,
            schema,
            lambda one: (tf.cast(one["label"], tf.float32), one["label"]),
            write_records(tmp_path, "train", "test"),
        )
