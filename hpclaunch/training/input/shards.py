"""Arithmetic of shards: which samples a rank reads, in which order, in how many steps; reads nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np

from hpclaunch.training.rank.failure import TrainingError


@dataclass(frozen=True)
class Shard:
    """One rank's samples.

    indices: int64 [length], positions in the data set; equal length on all ranks.
    samples: how many of them are the rank's own; length - samples is 0 or 1 (the last one then repeats the first).
    """

    indices: np.ndarray
    samples: int

    @property
    def padding(self) -> int:
        return len(self.indices) - self.samples

    def summary(self) -> dict[str, Any]:
        """Counts, sum and a hash of the rank's own indices: enough to compare shards in a log."""
        own = self.indices[: self.samples]
        return {
            "samples": self.samples,
            "padding": self.padding,
            "first": [int(index) for index in own[:4]],
            "sum": int(own.sum()),
            "sha256": hashlib.sha256(own.astype("<i8").tobytes()).hexdigest()[:16],
        }


@dataclass(frozen=True)
class Part:
    """Samples of a source: those at `positions` (int64 [n], those of all ranks) of its `split`."""

    split: str
    positions: Any


def shuffled(total: int, seed: int, limit: int = 0) -> np.ndarray:
    """All positions 0..total-1 as int64 in the order of `seed`; only the first `limit` if it is not 0.

    The same on every rank and machine: RandomState's stream is frozen by NumPy's policy, Generator's is not.
    """
    order = np.random.RandomState(stream_seed(seed, "shuffle")).permutation(total).astype(np.int64)
    return order[:limit] if limit else order


def training_shard(order: np.ndarray, rank: int, size: int) -> Shard:
    """The rank's part of `order` (every size-th sample), padded with one repeated sample to the longest part's length.

    Raises TrainingError if a rank would be left without a sample.
    """
    if len(order) < size:
        raise _too_few(len(order), size)
    own = order[rank::size]
    length = -(-len(order) // size)
    return Shard(indices=np.resize(own, length), samples=len(own))  # resize repeats from the start


def joined(several: Sequence[Shard]) -> Shard:
    """All samples of several shards; the repeated ones last."""
    own = [one.indices[: one.samples] for one in several]
    repeated = [one.indices[one.samples :] for one in several]
    return Shard(indices=np.concatenate(own + repeated), samples=sum(one.samples for one in several))


def record_shard(counts: Sequence[int], seed: int, rank: int, size: int) -> Shard:
    """The rank's part of samples in files of `counts` samples; positions count through the files in order.

    If there are at least as many files as ranks, the files are put in the order of `seed` and divided into `size` parts
    of equal length: a rank opens only its own files, and shares at most two of them with a neighbour. Otherwise every
    rank opens all files and takes every size-th sample. Parts are equally long, and padded like training_shard.
    Raises TrainingError if a rank would be left without a sample.
    """
    total = int(sum(counts))
    if len(counts) < size:
        return training_shard(np.arange(total, dtype=np.int64), rank, size)
    starts = np.concatenate([[0], np.cumsum(counts)])
    files = np.random.RandomState(stream_seed(seed, "files")).permutation(len(counts))
    order = np.concatenate([np.arange(starts[file], starts[file + 1], dtype=np.int64) for file in files])
    own = order[rank * total // size : (rank + 1) * total // size]
    if total < size:
        raise _too_few(total, size)
    return Shard(indices=np.resize(own, -(-total // size)), samples=len(own))


@dataclass(frozen=True)
class Run:
    """Samples of one file: `samples` of them, from number `first` (from 0), every `stride`-th."""

    file: int
    first: int
    stride: int
    samples: int


def runs(indices: np.ndarray, counts: Sequence[int]) -> list[Run]:
    """The rank's own indices of record_shard, as one run for each file with some of them, in the order of the files."""
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = np.sort(indices)
    found = []
    cuts = np.searchsorted(indices, starts)  # there may be a file for every sample
    for file in np.flatnonzero(np.diff(cuts)):
        own = indices[cuts[file] : cuts[file + 1]] - starts[file]
        stride = int(own[1] - own[0]) if len(own) > 1 else 1
        found.append(Run(int(file), int(own[0]), stride, len(own)))
    return found


def evaluation_shard(total: int, rank: int, size: int) -> np.ndarray:
    """The rank's positions in a test set of `total` samples, int64; lengths differ by at most one, and may be 0.

    The positions are contiguous, so that a rank reads as few files as possible.
    """
    return np.arange(rank * total // size, (rank + 1) * total // size, dtype=np.int64)


def steps_per_epoch(length: int, batch_size: int) -> int:
    """Batches in an epoch over a shard of `length`; the last one may be smaller, equally on all ranks."""
    return -(-length // batch_size)


def epoch_order(length: int, seed: int, epoch: int, rank: int) -> np.ndarray:
    """The order in which a rank reads its shard in `epoch` (from 0), int64 [length].

    It depends only on its arguments, so that a resumed run continues exactly like an uninterrupted one.
    """
    return np.random.RandomState(stream_seed(seed, "epoch", epoch, rank)).permutation(length).astype(np.int64)


def place_of(step: int, steps: int) -> tuple[int, int]:
    """(epoch, step in it), both from 0, where a run continues after `step` steps, with `steps` steps per epoch."""
    return step // steps, step % steps


def stream_seed(seed: int, *names: Any) -> int:
    """A 32-bit seed for one named random stream; streams of other names are independent (seed + rank would overlap)."""
    text = "/".join(str(part) for part in (seed,) + names)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:4], "little")


def _too_few(total: int, size: int) -> TrainingError:
    return TrainingError("{} training samples are too few for {} ranks: each needs at least one.".format(total, size))
