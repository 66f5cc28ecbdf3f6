"""A rank's own images in memory, in batches of NumPy arrays, for jobs that do not train with TensorFlow."""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np

from hpclaunch.training.input import loading, shards
from hpclaunch.training.input.source import ImageSet
from hpclaunch.training.metrics import metrics_log
from hpclaunch.training.rank.world import World


class OwnShard:
    """The part of a data set that this rank trains on: every size-th image, in the same order on all ranks.

    steps: batches in an epoch; samples: images of an epoch over all ranks; log: the metrics of the run. Opening it is a
    collective, and logs which images each rank reads.
    """

    def __init__(self, world: World, asked: Any, wanted: ImageSet) -> None:
        self.log = metrics_log(world.run_dir, world.is_root, asked.synthetic)
        self._world, self._batch, self._seed = world, asked.batch_size_per_rank, asked.seed
        self._source = loading.open_source(world, asked, wanted)
        order = shards.shuffled(self._source.counts["train"], asked.seed, asked.train_samples)
        shard = shards.training_shard(order, world.rank, world.size)
        self._images, self._labels = self._read("train", shard.indices)
        self.steps = shards.steps_per_epoch(len(self._labels), self._batch)
        self.samples = len(self._labels) * world.size
        self.log.write(
            "start",
            job=wanted.job,
            world_size=world.size,
            hosts=sorted(set(world.gather(world.host))),
            options=vars(asked),
            global_batch_size=self._batch * world.size,
            steps_per_epoch=self.steps,
            data={"path": self._source.path, "samples": self._source.counts},
        )
        loading.report_shards(world, shard, self.log, record=False)

    def batches(self, epoch: int, first: int) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray]]]:
        """(step, (images uint8 [b, height, width, channels], labels int64 [b])) of an epoch, from the step `first` on.

        The order depends on the seed, the epoch and the rank alone, so that a resumed epoch goes on as it was. All
        ranks have batches of equal length; the last one may be shorter.
        """
        order = shards.epoch_order(len(self._labels), self._seed, epoch, self._world.rank)
        for step in range(first, self.steps):
            own = order[step * self._batch : (step + 1) * self._batch]
            yield step, (self._images[own], self._labels[own])

    def test_batches(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """This rank's part of the test images, in batches (images, labels); its first call is a collective."""
        images, labels = self._read(
            "test", shards.evaluation_shard(self._source.counts["test"], self._world.rank, self._world.size)
        )
        for start in range(0, len(labels), self._batch):
            yield images[start : start + self._batch], labels[start : start + self._batch]

    def _read(self, split: str, positions: Any) -> tuple[np.ndarray, np.ndarray]:
        images, labels = self._world.together(lambda: self._source.read(split, positions))
        return images, np.asarray(labels, np.int64)
