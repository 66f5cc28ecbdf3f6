"""What a rank's replicas are fed with: read once, kept once, and made by as many threads as under Horovod."""

from __future__ import annotations

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed", allow_module_level=True)

from types import SimpleNamespace
from typing import Any

from hpclaunch.training.input import feeding, shards
from hpclaunch.training.input.augmentation import Augmentation
from hpclaunch.training.input.source import ImageSet
from hpclaunch.training.input.synthetic import Synthetic
from hpclaunch.training.rank.world import World

SMALL = ImageSet("small", shape=(4, 4, 3), classes=2, job="small")
SAMPLES = 12


class Counted(Synthetic):
    """Made-up images that know which of them were read."""

    def __init__(self) -> None:
        super().__init__(SMALL, SAMPLES, 1)
        self.asked: list[list[int]] = []

    def read(self, split: str, indices: Any) -> tuple[Any, Any]:
        self.asked.append(indices.tolist())
        return super().read(split, indices)


def feed(source: Counted, *, replicas: int, sharded: bool) -> feeding.Feed:
    """Of the only process of a strategy, which gives back the data set that it is to distribute."""
    strategy = SimpleNamespace(num_replicas_in_sync=replicas, distribute_datasets_from_function=lambda make: make(None))
    asked = SimpleNamespace(input="memory", batch_size_per_rank=2, accumulation=1, seed=1)
    world = World(0, 1, 0, 1, "here", "", 1, "", strategy)
    order = shards.shuffled(SAMPLES, 1)
    return feeding.training_feed(world, source, order, asked, Augmentation(flip_horizontal=True), sharded)


@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.config.threading, "get_intra_op_parallelism_threads", lambda: 3)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_strategys_batches_are_made_by_all_threads(three_threads: None, replicas: int) -> None:
    options = feed(Counted(), replicas=replicas, sharded=True).batches_from(0, 0).options()
    assert options.threading.private_threadpool_size == 3
    assert not options.autotune.enabled


def test_replicas_with_shards_read_their_own() -> None:
    source = Counted()
    found = feed(source, replicas=3, sharded=True)
    assert [len(asked) for asked in source.asked] == [4, 4, 4]
    assert sorted(index for asked in source.asked for index in asked) == list(range(SAMPLES))
    assert (found.steps, found.samples, found.shard.samples) == (2, SAMPLES, SAMPLES)


def test_replicas_without_shards_share_what_is_read_once() -> None:
    source = Counted()
    found = feed(source, replicas=3, sharded=False)
    (asked,) = source.asked
    assert sorted(asked) == list(range(SAMPLES))
    assert (found.steps, found.samples, found.shard.samples) == (2, SAMPLES, SAMPLES)
    batches = [images.numpy().tobytes() for images, _ in found.batches_from(0, 0).take(3)]
    assert len(set(batches)) == 3  # each replica has an order of its own


def test_images_are_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(feeding.pipeline, "training_batches", lambda images, *rest, **more: given.append(images))
    monkeypatch.setattr(feeding, "_spread", lambda world, own: None)
    feed(Counted(), replicas=1, sharded=True).batches_from(0, 0)
    assert tf.is_tensor(given[0]) and np.shape(given[0]) == (SAMPLES, 4, 4, 3)
