"""Ends a training whose ranks hold different models: ranks compare sums of the bits of their arrays; it mends nothing.

Compared is what all ranks, or those with the same part of a divided model, must hold alike to the last bit: NaN and the
sign of zero count. Not compared is what may differ between ranks:

- parts of an optimizer's state that ranks share (--shard-optimizer, ZeroRedundancyOptimizer), and pending gradients;
- batch norm's moving statistics and other buffers, until ranks share them: TensorFlow averages them at the end of an
  epoch, PyTorch takes those of rank 0 for every checkpoint and evaluation;
- variables that are neither trained nor of a floating type, such as counters and the states of random generators;
- random generators of layers (dropout), typed keys of JAX, arrays of JAX that are divided among ranks, metrics;
- plain numbers in the state of an optimizer of PyTorch, such as its own counters;
- groups of ranks that train apart (--update-groups): each is compared within itself.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World

ROUNDING = 1e-4
"""A difference, relative to the largest value of an array, that rounding may make between unequal processors.

On GPUs the sum of an embedding's sparse gradients depends on the order of its terms, which is another on each rank.
"""
MOST_VALUES = 1 << 22
"""The values of an array that are sent to the other ranks to tell by how much it differs."""
MOST_RANKS = 8  # that are named in a message
BLOCK = 1 << 14

MADE_OTHERWISE = (
    "Likeliest cause: the program makes the model by the number of the rank, its data or random numbers of its own. "
    "Make it alike on all ranks"
)

Cause = Callable[[str, List[Mapping[str, Any]]], str]
"""The likeliest cause of a difference, as a sentence: of the array's name, and of the facts that each rank has."""


@dataclass(frozen=True)
class Held:
    """An array that ranks must hold alike. kind: its type and shape in words. read: gives it; None: only `kind` counts.

    among: ranks that give the same word must hold the same.
    """

    name: str
    kind: str
    read: Optional[Callable[[], np.ndarray]] = None
    among: str = ""


