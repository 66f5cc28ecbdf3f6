"""The finished trials of one journal in a few numbers, so that a status does not read all its lines; pure.

{"format":1,"metric":"loss","minimized":true,"bytes":15873,"crc":3632233996,"finished":[[0,511],[600,600]],
 "states":{"COMPLETED":513},"first":1790000000.5,"last":1790000390.1,"seconds":3078.2,
 "best":["the line of its begin","the line of its end"],"uncounted":["a line", …]}
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from hpclaunch.core.records import record
from hpclaunch.search.events import COMPLETED, FINISHED, Event, TrialBegin, TrialEnd, event_in
from hpclaunch.search.terms import MOST_TRIALS, SearchTerms

_FORMAT = 1
Pair = tuple[TrialBegin, TrialEnd]


@record
class JournalTotals:
    """The trials of one journal that began and finished at their first start, in numbers, and its other events.

    ``bytes``: the size of the part of the journal that is counted, ``crc``: its CRC-32. ``finished``: the numbers of
    the counted trials, as (first, last). ``states``: how many of them have each state. ``first``: their earliest begin,
    ``last``: their latest end, in seconds since 1970. ``seconds``: the run time of all these trials together.
    ``best``: the completed one with the best value. ``uncounted``: every event of any other trial or start.
    """

    bytes: int
    crc: int
    finished: tuple[tuple[int, int], ...]
    states: dict[str, int]
    first: float
    last: float
    seconds: float
    best: Pair | None
    uncounted: tuple[Event, ...]


class TotalsCounter:
    """Counts the events of one journal as they are written."""

    def __init__(self, terms: SearchTerms) -> None:
        self._terms = terms
        self._open: dict[int, TrialBegin] = {}
        self._others: list[Event] = []
        self._finished: set[int] = set()
        self._states: Counter[str] = Counter()
        self._first, self._last, self._seconds = math.inf, -math.inf, 0.0
        self._best: Pair | None = None

    def add(self, event: Event) -> None:
        """Count an event, in the order of the journal."""
        number = event.number
        begin = self._open.get(number)
        if event.attempt != 1 or number in self._finished:
            self._others.append(event)
        elif isinstance(event, TrialBegin) and begin is None:
            self._open[number] = event
        elif isinstance(event, TrialEnd) and begin is not None and event.state in FINISHED:
            del self._open[number]
            self._count(begin, event)
        else:
            self._others.append(event)

    def _count(self, begin: TrialBegin, end: TrialEnd) -> None:
        self._finished.add(end.number)
        self._states[end.state] += 1
        self._first, self._last = min(self._first, begin.time), max(self._last, end.time)
        self._seconds += max(0.0, end.time - begin.time)
        if end.state == COMPLETED and self._is_best(end):
            self._best = (begin, end)

    def _is_best(self, end: TrialEnd) -> bool:
        """Whether the value is better than the best; of equal values the trial with the smallest number counts."""
        if end.value is None or not self._terms.metric:
            return False
        best = self._best[1] if self._best else None
        if best and best.value == end.value:
            return end.number < best.number
        return self._terms.is_better(end.value, best.value if best else None)

    @property
    def uncounted(self) -> int:
        """The number of events that are kept because they are not counted."""
        return len(self._open) + len(self._others)

    def totals(self, size: int, crc: int) -> JournalTotals:
        """Return the numbers. ``size``, ``crc``: of the journal with all events that were added."""
        return JournalTotals(
            bytes=size,
            crc=crc,
            finished=tuple(_ranges(sorted(self._finished))),
            states=dict(self._states),
            first=self._first,
            last=self._last,
            seconds=self._seconds,
            best=self._best,
            uncounted=(*self._open.values(), *self._others),
        )


def _ranges(numbers: Sequence[int]) -> Iterable[tuple[int, int]]:
    if not numbers:
        return
    first = numbers[0]
    for before, number in pairwise(numbers):
        if number != before + 1:
            yield first, before
            first = number
    yield first, numbers[-1]


def count_each_trial_once(parts: Sequence[JournalTotals], others: Iterable[int]) -> bool:
    """Whether no trial is counted by two journals, or by one although it is among the ``others``."""
    ranges = sorted([*(one for part in parts for one in part.finished), *((number, number) for number in others)])
    return all(before[1] < after[0] for before, after in pairwise(ranges))


def text_of(totals: JournalTotals, terms: SearchTerms) -> str:
    """Return the totals as JSON. The best trial depends on the terms, so these are named in it."""
    values: dict[str, Any] = {"format": _FORMAT, **_goal_of(terms), **vars(totals)}
    if not totals.finished:
        values["first"] = values["last"] = 0.0  # JSON has no infinity
    values["best"] = [event.line() for event in totals.best] if totals.best else None
    values["uncounted"] = [event.line() for event in totals.uncounted]
    return json.dumps(values, separators=(",", ":"))


def _goal_of(terms: SearchTerms) -> dict[str, Any]:
    return {"metric": terms.metric, "minimized": terms.is_minimized}


def totals_in(values: dict[str, Any], terms: SearchTerms) -> JournalTotals | None:
    """Return the totals that `text_of` wrote; None if they are damaged, or of other terms."""
    try:
        if {name: values[name] for name in ("format", "metric", "minimized")} != {"format": _FORMAT, **_goal_of(terms)}:
            return None
        finished = tuple((_natural_number(first), _natural_number(last)) for first, last in values["finished"])
        totals = JournalTotals(
            bytes=_natural_number(values["bytes"]),
            crc=_natural_number(values["crc"]),
            finished=finished,
            states={str(state): _natural_number(number) for state, number in values["states"].items()},
            first=float(values["first"]) if finished else math.inf,
            last=float(values["last"]) if finished else -math.inf,
            seconds=float(values["seconds"]),
            best=_pair(*values["best"]) if values["best"] is not None else None,
            uncounted=tuple(map(_event, values["uncounted"])),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    return totals if _is_consistent(totals) else None


def _is_consistent(totals: JournalTotals) -> bool:
    """Whether the numbers agree with each other."""
    are_ranges = all(first <= last < MOST_TRIALS for first, last in totals.finished)
    trials = sum(last - first + 1 for first, last in totals.finished)
    if not are_ranges or sum(totals.states.values()) != trials or not totals.states.keys() <= FINISHED:
        return False
    if totals.finished and not all(map(math.isfinite, (totals.first, totals.last, totals.seconds))):
        return False
    return totals.best is None or any(first <= totals.best[1].number <= last for first, last in totals.finished)


def _natural_number(value: Any) -> int:
    """Return a whole number from 0. Raises ValueError for anything else."""
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


def _pair(first: str, second: str) -> Pair:
    """Return the begin and the end of one first start. Raises ValueError for anything else."""
    begin, end = event_in(first), event_in(second)
    if not isinstance(begin, TrialBegin) or not isinstance(end, TrialEnd):
        raise ValueError(first, second)
    if begin.number != end.number or (begin.attempt, end.attempt) != (1, 1) or end.state != COMPLETED:
        raise ValueError(first, second)
    return begin, end


def _event(line: str) -> Event:
    """Return the event in a line. Raises ValueError if it has none."""
    event = event_in(line)
    if event is None:
        raise ValueError(line)
    return event
