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
from hpclaunch.training.input.epoch_order import Part
from hpclaunch.training.input.source import ImageSet
from hpclaunch.training.input.synthetic import Synthetic
from hpclaunch.training.rank.failure import AgreedError
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


class Rank(World):
    """A rank among others that see the same as it does."""

    def gather(self, value: object) -> list[object]:
        return [value] * self.size


def of_rank(rank: int, size: int, source: Any, **options: Any) -> feeding.Feed:
    asked = {"input": "memory", "batch_size_per_rank": 2, "accumulation": 1, "seed": 1, "reshuffle": "shard", **options}
    order = shards.shuffled(source.counts["train"], 1)
    world = Rank(rank, size, 0, 1, "here", "", 1, "")
    return feeding.training_feed(world, source, order, SimpleNamespace(**asked), Augmentation())


def read(found: feeding.Feed, epoch: int, step: int, end: int) -> list[bytes]:
    """The images of some steps of an epoch."""
    batches = found.batches_from(epoch, step).take(end - step)
    return [image.tobytes() for images, _ in batches for image in images.numpy()]


class Folders(Counted):
    """As class folders: read again in every epoch, in any order."""

    streams = any_order = True

    def samples(self, split: str, shard: Any, order: Any, skip: Any, threads: int) -> Any:
        images, labels = super().read(split, shard.indices)
        places = order(len(shard.indices), "samples")[skip:]
        return tf.data.Dataset.from_tensor_slices((tf.gather(images, places), tf.gather(labels, places)))


@pytest.mark.parametrize("source", [Counted, Folders])
@pytest.mark.parametrize("reshuffle", ["shard", "global"])
@pytest.mark.parametrize(("first", "then"), [(1, 2), (2, 4), (3, 1)])
def test_replicas_read_what_an_epoch_has_left(source: Any, reshuffle: str, first: int, then: int) -> None:
    options = {"reshuffle": reshuffle, "input": "stream" if source is Folders else "memory"}
    images = Counted().read("train", np.arange(SAMPLES))[0]
    every = sorted(image.tobytes() for image in images)
    begun = [read(of_rank(rank, first, source(), **options), 1, 0, 1) for rank in range(first)]
    for rank in range(then):
        found = of_rank(rank, then, source(), **options)
        assert found.sampler
        step = found.sampler.resume(1, (Part(first, 2),))
        begun.append(read(found, 1, step, found.steps))
        begun.append(read(found, 2, 0, found.steps))
    assert sorted(one for rank in begun[:first] + begun[first::2] for one in rank) == every
    assert sorted(one for rank in begun[first + 1 :: 2] for one in rank) == every


@pytest.mark.parametrize("source", [Counted, Folders])
@pytest.mark.parametrize("reshuffle", ["shard", "global"])
def test_the_same_number_of_replicas_goes_on_in_the_order_of_the_epoch(source: Any, reshuffle: str) -> None:
    options = {"reshuffle": reshuffle, "input": "stream" if source is Folders else "memory"}
    found = of_rank(1, 2, source(), **options)
    whole = read(found, 1, 0, 3)
    assert found.sampler
    assert (found.sampler.resume(1, (Part(2, 4),)), found.steps) == (2, 3)
    assert read(found, 1, 2, 3) == whole[4:]


def test_with_reshuffle_global_a_sample_is_read_by_other_ranks_in_other_epochs() -> None:
    ranks = [of_rank(rank, 2, Counted(), reshuffle="global") for rank in range(2)]
    of_epochs = [[frozenset(read(one, epoch, 0, 3)) for one in ranks] for epoch in range(4)]
    assert all(len(one | other) == SAMPLES and not one & other for one, other in of_epochs)
    assert len({one for one, _ in of_epochs}) == 4


def test_reshuffle_global_is_refused_where_it_cannot_be_obeyed() -> None:
    class InFiles(Folders):
        any_order = False

    assert of_rank(0, 2, InFiles(), input="stream").sampler is None
    with pytest.raises(AgreedError, match="--reshuffle=global needs samples that can be read in any order"):
        of_rank(0, 2, InFiles(), input="stream", reshuffle="global")
    asked = SimpleNamespace(input="memory", batch_size_per_rank=2, accumulation=1, seed=1, reshuffle="global")
    world, order = World(0, 1, 0, 1, "here", "", 1, ""), shards.shuffled(SAMPLES, 1)
    with pytest.raises(AgreedError, match="--reshuffle=global has no effect: in this program every rank draws"):
        feeding.training_feed(world, Counted(), order, asked, Augmentation(), sharded=False)


def test_a_damaged_sample_is_looked_for_in_what_an_epoch_has_left_too() -> None:
    found = of_rank(2, 4, Folders(), input="stream")
    own = set(found.shard.indices.tolist())
    assert found.sampler and set(found.read_from(1, [2]).indices.tolist()) == own
    found.sampler.resume(1, (Part(2, 2),))
    rest = set(found.sampler.rest(1, 2).tolist())  # type: ignore[union-attr]
    assert rest - own
    assert set(found.read_from(1, [2]).indices.tolist()) == rest | own
    assert set(found.read_from(2, [2]).indices.tolist()) == own
