"""The samples that no rank trains on: which they are, for validation and test, and this rank's batches of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Mapping

import numpy as np

from hpclaunch.training.input import pipeline, shards, streaming
from hpclaunch.training.input.source import VALIDATION, Source
from hpclaunch.training.program.run import Run
from hpclaunch.training.rank.failure import AgreedError


@dataclass(frozen=True)
class Part:
    """Samples of a source: those at `positions` (int64 [n], those of all ranks) of its `split`."""

    split: str
    positions: Any


def divided(run: Run, source: Source, order: Any) -> tuple[Any, dict[str, Part]]:
    """Divide a source into what is trained on and what is not: the order of the training samples, the other parts.

    order: of the training samples (shards.shuffled), of which the setting validation_part takes the first for the
    validation. So they are the same samples on every rank, and on any number of ranks. Raises AgreedError if the
    settings ask for a validation that these data do not have.
    """
    part = getattr(run.settings, "validation_part", 0.0)
    others = [split for split, count in source.counts.items() if split != "train" and count]
    parts = {split: Part(split, np.arange(source.counts[split], dtype=np.int64)) for split in others}
    if part and VALIDATION not in parts:
        count = round(len(order) * part)
        if not 0 < count < len(order):
            raise _refusal(
                run, "--validation-part={} of {} training samples is {} of them".format(part, len(order), count)
            )
        parts[VALIDATION] = Part("train", np.sort(order[:count]))
        order = order[count:]
    elif part and not source.divides_validation:
        raise _refusal(
            run,
            "--validation-part={} has no effect: {} has {} samples for validation. Leave the setting or these samples "
            "out".format(part, source.path, source.counts[VALIDATION]),
        )
    _check(run, source, parts)
    return order, parts


def _check(run: Run, source: Source, parts: Mapping[str, Part]) -> None:
    chosen = [name for name in ("validation_every", "validate_on") if run.settings.is_chosen(name)]
    if validation_of(run, parts) or not chosen or not run.settings.validation_every:
        return
    raise _refusal(
        run,
        "--{} has no effect: {} has no samples for it. Set --validation-part=0.1, which takes a tenth of the training "
        "samples, or give validation samples with the data".format(chosen[0].replace("_", "-"), source.path),
    )


def _refusal(run: Run, message: str) -> AgreedError:
    return AgreedError(message, speaks=run.is_root)


def validation_of(run: Run, parts: Mapping[str, Part]) -> str:
    """The split on which the training is validated after its epochs; empty if it is not validated."""
    if not getattr(run.settings, "validation_every", 0):
        return ""
    return run.settings.validate_on if run.settings.validate_on in parts else ""


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
            split: pipeline.evaluation_batches(*self._read(part), self._size, as_pixels=True)
            for split, part in parts.items()
            if not self._streams(split)
        }

    def __call__(self, split: str) -> Iterable[Any]:
        """One pass over this rank's samples of `split`, (inputs, targets) [b, ...]; the same samples on no other rank.

        Ranks that share a model have the same samples.

        Raises AgreedError if there are none.
        """
        if split not in self._parts:
            raise _refusal(
                self._run,
                "{} has no samples to evaluate as {!r}; samples: {}".format(
                    self._source.path, split, {"train": self._source.counts["train"], **self.counts}
                ),
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

    def _read(self, part: Part) -> tuple[Any, Any]:
        rows = self._own_positions(part)
        read: tuple[Any, Any] = self._run.world.together(lambda: self._source.read(part.split, rows), long=True)
        return read
