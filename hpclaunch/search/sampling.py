"""The values of the trials of a grid or random search: each follows from the seed and the trial's number; pure.

So no trial needs to know of another one, and every worker computes the same values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

from hpclaunch.search.space import SearchSpace, Value, Values, combination

GRID, RANDOM = "grid", "random"
_MOST_SHUFFLED = 1_000_000
"""A space of more combinations is not shuffled as a list: combinations are drawn, and repetitions are left out."""
_MOST_REPETITIONS = 1_000
"""After so many repetitions in a row, the combinations that are left are taken in their order."""

ValuesOf = Callable[[int], "Values | None"]
"""Number of a trial -> its values; None if the search ends before it."""


def values_by_number(space: SearchSpace, sampler: str, seed: int) -> ValuesOf:
    """Return the function that gives the values of each trial of a grid or a random search.

    A random search tries no combination twice: it ends when all were tried. ``seed`` does not change a grid's order.
    """
    if sampler == GRID:
        return _grid(space)
    if space.count is None:
        return lambda number: _draw(space, Random(f"{seed} {number}"))
    return _Distinct(space, seed)


def size_of(space: SearchSpace, sampler: str) -> int | None:
    """Return after how many trials the search has tried everything; None: never."""
    if sampler == GRID:
        return math.prod(len(one.grid()) for one in space.dimensions)
    return space.count if sampler == RANDOM else None


def _grid(space: SearchSpace) -> ValuesOf:
    axes = [one.grid() for one in space.dimensions]
    count, names = math.prod(map(len, axes)), space.names

    def values(number: int) -> Values | None:
        return dict(zip(names, combination(axes, number), strict=True)) if number < count else None

    return values


def _draw(space: SearchSpace, random: Random) -> Values:
    return {one.name: one.draw(random.random()) for one in space.dimensions}


class _Distinct:
    """The combinations of a finite space in random order, each once; they are made as far as they are needed."""

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self._space, self._count = space, space.count or 0
        self._random = Random(seed)
        self._made: list[Values] = []
        self._seen: set[tuple[Value, ...]] = set()
        self._rest: Sequence[int] | None = None
        if self._count <= _MOST_SHUFFLED and all(one.is_even for one in space.dimensions):
            self._rest = self._shuffle_numbers()

    def __call__(self, number: int) -> Values | None:
        """Return the values of a trial; None if every combination was tried before it."""
        if number >= self._count:
            return None
        if self._rest is not None and not self._seen:  # nothing was drawn
            return self._space.at(self._rest[number])
        while number >= len(self._made):
            self._made.append(self._draw_untried())
        return self._made[number]

    def _shuffle_numbers(self) -> list[int]:
        order = list(range(self._count))
        self._random.shuffle(order)
        return order

    def _draw_untried(self) -> Values:
        for _ in range(_MOST_REPETITIONS):
            values = _draw(self._space, self._random)
            key = tuple(values.values())
            if key not in self._seen:
                self._seen.add(key)
                return values
        left = (self._space.at(number) for number in range(self._count))
        values = next(values for values in left if tuple(values.values()) not in self._seen)
        self._seen.add(tuple(values.values()))
        return values