def _processor() -> str:
    """The model of this machine's processor; empty if it is not known."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next((line for line in file if line.startswith("model name")), "").strip()
    except OSError:
        return ""


def kind_of(array: Any) -> str:
    """The type and the shape of an array, such as float32 [3, 4]."""
    return "{} {}".format(array.dtype, list(array.shape))


@dataclass(frozen=True)
class _Difference:
    """An array that is not the same. place: its number in its group. kinds, digests: by rank of the group."""

    among: str
    place: int
    name: str
    kinds: Dict[int, str]
    digests: Dict[int, bytes]

    @property
    def has_one_kind(self) -> bool:
        return len(set(self.kinds.values())) == 1

    def sides(self) -> tuple[list[int], list[int]]:
        """The ranks that hold what most of them hold, and the others."""
        held: Dict[Any, List[int]] = {}
        for rank in sorted(self.kinds):
            held.setdefault((self.kinds[rank], self.digests[rank]), []).append(rank)
        most = max(held.values(), key=len)  # the first of them, if several are as large
        return most, [rank for rank in sorted(self.kinds) if rank not in most]


class OneModel:
    """The proof that the ranks of a world hold one model.

    cause: of a difference. facts: what this rank knows of it, for `cause`; picklable. gpu: the name of this rank's GPU;
    empty: it computes on a CPU.
    """

    def __init__(
        self, world: World, cause: Cause, facts: Callable[[], Mapping[str, Any]] = dict, gpu: str = ""
    ) -> None:
        self._world, self._cause, self._facts, self._gpu = world, cause, facts, gpu
        self._has_warned = False

    def prove(self, held: Sequence[Held], when: str) -> None:
        """Raise AgreedError on all ranks unless they hold the same. A collective.

        held: in the same order on all ranks; names may differ, as those of Keras's layers do. when: such as "after the
        first step". Where unequal processors may round otherwise, a difference of that size is a warning.
        """
        if self._world.size == 1:
            return
        everywhere = self._world.gather(_digests(held, self._world.threads))
        if all(len({own[among] for own in everywhere if among in own}) == 1 for own in everywhere for among in own):
            return
        differences, may_round = self._differences(held), self._may_round()
        changes = [self._change(held, one) for one in (differences if may_round else differences[:1])]
        what = _what(differences[0], changes[0])
        if may_round and all(change and change.is_rounding for change in changes):
            self._warn(what)
            return
        cause = self._cause(differences[0].name, self._world.gather(dict(self._facts())))
        raise AgreedError(
            "ranks hold different models: {}. It was found {}, with {} different array{}. {}".format(
                what, when, len(differences), "s" if differences[1:] else "", cause
            ),
            speaks=self._world.is_root,
        )

    def _differences(self, held: Sequence[Held]) -> list[_Difference]:
        """All arrays that differ, the first one first. A collective."""
        own = [(one.among, one.name, one.kind, hashlib.sha256(_bytes_of(one)).digest()) for one in held]
        everywhere = [_sort_by_group(rows) for rows in self._world.gather(own)]
        found = []
        for among in dict.fromkeys(among for groups in everywhere for among in groups):
            ranks = [rank for rank, groups in enumerate(everywhere) if among in groups]
            rows = zip_longest(*(everywhere[rank][among] for rank in ranks), fillvalue=("", "missing", b""))
            for place, row in enumerate(rows):
                if len({(kind, digest) for _, kind, digest in row}) > 1:
                    name = next(name for name, _, _ in row if name)
                    kinds, digests = {}, {}
                    for rank, (_, kind, digest) in zip(ranks, row):
                        kinds[rank], digests[rank] = kind, digest
                    found.append(_Difference(among, place, name, kinds, digests))
        return sorted(found, key=lambda one: one.place)

    def _change(self, held: Sequence[Held], difference: _Difference) -> _Change | None:
        """By how much an array differs from that of most ranks; None for other types or shapes. A collective."""
        most, _ = difference.sides()
        mine = [one for one in held if one.among == difference.among][difference.place : difference.place + 1]
        values, is_whole = None, True
        if mine and mine[0].read is not None and difference.has_one_kind:
            whole = np.ascontiguousarray(mine[0].read()).reshape(-1)
            values, is_whole = whole[:MOST_VALUES], len(whole) <= MOST_VALUES
        theirs = self._world.gather(values if self._world.rank == most[0] else None)[most[0]]
        own = None if values is None or theirs is None else _change_between(values, theirs, is_whole)
        found = [one for one in self._world.gather(own) if one is not None]
        if not found:
            return None
        return max(found, key=lambda one: (one.not_finite, one.most))

    def _may_round(self) -> bool:
        """Whether the processors of the ranks may round otherwise. A collective."""
        found = self._world.gather((self._gpu, _processor()))
        return any(gpu for gpu, _ in found) or len(set(found)) > 1

    def _warn(self, what: str) -> None:
        if self._world.is_root and not self._has_warned:
            print("warning: {}, as rounding makes it on such processors; training goes on".format(what), flush=True)
        self._has_warned = True


@dataclass(frozen=True)
class _Change:
    """By how much an array differs. most: the largest difference of two values. largest: the largest value.

    not_finite: the values that are finite on one side alone. rounds: whether the array has fractions. is_whole: whether
    all its values were compared.
    """

    most: float
    largest: float
    not_finite: int
    rounds: bool
    is_whole: bool

    @property
    def is_rounding(self) -> bool:
        return self.rounds and not self.not_finite and 0 < self.most <= ROUNDING * self.largest

    def __str__(self) -> str:
        if self.not_finite:
            return ", {} of its values are finite on one side alone".format(self.not_finite)
        if self.most:
            return ", by up to {:.3g}".format(self.most)
        if self.is_whole:
            return ", in the sign of zeros or the bits of NaN alone"
        return ", beyond its first {} values".format(MOST_VALUES)


def _change_between(own: np.ndarray, theirs: np.ndarray, is_whole: bool) -> _Change:
    rounds, wide = own.dtype.kind not in "iub", complex if np.iscomplexobj(own) else np.float64
    own, theirs = own.astype(wide), theirs.astype(wide)
    both = np.isfinite(own) & np.isfinite(theirs)
    not_finite = int((np.isfinite(own) != np.isfinite(theirs)).sum())
    if not both.any():
        return _Change(0.0, 0.0, not_finite, rounds, is_whole)
    most = float(np.abs(own[both] - theirs[both]).max())
    return _Change(most, float(np.abs(theirs[both]).max()), not_finite, rounds, is_whole)


def _what(difference: _Difference, change: _Change | None) -> str:
    """The array, on which ranks it is another one, and by how much."""
    most, others = difference.sides()
    if change is not None:
        return "{} is not the same on all ranks that hold it{} ({} differ{} from {})".format(
            difference.name, change, _ranks(others), "" if others[1:] else "s", _ranks(most)
        )
    kinds = difference.kinds
    return "{} is {} on {}, but {} on {}".format(
        difference.name, kinds[most[0]], _ranks(most), kinds[others[0]], _ranks(others)
    )


def _ranks(ranks: Sequence[int]) -> str:
    named = ", ".join(map(str, ranks[:MOST_RANKS])) + (", …" if ranks[MOST_RANKS:] else "")
    return "rank {}".format(named) if len(ranks) == 1 else "ranks {}".format(named)


def _sort_by_group(rows: Sequence[Tuple[str, str, str, bytes]]) -> dict[str, list[tuple[str, str, bytes]]]:
    found: Dict[str, List[Tuple[str, str, bytes]]] = {}
    for among, name, kind, digest in rows:
        found.setdefault(among, []).append((name, kind, digest))
    return found


def _digests(held: Sequence[Held], threads: int) -> dict[str, bytes]:
    """Of each group the digest of its arrays' types, shapes and sums."""
    with ThreadPoolExecutor(max(1, threads)) as pool:  # NumPy adds without Python's lock
        sums = list(pool.map(_sum_of, held))
    hashes: Dict[str, Any] = {}
    for one, total in zip(held, sums):
        text = "{} {:x}\n".format(one.kind, total)
        hashes.setdefault(one.among, hashlib.blake2b(digest_size=16)).update(text.encode())
    return {among: found.digest() for among, found in hashes.items()}


