"""Batches from memory and from streams: every sample once an epoch, the same order for the same seed, exact resume."""

from __future__ import annotations

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed", allow_module_level=True)

import itertools
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hpclaunch.training.input import datasets, pipeline, shards, streaming
from hpclaunch.training.input.augmentation import Augmentation
from hpclaunch.training.input.source import DataError, ImageSet, Source
from hpclaunch.training.input.synthetic import Synthetic
from hpclaunch.training.rank.failure import AgreedError, TrainingError

SMALL = ImageSet("small", shape=(4, 4, 3), classes=2, job="small")
MOVES = {"flip_horizontal": True, "flip_vertical": True, "crop": 1, "scale": 0.1, "shear": 0.1, "lens_distortion": 0.1}
COLOURS = {"brightness": 0.1, "contrast": 0.1, "saturation": 0.1}
EVERYTHING = Augmentation(**MOVES, **COLOURS, mixup=0.2, cutmix=1.0, classes=2)


def taken(batches: tf.data.Dataset, count: int, skip: int = 0) -> list[tuple[Any, Any]]:
    return [(x.numpy(), y.numpy()) for x, y in itertools.islice(batches, skip, skip + count)]


def same(one: list[tuple[Any, Any]], other: list[tuple[Any, Any]]) -> bool:
    return len(one) == len(other) and all(
        (x == u).all() and (y == v).all() for (x, y), (u, v) in zip(one, other, strict=True)
    )


