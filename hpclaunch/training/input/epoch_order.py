"""Which samples a rank still has to read in an epoch, whatever number of ranks has read a part of it; reads nothing."""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from hpclaunch.training.input import shards


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
        read = [_share(unread, seed, epoch, one, part.ranks, number, reshuffle) for one in range(part.ranks)]
        unread = unread[~np.isin(unread, [own[: part.samples] for own in read])]
    return _share(unread, seed, epoch, rank, size, len(parts), reshuffle)


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
    mixed = unread[shards.epoch_order(len(unread), seed, epoch, -1 - number)]
    return np.resize(mixed, length * ranks)[rank::ranks]
