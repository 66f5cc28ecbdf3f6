"""Arithmetic of shards: which samples a rank reads, in which order, in how many steps; reads nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpclaunch.training.failure import TrainingError


@dataclass(frozen=True)
class Shard:
    """One rank's samples.

    indices: int64 [length], positions in the data set; equal length on all ranks.
    samples: how many of them are the rank's own; length - samples is 0 or 1: then the last one repeats the first.
    """

    indices: np.ndarray
    samples: int

    @property
    def padding(self) -> int:
        return len(self.indices) - self.samples

    def summary(self) -> dict[str, Any]:
        """What a log needs to check shards against each other: counts, sum and a hash of the own indices."""
        own = self.indices[: self.samples]
        return {
            "samples": self.samples,
            "padding": self.padding,
            "first": [int(index) for index in own[:4]],
            "sum": int(own.sum()),
            "sha256": hashlib.sha256(own.astype("<i8").tobytes()).hexdigest()[:16],
        }


def shuffled(total: int, seed: int, limit: int = 0) -> np.ndarray:
    """All positions 0..total-1 as int64 in the order of `seed`; only the first `limit` if it is not 0.

    The same on every rank and machine: RandomState's stream is frozen by NumPy's policy, Generator's is not.
    """
    order = np.random.RandomState(stream_seed(seed, "shuffle")).permutation(total).astype(np.int64)
    return order[:limit] if limit else order


def training_shard(order: np.ndarray, rank: int, size: int) -> Shard:
    """Rank's part of `order` (every size-th sample), padded to the length of the longest by repeating one own sample.

    Raises TrainingError if a rank would be left without a sample.
    """
    if len(order) < size:
        raise TrainingError(
            "{} training samples do not go round {} ranks: each needs at least one.".format(len(order), size)
        )
    own = order[rank::size]
    length = -(-len(order) // size)
    return Shard(indices=np.resize(own, length), samples=len(own))  # resize repeats from the start


def evaluation_shard(total: int, rank: int, size: int) -> np.ndarray:
    """Rank's positions in a test set of `total` samples, int64, unpadded: lengths differ by one at most, may be 0."""
    return np.arange(rank, total, size, dtype=np.int64)


def steps_per_epoch(length: int, batch_size: int) -> int:
    """Batches in an epoch over a shard of `length`; the last one may be smaller, equally on all ranks."""
    return -(-length // batch_size)


def epoch_order(length: int, seed: int, epoch: int, rank: int) -> np.ndarray:
    """Order in which a rank reads its shard in `epoch` (from 0), int64 [length].

    A function of its arguments alone, so that a resumed run goes on as the first would have.
    """
    return np.random.RandomState(stream_seed(seed, "epoch", epoch, rank)).permutation(length).astype(np.int64)


def stream_seed(seed: int, *names: Any) -> int:
    """A 32-bit seed for one named random stream; other names give unrelated streams (seed + rank would overlap)."""
    text = "/".join(str(part) for part in (seed,) + names)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:4], "little")
