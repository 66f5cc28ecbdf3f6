"""TFRecords: the rows asked for, streams that hold a shard once an epoch, damage that is named."""

from __future__ import annotations

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed", allow_module_level=True)

import gzip
import itertools
import os
from pathlib import Path
from typing import Any

from hpclaunch.training.input import datasets, loading, shards, streaming, tfrecords
from hpclaunch.training.input.source import DataError, ImageSet, Source
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World

SMALL = ImageSet("small", shape=(4, 4, 3), classes=256, job="small")


def example(image: bytes, label: int, keys: tuple[str, str] = ("image/encoded", "image/class/label")) -> bytes:
    features = {
        keys[0]: tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
        keys[1]: tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write(path: Path, contents: list[bytes]) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for content in contents:
            writer.write(content)


def image(number: int) -> Any:
    return np.full(SMALL.shape, number, np.uint8)


def write_set(folder: Path, counts: list[int], raw: bool = False) -> Source:
    """Images whose grey is their label and their number."""
    folder.mkdir(exist_ok=True)
    numbers = itertools.count()
    for place, count in enumerate(counts):
        made = []
        for number in itertools.islice(numbers, count):
            content = image(number).tobytes() if raw else tf.io.encode_png(image(number)).numpy()
            made.append(example(content, number, ("image_raw", "label") if raw else ("image", "label")))
        write(folder / f"train-{place:05}-of-{len(counts):05}", made)
    write(folder / "test.tfrecord", [example(tf.io.encode_png(image(n)).numpy(), n) for n in range(3)])
    return datasets.open_dataset(str(folder), SMALL)


@pytest.mark.parametrize("raw", [True, False])
def test_reads_the_rows_asked_for_in_order(tmp_path: Path, raw: bool) -> None:
    source = write_set(tmp_path, [5, 0, 7], raw)
    assert source.layout == "TFRecords" and source.counts == {"train": 12, "test": 3}
    rows = np.array([11, 0, 5, 4, 4])
    images, labels = source.read("train", rows)
    assert list(labels) == list(rows) and (images == rows[:, None, None, None]).all() and images.dtype == np.uint8
    assert list(source.read("test", np.arange(3))[1]) == [0, 1, 2]
    assert source.read("train", np.array([], np.int64))[0].shape == (0, 4, 4, 3)


@pytest.mark.parametrize(("counts", "size"), [([13, 9, 0, 8, 7], 2), ([20, 17], 3)])
def test_a_stream_holds_every_sample_once_an_epoch(tmp_path: Path, counts: list[int], size: int) -> None:
    source = write_set(tmp_path, counts)
    seen: list[list[int]] = []
    for rank in range(size):
        shard = shards.record_shard(counts, 3, rank, size)
        steps = shards.steps_per_epoch(len(shard.indices), 4)

        def batches(epoch: int, step: int, count: int, rank: int = rank, shard: shards.Shard = shard) -> list[int]:
            stream = streaming.training_stream(source, shard, 4, 3, rank, epoch, step, threads=2)
            found = list(itertools.islice(stream, count))
            assert all(np.allclose(x[:, 0, 0, 0] * 255, y) for x, y in found)
            return [int(label) for _, y in found for label in y]

        whole = batches(0, 0, 2 * steps)
        first, second = whole[: len(shard.indices)], whole[len(shard.indices) :]
        assert sorted(first) == sorted(second) == sorted(shard.indices) and first != second
        assert batches(1, 2, steps - 2) == second[8:]  # a resumed run
        seen.append(first[:])
    assert set(itertools.chain(*seen)) == set(range(sum(counts)))


@pytest.mark.parametrize(("counts", "size"), [([13, 9, 8], 2), ([20, 17], 3)])
def test_a_job_streams_whole_files_where_there_are_enough(tmp_path: Path, counts: list[int], size: int) -> None:
    source = write_set(tmp_path, counts)
    order = shards.shuffled(sum(counts), 3)
    for rank in range(size):
        found, expected = source.stream_shard(order, 3, rank, size), shards.record_shard(counts, 3, rank, size)
        assert list(found.indices) == list(expected.indices) and found.samples == expected.samples
    with pytest.raises(DataError, match="streamed completely, not 5 chosen samples"):
        source.stream_shard(order[:5], 3, 0, size)


def refused(folder: Path) -> str:
    with pytest.raises(DataError) as error:
        source = datasets.open_dataset(str(folder), SMALL)
        source.read("train", np.arange(source.counts["train"]))
    return str(error.value)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    write_set(tmp_path, [3, 3])
    os.mkfifo(tmp_path / "train-00002-of-00003")
    assert "train-00002-of-00003: not a regular file" in refused(tmp_path)


def test_truncated_files_are_named_on_opening(tmp_path: Path) -> None:
    write_set(tmp_path, [3, 3])
    file = tmp_path / "train-00001-of-00002"
    for cut in (1, 20, 150):
        os.truncate(file, file.stat().st_size - cut)
        assert "train-00001-of-00002: truncated, or not a TFRecord file: record" in refused(tmp_path)


def test_a_flipped_byte_is_found_by_the_checksum(tmp_path: Path) -> None:
    source = write_set(tmp_path, [3, 3])
    file = tmp_path / "train-00000-of-00002"
    content = bytearray(file.read_bytes())
    content[-10] ^= 255
    file.write_bytes(content)
    assert "train-00000-of-00002: damaged, or not as expected" in refused(tmp_path)
    shard = shards.record_shard([3, 3], 1, 0, 1)
    with (
        pytest.raises(AgreedError, match="train-00000-of-00002: damaged"),
        streaming.damage_named(source, shard),
    ):
        list(itertools.islice(streaming.training_stream(source, shard, 2, 1, 0), 3))


def test_a_record_of_other_bytes_is_named_where_the_message_of_tensorflow_cannot_be_decoded(tmp_path: Path) -> None:
    source = write_set(tmp_path, [3])
    damaged = [example(tf.io.encode_png(image(0)).numpy(), 0, ("image", "label")), b"\x0a\xf5\xff", b"\xf5"]
    write(tmp_path / "train-00000-of-00001", damaged)
    with pytest.raises(
        DataError, match=r"train-00000-of-00001: damaged, or not as expected \(a record is no Example\)"
    ):
        source.read("train", [0, 1, 2])


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    write_set(tmp_path, [2])
    train, png = tmp_path / "train-00000-of-00001", tf.io.encode_png(image(1)).numpy()
    write(train, [example(png, 256)])
    assert "not as expected" in refused(tmp_path)
    write(train, [example(tf.io.encode_png(np.zeros((5, 4, 3), np.uint8)).numpy(), 1)])
    assert "not as expected" in refused(tmp_path)
    write(train, [example(png, 1, ("picture", "label"))])
    assert "the features ['label', 'picture'] contain no image under image/encoded" in refused(tmp_path)
    write(train, [b"\xffno example"])
    assert "no tf.train.Example" in refused(tmp_path)
    write(train, [])
    assert "no record in the files of train" in refused(tmp_path)
    train.write_bytes(gzip.compress(b"x"))
    assert "compressed with gzip" in refused(tmp_path)
    train.unlink()
    assert "no file train*.tfrecord*" in refused(tmp_path)


def test_a_host_without_a_file_is_noticed(tmp_path: Path) -> None:
    source = write_set(tmp_path, [2, 2])
    assert source.fingerprint_here() == source.fingerprint
    (tmp_path / "train-00001-of-00002").unlink()
    with pytest.raises(DataError, match="train-00001-of-00002: the file is missing on this host"):
        source.fingerprint_here()


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train.tfrecord", "train"),
        ("cifar-train.tfrecords-00000-of-00002", "train"),
        ("train-00000-of-01024", "train"),
        ("validation-00000-of-00128", "validation"),
        ("test_3.tfrecord", "test"),
        ("train.txt", None),
        ("trainer.tfrecord", None),
        ("constrain.tfrecord", None),
    ],
)
def test_names_of_files(name: str, split: str | None) -> None:
    found = tfrecords.NAME.search(name)
    assert (found.group("split") if found else None) == split


