"""How the runs of an array are divided where the scheduler accepts no array of that size; pure.

The parts are arrays of their own, so each has its own limit of runs at a time. Together they never have more than the
array's limit: the limit is divided among the parts, or, if it is smaller than their number, some wait for others.
"""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.core.records import record
from hpclaunch.runs.arrays import spelled


@record
class ArrayPart:
    """Runs that one array of the scheduler holds: those with these ``indices``; its task 0 is the run ``offset``.

    ``at_once``: how many of them may run at a time (0: no limit). ``after``: the number of the part whose end this one
    waits for; None if it waits for none.
    """

    indices: tuple[int, ...]
    offset: int = 0
    at_once: int = 0
    after: int | None = None

    @property
    def tasks(self) -> str:
        """The tasks as the scheduler reads them: ``0-999%4``."""
        text = spelled(index - self.offset for index in self.indices)
        return f"{text}%{self.at_once}" if self.at_once else text


def divide(indices: Sequence[int], largest: int | None, at_once: int) -> list[ArrayPart]:
    """Return the parts of an array with these runs.

    ``largest``: how many tasks an array may have, numbered from 0 (None: not known); ``at_once``: how many of the runs
    may run at a time (0: no limit).
    """
    ordered = tuple(sorted(indices))
    if not ordered or largest is None or ordered[-1] < largest:
        return [ArrayPart(indices=ordered, at_once=at_once)]
    groups: list[list[int]] = []
    for index in ordered:
        if not groups or index - groups[-1][0] >= largest:
            groups.append([])
        groups[-1].append(index)
    limits = _limits([len(group) for group in groups], at_once)
    return [
        ArrayPart(
            indices=tuple(group),
            offset=group[0],
            at_once=limits[number],
            # With fewer runs at a time than parts, only so many parts run side by side, each with one run.
            after=number - at_once if 0 < at_once <= number else None,
        )
        for number, group in enumerate(groups)
    ]


def _limits(sizes: Sequence[int], at_once: int) -> list[int]:
    """Return the limit of each part: at least 1, in proportion to its size, and together ``at_once`` at most."""
    if not 0 < len(sizes) <= at_once:
        return [min(at_once, 1)] * len(sizes)
    free = at_once - len(sizes)
    limits = [1 + free * size // sum(sizes) for size in sizes]
    largest_first = sorted(range(len(sizes)), key=lambda number: -sizes[number])
    for number in largest_first[: at_once - sum(limits)]:
        limits[number] += 1
    return limits
