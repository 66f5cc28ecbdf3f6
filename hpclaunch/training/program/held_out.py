"""This rank's batches of the samples that no rank trains on, for validation and test."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from hpclaunch.training.input import pipeline, shards, streaming
from hpclaunch.training.input.shards import Part
from hpclaunch.training.input.source import Source
from hpclaunch.training.program.run import Run
from hpclaunch.training.rank.failure import AgreedError


class HeldOut:
    """This rank's batches of the parts that are not trained on. To make it is a collective.

    counts: the samples of all ranks, by split.
    Samples that fit in memory are read when it is made: a damaged file ends the run before it trains.
    """

    def __init__(self, run: Run, source: Source, parts: Mapping[str, Part]) -> None:
        self._run, self._source, self._parts = run, source, parts
        self.counts = {split: len(part.positions) for split, part in parts.items()}
        self._size = run.settings.batch_size_per_rank
        self._in_memory = {
            split: self._batches(*self._read(part)) for split, part in parts.items() if not self._streams(split)
        }

    def __call__(self, split: str) -> Iterable[Any]:
        """One pass over this rank's samples of `split`, (inputs, targets) [b, ...]; the same samples on no other rank.

        Weights of the samples are a third part. Ranks that share a model have the same samples.

        Raises AgreedError if there are none.
        """
        if split not in self._parts:
            raise AgreedError(
                "{} has no samples to evaluate as {!r}; samples: {}".format(
                    self._source.path, split, {"train": self._source.counts["train"], **self.counts}
                ),
                speaks=self._run.is_root,
            )
        if split in self._in_memory:
            return self._in_memory[split]
        part = self._parts[split]
        return streaming.evaluation_stream(self._source, self._own_positions(part), self._size, part.split)

    def _streams(self, split: str) -> bool:
        can = self._source.streams if self._parts[split].split == "train" else self._source.streams_tests
        return can and self._run.settings.input == "stream"

    def _own_positions(self, part: Part) -> Any:
        world = self._run.world
        return part.positions[shards.evaluation_shard(len(part.positions), world.data_rank, world.data_size)]

    def _batches(self, inputs: Any, targets: Any, *weights: Any) -> Any:
        return pipeline.evaluation_batches(inputs, targets, self._size, as_pixels=True, weights=weights)

    def _read(self, part: Part) -> tuple[Any, ...]:
        rows = self._own_positions(part)
        read: tuple[Any, ...] = self._run.world.together(lambda: self._source.read(part.split, rows), long=True)
        return read