def _sum_of(one: Held) -> int:
    return 0 if one.read is None else bit_sum(one.read())


def _bytes_of(one: Held) -> bytes:
    return b"" if one.read is None else np.ascontiguousarray(one.read()).tobytes()


def bit_sum(array: np.ndarray) -> int:
    """A sum over the bits of an array, from 0 to 2**64 - 1, in whole numbers: the same whatever computes it.

    Each half of a word of 64 bits has a weight of its own, with 64 bits: exchanged values do not cancel, nor do signs,
    whose bits are the upper ones.
    """
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    words = flat[: len(flat) // 8 * 8].view(np.uint64)
    total, upper = int.from_bytes(flat[len(words) * 8 :].tobytes(), "little"), np.empty(BLOCK, np.uint64)
    for first in range(0, len(words), BLOCK):
        block = words[first : first + BLOCK]
        half = np.right_shift(block, _HALF, out=upper[: len(block)])
        # For whole numbers einsum takes half the time of dot.
        own = np.einsum("i,i->", block, _WEIGHTS[: len(block)]), np.einsum("i,i->", half, _WEIGHTS[-len(block) :])
        total = (total * _FACTOR + int(own[0]) + int(own[1])) & _MASK
    return total


_MASK, _HALF, _FACTOR = 2**64 - 1, np.uint64(32), 0x9E3779B97F4A7C15


def _make_weights() -> np.ndarray:
    """Odd numbers without a pattern: the first outputs of SplitMix64 (Steele et al. 2014), made odd."""
    found = np.arange(1, 2 * BLOCK + 1, dtype=np.uint64) * np.uint64(_FACTOR)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray((found ^ (found >> np.uint64(31))) | np.uint64(1))


_WEIGHTS = _make_weights()