def numbered(count: int) -> tuple[Any, Any]:
    """Images whose label is their number, which is also in their pixels."""
    labels = np.arange(count, dtype=np.int64)
    return np.broadcast_to(labels[:, None, None, None], (count, 2, 2, 1)).astype(np.uint8), labels


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_an_epoch_holds_every_sample_once_on_all_ranks_together(size: int) -> None:
    images, labels = numbered(67)
    order, batch_size, epochs = shards.shuffled(67, 5), 3, []
    for epoch in range(2):
        seen: list[int] = []
        for rank in range(size) if size < 64 else (0, 2, 3, 63):
            shard = shards.training_shard(order, rank, size)
            steps = shards.steps_per_epoch(len(shard.indices), batch_size)
            batches = pipeline.training_batches(
                images[shard.indices], labels[shard.indices], batch_size, 5, rank, first_epoch=epoch
            )
            got = np.concatenate([y for _, y in taken(batches, steps)])
            assert sorted(got) == sorted(shard.indices)
            seen += list(got)
        if size < 64:
            assert set(seen) == set(range(67)) and len(seen) == size * -(-67 // size)
        epochs.append(seen)
    assert size == 64 or epochs[0] != epochs[1]


def test_images_belong_to_their_labels() -> None:
    for x, y in taken(pipeline.training_batches(*numbered(50), 8, 1, 0), 7):
        assert x.dtype == np.float32 and np.allclose(x[:, 0, 0, 0] * 255, y)


@pytest.mark.parametrize("augment", [None, EVERYTHING])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_resumed_run_goes_on_as_the_first_would_have(augment: Augmentation | None, threads: int) -> None:
    images = np.random.RandomState(0).randint(0, 256, (11, 4, 4, 3)).astype(np.uint8)
    labels = np.arange(11) % 2

    def batches(epoch: int = 0, step: int = 0) -> tf.data.Dataset:
        return pipeline.training_batches(images, labels, 4, 9, 2, epoch, step, augment, threads)

    whole = taken(batches(), 9)  # three epochs of three steps
    for step in (1, 5, 6, 8):
        assert same(taken(batches(*shards.place_of(step, 3)), 9 - step), whole[step:])
    assert not same(whole[:3], whole[3:6])


@settings(max_examples=25, deadline=None)
@given(
    data=st.data(), size=st.integers(1, 64), extra=st.integers(0, 90), batch=st.integers(1, 7), seed=st.integers(0, 99)
)
def test_a_rank_of_any_world_goes_on_in_the_order_of_its_seed_from_any_step(
    data: st.DataObject, size: int, extra: int, batch: int, seed: int
) -> None:
    images, labels = numbered(size + extra)
    rank = data.draw(st.integers(0, size - 1))
    shard = shards.training_shard(shards.shuffled(len(labels), seed), rank, size)
    own = images[shard.indices], labels[shard.indices], batch, seed, rank
    steps = shards.steps_per_epoch(len(shard.indices), batch)
    made = data.draw(st.integers(0, 2 * steps))
    undisturbed = taken(pipeline.training_batches(*own), 3 * steps)
    resumed = pipeline.training_batches(*own, *shards.place_of(made, steps))
    assert same(taken(resumed, 3 * steps - made), undisturbed[made:])


def test_images_may_stay_uint8() -> None:
    images, labels = np.random.RandomState(0).randint(0, 256, (9, 4, 4, 3)).astype(np.uint8), np.arange(9)
    how = Augmentation(flip_horizontal=True, crop=1)
    whole = taken(pipeline.training_batches(images, labels, 4, 1, 0, augment=how), 3)
    small = taken(pipeline.training_batches(images, labels, 4, 1, 0, augment=how, as_pixels=True), 3)
    assert small[0][0].dtype == np.uint8
    assert all(np.allclose(x / 255.0, u) and (y == v).all() for (x, y), (u, v) in zip(small, whole, strict=True))
    assert taken(pipeline.evaluation_batches(images, labels, 9, as_pixels=True), 1)[0][0].dtype == np.uint8
    # Colours and mixing make fractions: float32, on the same scale.
    whole = taken(pipeline.training_batches(images % 2, labels % 2, 4, 1, 0, augment=EVERYTHING), 3)
    pixels = taken(pipeline.training_batches(images % 2, labels % 2, 4, 1, 0, augment=EVERYTHING, as_pixels=True), 3)
    assert pixels[0][0].dtype == np.float32
    assert all(np.allclose(x / 255.0, u) and (y == v).all() for (x, y), (u, v) in zip(pixels, whole, strict=True))


def test_random_changes_differ_between_ranks_and_epochs() -> None:
    images, labels = np.full((1, 8, 8, 3), 200, np.uint8), np.zeros(1, np.int64)
    how = Augmentation(brightness=0.5)
    seen = [taken(pipeline.training_batches(images, labels, 1, 1, rank, augment=how), 20) for rank in range(3)]
    assert len({float(x[0, 0, 0, 0]) for rank in seen for x, _ in rank}) > 40  # some are clipped at 1


# ---- streams


def write_folders(folder: Path, count: int) -> Source:
    random = np.random.RandomState(0)
    for split, number in itertools.product(("train", "test"), range(count)):
        place = folder / split / f"class{number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        image = random.randint(0, 256, SMALL.shape).astype(np.uint8)
        (place / f"{number}.png").write_bytes(tf.io.encode_png(image).numpy())
    return datasets.open_dataset(str(folder), SMALL)


@pytest.mark.parametrize("augment", [None, EVERYTHING])
def test_a_stream_of_class_folders_is_what_memory_gives(tmp_path: Path, augment: Augmentation | None) -> None:
    source = write_folders(tmp_path, 21)
    shard = shards.training_shard(shards.shuffled(21, 1), 1, 2)
    images, labels = source.read("train", shard.indices)
    whole = taken(pipeline.training_batches(images, labels, 4, 1, 1, augment=augment), 9)
    assert same(taken(streaming.training_stream(source, shard, 4, 1, 1, augment=augment, threads=2), 9), whole)
    assert same(taken(streaming.training_stream(source, shard, 4, 1, 1, 1, 2, augment, 2), 4), whole[5:])


def test_large_images_are_moved_one_by_one_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "LARGE", 1)
    source = write_folders(tmp_path, 21)
    shard = shards.training_shard(shards.shuffled(21, 1), 1, 2)
    images, labels = source.read("train", shard.indices)
    for augment in (Augmentation(True, True, 2, classes=2), Augmentation(True, crop=1, mixup=0.2, classes=2)):
        assert augment.only_copies
        whole = taken(pipeline.training_batches(images, labels, 4, 1, 1, augment=augment), 9)
        assert same(taken(streaming.training_stream(source, shard, 4, 1, 1, augment=augment, threads=2), 9), whole)
        assert same(taken(streaming.training_stream(source, shard, 4, 1, 1, 1, 2, augment, 2), 4), whole[5:])
        plain = taken(pipeline.training_batches(images, labels, 4, 1, 1), 9)
        assert augment.mixes or not same(whole, plain)


