"""The chips' photographs: six versions each, split before they are turned, read alike from memory and as a stream."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.input import datasets, feeding, shards
from hpclaunch.training.input.augmentation import Augmentation
from hpclaunch.training.input.source import DataError, ImageSet
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World
from tests.horovod.conftest import ROOT

PHOTOGRAPHS = 20
CHIPS = ImageSet("chips", shape=(32, 32, 3), classes=2, job="chips")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("drawn")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "jobs" / "chips"))
        import drawing
        import images

        drawing.write(str(folder), PHOTOGRAPHS, 32, 1)
        yield images.ChipImages(datasets.open_dataset(str(folder), CHIPS), 0.15, 1)
    for name in ("drawing", "images"):
        sys.modules.pop(name, None)


def every_version(image: Any) -> set[bytes]:
    """The eight ways to lay a square image: all that flips and quarter turns can make of it."""
    turns = [np.rot90(image, quarters) for quarters in range(4)]
    return {one.tobytes() for turn in turns for one in (turn, turn[::-1])}


def test_no_version_of_a_validation_photograph_is_trained_on(source: Any) -> None:
    assert source.counts == {"train": 6 * 17, "validation": 3, "test": 5}
    trained, _ = source.read("train", np.arange(source.counts["train"]))
    held_out, _ = source.read("validation", np.arange(3))
    seen = {image.tobytes() for image in trained}
    assert len(seen) == 6 * 17
    assert not any(every_version(image) & seen for image in held_out)
    assert every_version(trained[0]) >= {image.tobytes() for image in trained[:6]}  # the six of one photograph


def test_labels_go_with_their_photographs(source: Any) -> None:
    _, labels = source.read("train", np.arange(source.counts["train"]))
    assert set(labels.tolist()) == {0, 1}
    assert (labels.reshape(-1, 6) == labels[::6, None]).all()


def test_a_stream_gives_what_memory_gives(source: Any) -> None:
    shard = shards.training_shard(shards.shuffled(source.counts["train"], 1), 1, 2)
    own = np.random.RandomState(3).permutation(len(shard.indices))
    found = list(source.samples("train", shard, lambda length, name: own, 2, 1))
    images, labels = source.read("train", shard.indices[own[2:]])
    assert [int(label) for _, label in found] == labels.tolist()
    for (image, _), expected in zip(found, images, strict=True):
        np.testing.assert_array_equal(image, expected)


def world(rank: int, size: int) -> World:
    class Alone(World):
        def together(self, work: Any, long: bool = False) -> Any:
            return work()

    return Alone(rank, size, rank, size, "here", "", 1, "")


def batches(source: Any, rank: int, epoch: int, step: int, count: int, **changes: Any) -> list[bytes]:
    asked = SimpleNamespace(input="memory", batch_size_per_rank=10, accumulation=1, seed=1)
    order = shards.shuffled(source.counts["train"], 1)
    feed = feeding.training_feed(world(rank, 2), source, order, asked, Augmentation(), **changes)
    assert (feed.steps, feed.samples) == ((6, 102) if changes.get("sharded", True) else (5, 100))
    return [x.numpy().tobytes() for x, _ in feed.batches_from(epoch, step).take(count)]


def test_the_generator_gives_ranks_other_orders_of_all_images(source: Any) -> None:
    first, second = (batches(source, rank, 0, 0, 11, sharded=False) for rank in (0, 1))
    assert not set(first) & set(second)
    # Two epochs of five steps are most of one pass; the third begins with its last batch, of two images.
    assert batches(source, 0, 2, 0, 1, sharded=False) == [first[10]]
    assert len(first[10]) == 2 * 32 * 32 * 3
    assert batches(source, 0, 1, 2, 3, sharded=False) == first[7:10]


def test_shards_give_ranks_their_own_images(source: Any) -> None:
    assert not set(batches(source, 0, 0, 0, 6)) & set(batches(source, 1, 0, 0, 6))


def test_a_global_batch_is_divided_or_refused() -> None:
    def asked(accumulation: int = 1, rule: str = "none") -> SimpleNamespace:
        return SimpleNamespace(global_batch_size=64, accumulation=accumulation, scale_learning_rate=rule)

    assert feeding.divided(world(0, 4), asked()) == 16
    assert feeding.divided(world(0, 4), asked(accumulation=2)) == 8
    with pytest.raises(AgreedError, match="=64 does not divide among 3 ranks: use a multiple of 3"):
        feeding.divided(world(0, 3), asked())
    with pytest.raises(AgreedError, match="set --scale-learning-rate=none"):
        feeding.divided(world(0, 4), asked(rule="linear"))


def test_class_folders_of_another_size_are_refused(source: Any) -> None:
    wrong = datasets.open_dataset(source.path, ImageSet("chips", (48, 48, 3), 2, "chips"))
    with pytest.raises(DataError, match="the image is 32 x 32 x 3"):
        wrong.read("train", np.arange(1))


def test_photographs_in_records_are_not_streamed_in_a_wrong_order(tmp_path: Path) -> None:
    numbers = np.arange(8, dtype=np.uint8)
    pixels = np.broadcast_to(numbers[:, None, None, None], (8, 32, 32, 3))
    np.savez(tmp_path / "chips.npz", x_train=pixels, y_train=numbers % 2, x_test=pixels[:2], y_test=numbers[:2])
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "jobs" / "chips"))
        import images
    found = images.ChipImages(datasets.open_dataset(str(tmp_path / "chips.npz"), CHIPS), 0.25, 1)
    assert found.read("train", np.arange(36))[1].reshape(6, 6).std(axis=1).max() == 0
    with pytest.raises(DataError, match="six versions can be read into memory, but not streamed"):
        found.stream_shard(np.arange(36), 1, 0, 1)


def test_drawn_photographs_are_as_many_as_documented(source: Any) -> None:
    names = [file.parent.name for file in Path(source.path, "train").rglob("*.jpg")]
    assert (len(names), names.count("Defective")) == (PHOTOGRAPHS, 10)
