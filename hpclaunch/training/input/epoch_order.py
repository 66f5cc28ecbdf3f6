"""Which samples each rank reads in an epoch, whatever number of ranks has read a part of it; reads nothing."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

from hpclaunch.training.input import shards
from hpclaunch.training.input.shards import Shard


class Part(NamedTuple):
    """A part of an epoch that was read: `samples` by each of `ranks` ranks."""

    ranks: int
    samples: int


def added(parts: Sequence[Part], new: Part) -> tuple[Part, ...]:
    """The parts of an epoch after one more; as many ranks as before go on in the same order."""
    if parts and parts[-1].ranks == new.ranks:
        return (*parts[:-1], Part(new.ranks, parts[-1].samples + new.samples))
    return (*parts, new) if new.samples else tuple(parts)


def left(
    order: np.ndarray, seed: int, epoch: int, rank: int, size: int, parts: Sequence[Part] = (), reshuffle: bool = False
) -> np.ndarray:
    """The positions that the rank still has to read in `epoch` (from 0): int64 [n], in order, n equal on all ranks.

    order: the positions of the whole epoch, in the order of the seed (shards.shuffled). parts: what was read of this
    epoch before, oldest first. reshuffle: whether any rank may get any sample in each epoch; else a rank keeps its
    shard. With the same number of ranks this is what an undisturbed epoch would go on with. With another one, what no
    rank has read is divided anew: no sample is left out, and at most size - 1 are repeated to give all ranks as many.
    Raises TrainingError if a shard would have no sample.
    """
    unread = order
    for number, part in enumerate(parts):
        if part.ranks == size and number + 1 == len(parts):
            return _share(unread, seed, epoch, rank, size, number, reshuffle)[part.samples :]
        unread = unread[~np.isin(unread, _read(unread, seed, epoch, part, number, reshuffle))]
    return _share(unread, seed, epoch, rank, size, len(parts), reshuffle)


def _read(unread: np.ndarray, seed: int, epoch: int, part: Part, number: int, reshuffle: bool) -> np.ndarray:
    """What all ranks have read in a part of an epoch that began with what is `unread`."""
    if number == 0 and not reshuffle:
        own = [_share(unread, seed, epoch, rank, part.ranks, number, reshuffle) for rank in range(part.ranks)]
        return np.concatenate([one[: part.samples] for one in own])
    # Ranks take turns in one order, so that together they have read its beginning.
    return _mix(unread, seed, epoch, number)[: part.samples * part.ranks]


def _mix(unread: np.ndarray, seed: int, epoch: int, number: int) -> np.ndarray:
    return unread[shards.epoch_order(len(unread), seed, epoch, -1 - number)]


def _share(
    unread: np.ndarray, seed: int, epoch: int, rank: int, ranks: int, number: int, reshuffle: bool
) -> np.ndarray:
    """The positions of a rank, in their order, in a part of an epoch that begins with what is `unread`.

    number: of the part, from 0.
    """
    if number == 0 and not reshuffle:
        own = shards.training_shard(unread, rank, ranks).indices
        return own[shards.epoch_order(len(own), seed, epoch, rank)]
    length = -(-len(unread) // ranks)
    return np.resize(_mix(unread, seed, epoch, number), length * ranks)[rank::ranks]


def is_global(asked: Any) -> bool:
    """Whether the settings ask for reshuffle=global; programs of older versions have no such setting."""
    return getattr(asked, "reshuffle", "shard") == "global"


class Sampler:
    """What each of `size` ranks reads in every epoch, also in one that another number of ranks has begun.

    order: int64 [n], the positions of an epoch, in the order of the seed (shards.shuffled). batch_size: samples of a
    rank in one step. reshuffle: whether any rank may get any sample in each epoch; else a rank keeps its shard. It is
    the same on every rank, and numbers of ranks are arguments.
    length: samples of a rank in an epoch; steps: of an epoch; both are equal on all ranks.
    """

    def __init__(self, order: np.ndarray, seed: int, size: int, batch_size: int, reshuffle: bool = False) -> None:
        self._order, self._seed, self._size, self._batch = order, seed, size, batch_size
        self._reshuffle = reshuffle
        self._epoch, self._first = -1, 0
        self._parts: tuple[Part, ...] = ()
        self.length = -(-len(order) // size)
        self.steps = shards.steps_per_epoch(self.length, batch_size)

    def held(self, rank: int) -> Shard:
        """The samples that a rank may read in some epoch. Raises TrainingError if it would have none."""
        own = shards.training_shard(self._order, rank, self._size)
        return Shard(self._order, len(self._order)) if self._reshuffle else own

    def places(self, epoch: int, rank: int) -> np.ndarray:
        """The order of a whole epoch (from 0): int64 [length], places among those of `held`."""
        if not self._reshuffle:
            return shards.epoch_order(self.length, self._seed, epoch, rank)
        return left(np.arange(len(self._order)), self._seed, epoch, rank, self._size, reshuffle=True)

    def resume(self, epoch: int, parts: Sequence[Part]) -> int:
        """Go on with an epoch of which `parts` were read; returns the number of its next step.

        The last step of an epoch always has the same number, so a step may have a number that an earlier one had, or
        numbers may be left out. The number is `steps` if nothing is left.
        """
        rest = left(self._order, self._seed, epoch, 0, self._size, parts, self._reshuffle)
        self._epoch, self._parts = epoch, tuple(parts)
        self._first = self.steps - shards.steps_per_epoch(len(rest), self._batch)
        return self._first

    def rest(self, epoch: int, rank: int) -> np.ndarray | None:
        """The positions that a rank reads in an epoch from the step of `resume` on; None: those of `places` from there.

        They are not among those of `held`, unless as many ranks have begun the epoch.
        """
        if epoch != self._epoch or not self._parts or self._parts == (Part(self._size, self._first * self._batch),):
            return None
        return left(self._order, self._seed, epoch, rank, self._size, self._parts, self._reshuffle)

    def numbered(self, rest: np.ndarray) -> np.ndarray:
        """The places of `rest` in the order of a whole epoch, int64: before the step of `resume` stand zeros.

        No step reads these. So a step has the same slice as in a whole epoch.
        """
        before = np.zeros(self._first * self._batch, np.int64)
        return np.concatenate([before, np.arange(len(rest), dtype=np.int64)])
