"""Which weights each rank updates if the optimizer's state is sharded; it needs no TensorFlow."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence

BUCKET_BYTES = 64 * 2**20
"""A gradient is copied before it is sent, at most so many bytes at a time (or one variable, if it is larger)."""


class Part(NamedTuple):
    """The elements from `begin` to `end` (exclusive) of a flattened variable; it can be empty."""

    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


class Bucket(NamedTuple):
    """Variables that are sent together: their indices and sizes (elements), one after the other."""

    variables: range
    sizes: tuple[int, ...]

    def parts(self, rank: int, ranks: int) -> list[Part]:
        """The part of each variable that `rank` updates. Ranks have equal shares, up to one element.

        As Horovod scatters a tensor, the first ranks have one element more.
        """
        least, more = divmod(sum(self.sizes), ranks)
        begin = rank * least + min(rank, more)
        end = begin + least + (rank < more)
        return [_overlap(start, size, begin, end) for start, size in self._places()]

    def _places(self) -> Iterator[tuple[int, int]]:
        start = 0
        for size in self.sizes:
            yield start, size
            start += size


def _overlap(start: int, size: int, begin: int, end: int) -> Part:
    first = min(max(begin - start, 0), size)
    return Part(first, min(max(end - start, first), size))


def buckets(sizes: Sequence[int], most: int) -> list[Bucket]:
    """Put variables of these sizes (elements) into buckets, in their order: each bucket has `most` elements at most.

    A variable that is larger has a bucket of its own. A bucket bounds the memory of a copy that is sent.
    """
    found: list[Bucket] = []
    begin, held = 0, 0
    for index, size in enumerate(sizes):
        if index > begin and held + size > most:
            found.append(Bucket(range(begin, index), tuple(sizes[begin:index])))
            begin, held = index, 0
        held += size
    return [*found, Bucket(range(begin, len(sizes)), tuple(sizes[begin:]))]
