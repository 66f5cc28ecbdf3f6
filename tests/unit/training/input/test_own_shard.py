"""A rank's own samples in memory: together all ranks read every one once, and a resumed epoch goes on as it was."""

from __future__ import annotations

from argparse import Namespace

import numpy as np
import pytest

from hpclaunch.training.input.own_shard import OwnShard
from hpclaunch.training.input.source import ImageSet
from hpclaunch.training.input.synthetic import Synthetic
from hpclaunch.training.rank.world import World

WANTED = ImageSet("cifar10", shape=(8, 8, 3), classes=10, job="ddp")


class Pretended(World):
    """A rank among others that see the same as it does."""

    def gather(self, value: object) -> list[object]:
        return [value] * self.size


def shard(rank: int = 0, size: int = 1) -> OwnShard:
    place = {"local_rank": rank, "local_size": size, "host": "n1", "device": "CPU", "threads": 1, "run_dir": ""}
    world = Pretended(rank=rank, size=size, **place)  # type: ignore[arg-type]
    return OwnShard(
        world, Namespace(batch_size_per_rank=8, accumulation=1, seed=3, train_samples=0), Synthetic(WANTED, 50, 3)
    )


def test_ranks_read_equally_many_images_and_together_all_of_them() -> None:
    parts = [shard(rank, 4) for rank in range(4)]
    assert {(part.steps, part.samples) for part in parts} == {(2, 52)}  # 50 images: two ranks repeat one
    images = np.concatenate([images for part in parts for _, (images, _) in part.batches(0, 0)])
    assert len(images) == 52 and len({image.tobytes() for image in images}) == 50


@pytest.mark.parametrize("first", [0, 3])
def test_an_epoch_continues_in_its_own_order(first: int) -> None:
    part = shard()
    whole = [images.tobytes() for _, (images, _) in part.batches(1, 0)]
    rest = [images.tobytes() for _, (images, _) in part.batches(1, first)]
    assert rest == whole[first:] and len(whole) == part.steps == 7
    assert whole != [images.tobytes() for _, (images, _) in part.batches(2, 0)]


def test_the_test_images_are_read_in_batches() -> None:
    batches = list(shard().test_batches())
    assert [len(labels) for _, labels in batches] == [8, 4]
    assert all(labels.dtype == np.int64 for _, labels in batches)
