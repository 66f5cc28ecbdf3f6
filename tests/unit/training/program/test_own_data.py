"""Data of one's own: arrays, photographs, records and pipelines of any shape and type, or one clear error."""

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
from hpclaunch.training.input import image_folders
from hpclaunch.training.input.array_file import ArrayFile
from hpclaunch.training.input.order import Order
from hpclaunch.training.input.source import DataError, ImageSet
from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.program.own_records import OwnRecords
from hpclaunch.training.program.own_samples import Pipeline
from hpclaunch.training.program.run import Run
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World


def saved(path: Path, **arrays: Any) -> str:
    np.savez(path, **arrays)
    return str(path)


def opened(path: str, inputs: str = "x", targets: str = "y", held_out: float = 0.25) -> ArrayFile:
    return ArrayFile(path, (inputs, targets), held_out, seed=1)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int16", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (4, 5, 2)])
def test_arrays_of_any_type_and_shape_are_read_unchanged(kind: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    x = np.random.RandomState(0).uniform(0, 100, (9, *shape)).astype(kind)
    y = np.linspace(-1, 1, 9)
    found = opened(saved(tmp_path / "a.npz", x_train=x, y_train=y, x_test=x[:4], y_test=y[:4]))
    assert (found.counts, found.has_classes) == ({"train": 9, "test": 4}, False)
    assert found.has_images == (kind == "uint8" and len(shape) == 3)
    rows = np.array([5, 0, 5, 8])
    inputs, targets = found.read("train", rows)
    assert inputs.dtype == x.dtype and np.array_equal(inputs, x[rows]) and np.array_equal(targets, y[rows])


def test_whole_numbers_are_classes_and_pairs_of_them_are_not(tmp_path: Path) -> None:
    x = np.zeros((8, 2), "float32")
    found = opened(saved(tmp_path / "a.npz", x=x, y=np.arange(8, dtype="uint8")))
    assert found.has_classes and found.read("train", np.arange(3))[1].dtype == np.int64
    assert not opened(saved(tmp_path / "b.npz", x=x, y=np.zeros((8, 2), int))).has_classes


def test_a_part_is_held_out_once_for_all_ranks(tmp_path: Path) -> None:
    x = np.arange(20, dtype="float32")
    path = saved(tmp_path / "a.npz", x=x, y=x)
    found = opened(path)
    assert found.counts == {"train": 15, "test": 5}
    train, test = found.read("train", np.arange(15))[0], found.read("test", np.arange(5))[0]
    assert sorted([*train, *test]) == list(x) and list(test) != [15, 16, 17, 18, 19]
    assert np.array_equal(opened(path).read("test", np.arange(5))[0], test)
    assert ArrayFile(path, ("x", "y"), 0.25, seed=2).fingerprint != found.fingerprint


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros(3)}, "no array x_train, y_train (found: x)"),
        ({"x": np.zeros(3), "y": np.zeros(4)}, "x has 3 samples, y has 4"),
        ({"x": np.array(["a", "b"]), "y": np.zeros(2)}, "x is <U1 [2]"),
        ({"x": np.array([{}, {}]), "y": np.zeros(2)}, "x is object [2]"),
        ({"x": np.asfortranarray(np.zeros((3, 2))), "y": np.zeros(3)}, "stored by columns"),
        (
            {"x_train": np.zeros((3, 2)), "y_train": np.zeros(3), "x_test": np.zeros((3, 4)), "y_test": np.zeros(3)},
            "other shapes",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        opened(saved(tmp_path / "a.npz", **arrays))
    assert message in str(refused.value) and "next: name the arrays" in str(refused.value)


def test_what_is_no_npz_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK\3\4 no archive")
    for path in (tmp_path / "a.npz", tmp_path / "missing.npz", tmp_path):
        with pytest.raises(DataError, match=r"expected: an \.npz"):
            opened(str(path))


def test_photographs_of_any_size_are_resized(tmp_path: Path) -> None:
    for split in ("train", "test"):
        for number, (kind, shape) in enumerate([("cat", (40, 30, 3)), ("dog", (25, 60, 3)), ("eel", (9, 9, 3))]):
            (tmp_path / split / kind).mkdir(parents=True)
            image = tf.io.encode_png(tf.fill(shape, tf.constant(50 * number, tf.uint8)))
            (tmp_path / split / kind / "a.png").write_bytes(image.numpy())
    found = image_folders.opened(ImageSet("pets", (16, 24, 3), 0, "pets", resized=True), str(tmp_path))
    images, labels = found.read("train", np.array([2, 0]))
    assert images.shape == (2, 16, 24, 3) and [int(image.mean()) for image in images] == [100, 0]
    assert list(labels) == [2, 0] and found.wanted.classes == 3


@pytest.mark.parametrize("folder", ["", "missing", "."])
def test_a_folder_without_photographs_is_refused(folder: str, tmp_path: Path) -> None:
    place = str(tmp_path / folder) if folder else ""
    with pytest.raises(DataError, match="expected: class folders, with JPEG or PNG images of any size"):
        image_folders.opened(ImageSet("pets", (16, 24, 3), 0, "pets", resized=True), place)


SCHEMA = {"wave": tf.io.FixedLenFeature([4], tf.float32), "kind": tf.io.FixedLenFeature([], tf.int64)}


def write_records(folder: Path, length: int = 4) -> str:
    for name in ("train-0", "test-0"):
        with tf.io.TFRecordWriter(str(folder / f"{name}.tfrecord")) as file:
            for number in range(5):
                wave = tf.train.Feature(float_list=tf.train.FloatList(value=[number] * length))
                kind = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
                features = tf.train.Features(feature={"wave": wave, "kind": kind})
                file.write(tf.train.Example(features=features).SerializeToString())
    return str(folder)


def test_records_with_names_of_their_own(tmp_path: Path) -> None:
    folder = write_records(tmp_path)
    found = OwnRecords("waves", folder, SCHEMA, lambda one: (one["wave"], one["kind"]))
    samples, targets = found.read("train", np.array([3, 1]))
    assert samples.tolist() == [[3.0] * 4, [1.0] * 4] and targets.tolist() == [3, 1]
    assert found.has_classes and not found.has_images and found.counts == {"train": 5, "test": 5}


def test_records_with_other_features_are_refused(tmp_path: Path) -> None:
    folder = write_records(tmp_path, length=3)
    with pytest.raises(DataError, match="with the features kind, wave"):
        OwnRecords("waves", folder, SCHEMA, lambda one: (one["wave"], one["kind"]))


def squares(count: int) -> Any:
    numbers = tf.data.Dataset.range(count)
    return numbers.map(lambda n: (tf.fill([2], tf.cast(n, tf.float32)), tf.cast(n * n, tf.float32)))


def test_a_pipeline_is_read_at_any_positions() -> None:
    found = Pipeline("squares", {"train": squares(10), "test": squares(3)})
    samples, targets = found.read("train", np.array([7, 2, 7]))
    assert samples.tolist() == [[7, 7], [2, 2], [7, 7]] and targets.tolist() == [49, 4, 49]
    assert found.counts == {"train": 10, "test": 3} and not found.has_classes


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_shards_of_a_streamed_pipeline_are_disjoint_and_complete(size: int) -> None:
    found = Pipeline("squares", {"train": squares(10)})
    seen = []
    for rank in range(size):
        shard = found.stream_shard(np.arange(10), 1, rank, size)
        passed = found.samples("train", shard, Order(), 0, 1)
        seen.append([int(target) for _, target in passed])
        assert len(seen[-1]) == -(-10 // size)
        assert seen[-1][: shard.samples] == [n * n for n in range(rank, 10, size)]
    assert {one for part in seen for one in part} == {n * n for n in range(10)}


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (squares(4).repeat(), "not known, infinite or 0"),
        (squares(4).filter(lambda x, y: y > 1), "not known, infinite or 0"),
        (squares(4).batch(2), "the shape of a sample is not known"),
        (squares(4).map(lambda x, y: x), "an element is"),
    ],
)
def test_a_pipeline_that_cannot_be_divided_is_refused(dataset: Any, message: str) -> None:
    with pytest.raises(DataError, match="leave out batch") as refused:
        Pipeline("squares", {"train": dataset})
    assert message in str(refused.value)


