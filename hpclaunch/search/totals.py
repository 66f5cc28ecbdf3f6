"""The finished trials of one journal in a few numbers, so that a status does not read all its lines; pure.

{"format":1,"bytes":15873,"finished":[[0,511],[600,600]],"states":{"COMPLETED":513},
 "first":1790000000.5,"last":1790000390.1,"seconds":3078.2,"best":["a begin","its end"],"rest":["a begin", …]}

``bytes``: so much of the journal is counted. ``best`` and ``rest`` are lines of the journal.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from hpclaunch.core.records import record
from hpclaunch.search.events import COMPLETED, FINISHED, TrialBegin, TrialEnd, event_in
from hpclaunch.search.terms import SearchTerms

_FORMAT = 1
Event = TrialBegin | TrialEnd


@record
class JournalTotals:
    """The trials that began and finished at their first start, in numbers, and all other events of the journal.

    ``finished``: their numbers, as (first, last). ``first``: the earliest begin, ``last``: the latest end, in seconds
    since 1970. ``seconds``: of all of them together.
    """

    bytes: int
    finished: tuple[tuple[int, int], ...]
    states: dict[str, int]
    first: float
    last: float
    seconds: float
    best: tuple[TrialBegin, TrialEnd] | None
    rest: tuple[Event, ...]


class Counting:
    """Counts the events of one journal as they are written."""

    def __init__(self, terms: SearchTerms) -> None:
        self._terms = terms
        self._open: dict[int, TrialBegin] = {}
        self._others: list[Event] = []
        self._finished: set[int] = set()
        self._states: Counter[str] = Counter()
        self._first, self._last, self._seconds = float("inf"), 0.0, 0.0
        self._best: tuple[TrialBegin, TrialEnd] | None = None

    def add(self, event: Event) -> None:
        """Count an event, in the order of the journal."""
        begin = self._open.get(event.number)
        if event.attempt != 1:
            self._others.append(event)
        elif isinstance(event, TrialBegin):
            if begin is None:
                self._open[event.number] = event
            else:
                self._others.append(event)
        elif begin is not None and event.state in FINISHED:
            del self._open[event.number]
            self._count(begin, event)
        else:
            self._others.append(event)

    def _count(self, begin: TrialBegin, end: TrialEnd) -> None:
        self._finished.add(end.number)
        self._states[end.state] += 1
        self._first, self._last = min(self._first, begin.time), max(self._last, end.time)
        self._seconds += max(0.0, end.time - begin.time)
        if end.state == COMPLETED and end.value is not None and self._terms.metric:
            self._best = better_of(self._best, (begin, end), self._terms)

    def totals(self, size: int) -> JournalTotals:
        """Return the numbers. ``size``: the bytes of the journal with all events that were added."""
        return JournalTotals(
            bytes=size,
            finished=tuple(_ranges(sorted(self._finished))),
            states=dict(self._states),
            first=self._first,
            last=self._last,
            seconds=self._seconds,
            best=self._best,
            rest=(*self._open.values(), *self._others),
        )


def better_of(
    one: tuple[TrialBegin, TrialEnd] | None, other: tuple[TrialBegin, TrialEnd], terms: SearchTerms
) -> tuple[TrialBegin, TrialEnd]:
    """Return the completed trial with the better value; of equal ones that with the smaller number."""
    if one is None or other[1].value is None or one[1].value is None:
        return other if one is None else one
    if other[1].value == one[1].value:
        return min(one, other, key=lambda pair: pair[1].number)
    return other if terms.is_better(other[1].value, one[1].value) else one


def _ranges(numbers: Sequence[int]) -> Iterable[tuple[int, int]]:
    if not numbers:
        return
    first = numbers[0]
    for before, number in pairwise(numbers):
        if number != before + 1:
            yield first, before
            first = number
    yield first, numbers[-1]


def are_disjoint(parts: Sequence[JournalTotals], others: Iterable[int]) -> bool:
    """Whether no trial is counted twice: by two journals, or by one although other events tell of it, too."""
    ranges = sorted([*(one for part in parts for one in part.finished), *((number, number) for number in set(others))])
    return all(before[1] < after[0] for before, after in pairwise(ranges))


def text_of(totals: JournalTotals) -> str:
    """Return the totals as JSON."""
    values: dict[str, Any] = {"format": _FORMAT, **vars(totals)}
    if totals.best:
        values["best"] = [event.line() for event in totals.best]
    if not totals.finished:
        values["first"] = 0.0  # JSON has no infinity
    return json.dumps(values | {"rest": [event.line() for event in totals.rest]}, separators=(",", ":"))


def totals_in(values: dict[str, Any]) -> JournalTotals | None:
    """Return the totals that `text_of` wrote, from the object in them; None if they are damaged."""
    try:
        if values["format"] != _FORMAT:
            return None
        finished = tuple((int(first), int(last)) for first, last in values["finished"])
        if any(first > last for first, last in finished):
            return None
        return JournalTotals(
            bytes=int(values["bytes"]),
            finished=finished,
            states={str(state): int(count) for state, count in values["states"].items() if state in FINISHED},
            first=float(values["first"]) if finished else float("inf"),
            last=float(values["last"]),
            seconds=float(values["seconds"]),
            best=_begin_and_end(*values["best"]) if values["best"] else None,
            rest=tuple(_event(line) for line in values["rest"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _event(line: str) -> Event:
    """Return the event in a line. Raises ValueError if it has none."""
    event = event_in(line)
    if event is None:
        raise ValueError(line)
    return event


def _begin_and_end(first: str, second: str) -> tuple[TrialBegin, TrialEnd]:
    """Return the events in two lines. Raises ValueError if they are no begin and no end."""
    begin, end = event_in(first), event_in(second)
    if not isinstance(begin, TrialBegin) or not isinstance(end, TrialEnd):
        raise ValueError(first, second)
    return begin, end
