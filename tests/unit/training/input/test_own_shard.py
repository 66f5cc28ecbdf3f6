"""A rank's own images in memory: together all ranks read every image once, and a resumed epoch goes on as it was."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from hpclaunch.training.input.own_shard import OwnShard
from hpclaunch.training.input.source import ImageSet
from hpclaunch.training.rank.world import World

WANTED = ImageSet("cifar10", shape=(8, 8, 3), classes=10, job="ddp")


class Pretended(World):
    """A rank among others that see the same as it does."""

    def gather(self, value: object) -> list[object]:
        return [value] * self.size


def shard(folder: Path, rank: int = 0, size: int = 1) -> OwnShard:
    place = {"local_rank": rank, "local_size": size, "host": "n1", "device": "CPU", "threads": 1}
    world = Pretended(rank=rank, size=size, run_dir=str(folder), **place)  # type: ignore[arg-type]
    asked = Namespace(batch_size_per_rank=8, seed=3, train_samples=0, synthetic=True, synthetic_samples=50, data_dir="")
    return OwnShard(world, asked, WANTED)


def test_ranks_read_equally_many_images_and_together_all_of_them(tmp_path: Path) -> None:
    parts = [shard(tmp_path, rank, 4) for rank in range(4)]
    assert {(part.steps, part.samples) for part in parts} == {(2, 52)}  # 50 images: two ranks repeat one
    images = np.concatenate([images for part in parts for _, (images, _) in part.batches(0, 0)])
    assert len(images) == 52 and len({image.tobytes() for image in images}) == 50


@pytest.mark.parametrize("first", [0, 3])
def test_an_epoch_continues_in_its_own_order(tmp_path: Path, first: int) -> None:
    part = shard(tmp_path)
    whole = [images.tobytes() for _, (images, _) in part.batches(1, 0)]
    rest = [images.tobytes() for _, (images, _) in part.batches(1, first)]
    assert rest == whole[first:] and len(whole) == part.steps == 7
    assert whole != [images.tobytes() for _, (images, _) in part.batches(2, 0)]


def test_the_log_has_the_batch_of_all_ranks_and_the_shards(tmp_path: Path) -> None:
    shard(tmp_path, 0, 2)
    start, shards = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert (start["event"], start["job"], start["global_batch_size"], start["steps_per_epoch"]) == (
        "start",
        "ddp",
        16,
        4,
    )
    assert (shards["event"], len(shards["shards"])) == ("shards", 2)


def test_the_test_images_are_read_in_batches(tmp_path: Path) -> None:
    batches = list(shard(tmp_path).test_batches())
    assert [len(labels) for _, labels in batches] == [8, 4]
