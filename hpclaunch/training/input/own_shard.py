"""A rank's own samples, in batches, for programs that do not train with TensorFlow; those in memory are of NumPy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import Any, Iterator, Mapping, NamedTuple

import numpy as np

from hpclaunch.training.input import epoch_order, shards
from hpclaunch.training.input.shards import Part
from hpclaunch.training.input.source import Source
from hpclaunch.training.rank.world import World

NOTHING: Mapping[str, Part] = MappingProxyType({})


class MicroBatch(NamedTuple):
    """A part of a step of this rank, which is computed at once. step: of the epoch, from 0.

    share: its part of the samples of the step, above 0 to 1. is_last: whether the step ends with it.
    """

    step: int
    batch: Any
    samples: int
    share: float
    is_last: bool


class RankSamples(ABC):
    """The part of a data set that this rank trains on: every size-th sample; with reshuffle=global others each epoch.

    steps: those of an epoch, each of `accumulation` batches; samples: those of an epoch over all ranks. source: the
    opened data set; shard: which of its samples this rank reads. sampler: which ones in an epoch. order: of the samples
    to train on (shards.shuffled); held: the others, by split, beside those of the test.
    """

    def __init__(
        self, world: World, asked: Any, source: Source, order: Any = None, held: Mapping[str, Part] = NOTHING
    ) -> None:
        self.source, self._held = source, held
        self.validation = ""
        """The split on which the training is validated; empty if it is not."""
        self._world, self._batch = world, asked.batch_size_per_rank
        self._step = self._batch * asked.accumulation
        if order is None:
            order = shards.shuffled(source.counts["train"], asked.seed, asked.train_samples)
        reshuffle = epoch_order.is_global(asked)
        self.sampler = epoch_order.Sampler(order, asked.seed, world.size, self._step, reshuffle)
        self.shard = self.sampler.held(world.rank)
        self.steps = self.sampler.steps
        self.samples = self.sampler.length * world.size

    @abstractmethod
    def micro_batches(self, epoch: int, first: int) -> Iterator[MicroBatch]:
        """The batches of an epoch, from the step `first` on, in an order that is known before it begins.

        It depends on the seed, the epoch and the rank alone, so that a resumed epoch goes on as it was. All ranks have
        equally many batches, of equal length; the last one of a step may be shorter.
        """

    def prepare(self, split: str) -> None:  # noqa: B027
        """Read what `held_out` then gives without other ranks, if it is read at once. A collective."""

    @abstractmethod
    def held_out(self, split: str) -> Iterator[tuple[Any, int]]:
        """This rank's part of a split that is prepared and not trained on: batches (inputs, targets), their samples."""

    def test_batches(self) -> Iterator[Any]:
        """This rank's part of the test samples, in batches; its first batch is a collective."""
        for batch, _ in self.held_out("test"):
            yield batch

    def _own_part(self, split: str) -> Part:
        """This rank's samples of a split that is not trained on."""
        part = self._held.get(split) or Part(split, np.arange(self.source.counts[split], dtype=np.int64))
        own = shards.evaluation_shard(len(part.positions), self._world.rank, self._world.size)
        return Part(part.split, part.positions[own])


class OwnShard(RankSamples):
    """A rank's samples in memory. Making it is a collective."""

    def __init__(
        self, world: World, asked: Any, source: Source, order: Any = None, held: Mapping[str, Part] = NOTHING
    ) -> None:
        super().__init__(world, asked, source, order, held)
        self._in_memory: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._inputs, self._targets = self._read("train", self.shard.indices)

    def batches(self, epoch: int, first: int) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray]]]:
        """(step, (inputs [b, ...], targets [b, ...])) of an epoch, from `first` on: all samples of a step together.

        Images are uint8 [b, height, width, channels], classes int64 [b]. The order depends on the seed, the epoch and
        the rank alone, so that a resumed epoch goes on as it was. All ranks have batches of equal length; the last one
        may be shorter. If another number of ranks has begun the epoch, what it left is read first, which is a
        collective.
        """
        rest = self.sampler.rest(epoch, self._world.rank)
        if rest is None:
            inputs, targets = self._inputs, self._targets
            order = self.sampler.places(epoch, self._world.rank)
        else:
            inputs, targets = self._read("train", rest)
            order = self.sampler.numbered(rest)
        for step in range(first, self.steps):
            own = order[step * self._step : (step + 1) * self._step]
            yield step, (inputs[own], targets[own])

    def micro_batches(self, epoch: int, first: int) -> Iterator[MicroBatch]:
        for step, (inputs, targets) in self.batches(epoch, first):
            whole = len(targets)
            for begin in range(0, whole, self._batch):
                own = slice(begin, begin + self._batch)
                samples = len(targets[own])
                batch = inputs[own], targets[own]
                yield MicroBatch(step, batch, samples, samples / whole, begin + samples == whole)

    def prepare(self, split: str) -> None:
        """As RankSamples says; the samples stay in memory."""
        if split not in self._in_memory:
            self._in_memory[split] = self._read_part(split)

    def held_out(self, split: str) -> Iterator[tuple[tuple[np.ndarray, np.ndarray], int]]:
        for inputs, targets in self._slices(*self._in_memory[split]):
            yield (inputs, targets), len(targets)

    def test_batches(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield from self._slices(*(self._in_memory.get("test") or self._read_part("test")))

    def _slices(self, inputs: np.ndarray, targets: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(targets), self._batch):
            yield inputs[start : start + self._batch], targets[start : start + self._batch]

    def _read_part(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        part = self._own_part(split)
        return self._read(part.split, part.positions)

    def _read(self, split: str, positions: Any) -> tuple[np.ndarray, np.ndarray]:
        inputs, targets = self._world.together(lambda: self.source.read(split, positions), long=True)
        return inputs, np.asarray(targets, np.int64) if self.source.has_classes else targets