def alone() -> World:
    return World(0, 1, 0, 1, "here", "", 1, "")


def test_a_file_that_is_not_to_be_read_is_named(tmp_path: Path) -> None:
    write_set(tmp_path, [3])
    (tmp_path / "train-more.tfrecord").symlink_to(tmp_path / "nowhere")
    with pytest.raises(AgreedError, match=r"train-more\.tfrecord: No such file or directory\n  next: make it readable"):
        loading.open_folder(alone(), str(tmp_path), SMALL)


def test_files_are_not_asked_for_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_set(tmp_path, [1] * 20)
    with monkeypatch.context() as patch:
        for name in ("isfile", "exists", "getsize"):
            patch.setattr(os.path, name, lambda path: pytest.fail(f"{path} was asked for"))
        assert source.fingerprint_here() == source.fingerprint


def test_damage_is_looked_for_in_parts_that_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_set(tmp_path, [6])
    asked: list[int] = []
    monkeypatch.setattr(streaming, "CHECKED_BYTES", 4 * 2 * 4 * 4 * 3)
    monkeypatch.setattr(source, "read", lambda split, indices: asked.append(len(indices)))
    error = tf.errors.DataLossError(None, None, "damaged")
    with pytest.raises(tf.errors.DataLossError), streaming.damage_named(source, shards.Shard(np.arange(6), 6)):
        raise error
    assert asked == [4, 2]