def a_run(*words: str) -> Run:
    asked = training.settings(words=list(words))
    return Run("test", asked, World(0, 1, 0, 1, "here", "CPU", 1, "/nowhere"), MetricsLog(None, False))


@pytest.mark.parametrize(
    ("words", "message"),
    [("--synthetic=true", "no synthetic data"), ("--stage-to=/dev/shm", "a tf.data pipeline has no files")],
)
def test_a_setting_without_effect_on_own_data_is_refused(words: str, message: str) -> None:
    with pytest.raises(AgreedError, match=message):
        training.samples(a_run(words), squares(4))


@pytest.mark.parametrize("opens", ["arrays", "image_folder"])
def test_own_data_are_never_made_up(opens: str) -> None:
    with pytest.raises(AgreedError, match="--synthetic=true has no effect"):
        getattr(training, opens)(a_run("--synthetic=true"))


def test_numbers_are_not_augmented(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npz", x=np.zeros((8, 2), "float32"), y=np.zeros(8, "float32"))
    with pytest.raises(AgreedError, match="flips, crops, colours and mixing are for uint8 images"):
        training.arrays(a_run("--flip-horizontal=true"), path)
    data = training.arrays(a_run("--batch-size-per-rank=4"), path)
    assert (data.feed.steps, data.source.counts) == (2, {"train": 8, "test": 0})
    for split in ("test", "train", "validation"):
        with pytest.raises(AgreedError, match=f"no samples to evaluate as '{split}'"):
            data.held_out(split)