def test_what_a_stream_finds_damaged_is_named(tmp_path: Path) -> None:
    source = write_folders(tmp_path, 8)
    shard = shards.training_shard(shards.shuffled(8, 1), 0, 1)
    (tmp_path / "train" / "class1" / "3.png").write_bytes(b"\x89PNG but no more")
    named = pytest.raises(AgreedError, match=r"class1/3\.png: not a readable image \(16 bytes")
    with named, streaming.damage_named(source, shard):
        taken(streaming.training_stream(source, shard, 4, 1, 0), 2)
    (tmp_path / "train" / "class1" / "3.png").unlink()
    with pytest.raises(DataError, match=r"class1/3\.png: not a readable image .*No such file"):
        source.read("train", shard.indices)


def test_another_error_in_training_is_left_as_it_is(tmp_path: Path) -> None:
    source, shard = write_folders(tmp_path, 4), shards.training_shard(np.arange(4), 0, 1)
    with pytest.raises(tf.errors.InvalidArgumentError), streaming.damage_named(source, shard):
        tf.reshape(tf.zeros(3), [2])


def test_a_layout_that_cannot_stream_says_so() -> None:
    source = Synthetic(SMALL, 8, 1)
    assert not source.streams
    with pytest.raises(TrainingError, match="read into memory"):
        streaming.training_stream(source, shards.training_shard(np.arange(8), 0, 1), 4, 1, 0)
    with pytest.raises(DataError, match="next: use --input=memory"):
        source.stream_shard(np.arange(8), 1, 0, 1)


def test_one_of_the_ranks_that_meet_damage_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, shard = write_folders(tmp_path / "data", 8), shards.training_shard(np.arange(8), 0, 1)
    (tmp_path / "data" / "train" / "class0" / "4.png").write_bytes(b"")
    monkeypatch.setenv("HPCLAUNCH_EXIT_FILE", str(tmp_path / "exit-code"))
    said = []
    for _ in range(2):
        with pytest.raises(AgreedError, match=r"class0/4\.png") as error, streaming.damage_named(source, shard):
            taken(streaming.training_stream(source, shard, 4, 1, 0), 2)
        said.append(error.value.speaks)
    assert said == [True, False]
    assert (tmp_path / "exit-code").read_text() == "1\n"


def test_the_search_for_a_damaged_file_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, shard = write_folders(tmp_path, 8), shards.training_shard(np.arange(8), 0, 1)
    (tmp_path / "train" / "class0" / "4.png").write_bytes(b"")
    monkeypatch.setattr(streaming, "SEARCH_S", -1.0)
    with pytest.raises(AgreedError, match="was not found within"), streaming.damage_named(source, shard):
        taken(streaming.training_stream(source, shard, 4, 1, 0), 2)


def test_what_is_no_reading_error_is_not_searched_for(tmp_path: Path) -> None:
    source, shard = write_folders(tmp_path, 8), shards.training_shard(np.arange(8), 0, 1)
    (tmp_path / "train" / "class0" / "4.png").write_bytes(b"")
    with pytest.raises(tf.errors.UnknownError), streaming.damage_named(source, shard):
        raise tf.errors.UnknownError(None, None, "Horovod has been shut down")
    with pytest.raises(tf.errors.DataLossError), streaming.damage_named(source, shard, streams=False):
        raise tf.errors.DataLossError(None, None, "from elsewhere")
