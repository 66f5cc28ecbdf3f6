"""What the journals of all workers tell of the trials: their state, and which may be started again; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from hpclaunch.search.events import (
    COMPLETED,
    FAILED,
    FINISHED,
    INTERRUPTED,
    LOST,
    MACHINE,
    RUNNING,
    Event,
    TrialBegin,
    TrialEnd,
)
from hpclaunch.search.space import Values

MOST_FAULTS = 3
"""So often is a trial started again after a fault of the machine."""
MOST_LOST = 10
"""So often may the worker of a trial end while it runs: then the trial itself may be what ends it."""
MOST_STARTS = 100
"""A trial that asks to be continued at every start (exit code 75) is started so often at most."""


class TrialRow(NamedTuple):
    """One trial as it is now. ``attempts``: how often it began. ``seconds``: of all its starts together."""

    number: int
    state: str
    value: float | None
    values: Values
    attempts: int
    seconds: float
    begin: TrialBegin | None
    end: TrialEnd | None


def row_of_first_start(begin: TrialBegin, end: TrialEnd) -> TrialRow:
    """Return a trial that began once and has finished."""
    seconds = max(0.0, end.time - begin.time)
    return TrialRow(begin.number, end.state, end.value, begin.values, 1, seconds, begin, end)


class TrialTable:
    """The trials of a search. Events may come in any order, and twice."""

    def __init__(self) -> None:
        self._begins: dict[tuple[int, int], TrialBegin] = {}
        self._ends: dict[tuple[int, int], TrialEnd] = {}
        self._worker: dict[tuple[int, int], int] = {}
        self._attempts: dict[int, int] = {}
        self.dead: set[int] = set()
        """The numbers of the workers that have ended."""

    def claim(self, number: int, attempt: int, worker: int) -> None:
        """Add what a claim says: this worker alone may make this start of the trial."""
        self._worker[number, attempt] = worker
        self._attempts[number] = max(attempt, self._attempts.get(number, 0))

    def add(self, event: Event, worker: int) -> None:
        """Add an event of a worker's journal; of several ends of one start the first counts."""
        key = (event.number, event.attempt)
        self._worker.setdefault(key, worker)
        self._attempts[event.number] = max(event.attempt, self._attempts.get(event.number, 0))
        if isinstance(event, TrialBegin):
            self._begins.setdefault(key, event)
        else:
            self._ends.setdefault(key, event)

    def __len__(self) -> int:
        """Return the number of trials that were claimed."""
        return len(self._attempts)

    @property
    def numbers(self) -> Iterable[int]:
        """The numbers of all trials."""
        return self._attempts.keys()

    def row(self, number: int) -> TrialRow:
        """Return one trial. A finished start counts whatever other starts there are; of several the first."""
        last = self._attempts[number]
        end = self._end_of(number, last)
        begin = self._begins.get((number, end.attempt if end else last))
        shown = begin or next(
            (self._begins[number, a] for a in range(last, 0, -1) if (number, a) in self._begins), None
        )
        state = RUNNING
        if end:
            state = end.state
        elif self._worker.get((number, last)) in self.dead:
            state = LOST
        if state not in FINISHED and state != RUNNING and not self._may_try(number, state):
            state = FAILED
        values = shown.values if shown else {}
        return TrialRow(
            number, state, end.value if end else None, values, last, self._seconds(number, last), shown, end
        )

    def rows(self) -> Iterator[TrialRow]:
        """Yield every trial, by number."""
        return map(self.row, sorted(self._attempts))

    def _end_of(self, number: int, last: int) -> TrialEnd | None:
        """Return the end that counts: the first finished one, with a completed one before others; else the last."""
        if last == 1:
            return self._ends.get((number, 1))
        ends = [self._ends[number, attempt] for attempt in range(1, last + 1) if (number, attempt) in self._ends]
        finished = [end for end in ends if end.state in FINISHED]
        completed = [end for end in finished if end.state == COMPLETED]
        return next(iter([*completed, *finished]), None) or self._ends.get((number, last))

    def _seconds(self, number: int, last: int) -> float:
        if last == 1:  # nearly every trial of a large search
            begin, end = self._begins.get((number, 1)), self._ends.get((number, 1))
            return max(0.0, end.time - begin.time) if begin and end else 0.0
        keys = [(number, attempt) for attempt in range(1, last + 1)]
        return sum(
            max(0.0, self._ends[key].time - self._begins[key].time)
            for key in keys
            if key in self._ends and key in self._begins
        )

    def _may_try(self, number: int, state: str) -> bool:
        """Whether the limit of starts after an end of this kind allows one more."""
        last = self._attempts[number]
        keys = [(number, attempt) for attempt in range(1, last + 1)]
        if state == LOST:  # a start that was claimed and never made says nothing about the trial
            return sum(1 for key in keys if key in self._begins and key not in self._ends) <= MOST_LOST
        if state == MACHINE:
            return sum(1 for key in keys if key in self._ends and self._ends[key].state == MACHINE) <= MOST_FAULTS
        return last < MOST_STARTS

    def may_start_again(self, number: int) -> bool:
        """Whether a further start of the trial is due: it was interrupted or lost, or the machine failed."""
        last = self._attempts[number]
        end = self._ends.get((number, last))
        if end is None and self._worker.get((number, last)) not in self.dead:
            return False
        return self.row(number).state in (INTERRUPTED, LOST, MACHINE)

    def due_again(self) -> list[tuple[int, int]]:
        """Return (trial, next attempt) of every trial whose further start is due."""
        return [(number, last + 1) for number, last in sorted(self._attempts.items()) if self.may_start_again(number)]

    def values_of(self, number: int) -> TrialBegin | None:
        """Return the newest begin of a trial, which has its values; None if it never began."""
        last = self._attempts.get(number, 0)
        return next((self._begins[number, a] for a in range(last, 0, -1) if (number, a) in self._begins), None)

    def intervals(self) -> Iterator[tuple[TrialBegin, float | None]]:
        """Yield every start with its end in seconds since 1970 (None: no end is recorded), by the time of the begin."""
        for key, begin in sorted(self._begins.items(), key=lambda pair: pair[1].time):
            end = self._ends.get(key)
            yield begin, end.time if end else None

    def open_starts(self, worker: int) -> int:
        """Return how many starts of a worker have no end."""
        return sum(1 for key, owner in self._worker.items() if owner == worker and key not in self._ends)


def counts(rows: Mapping[str, int]) -> str:
    """Return the numbers of trials by state in words: ``20 COMPLETED, 4 RUNNING``."""
    return ", ".join(f"{number} {state}" for state, number in rows.items() if number) or "no trial has begun"
