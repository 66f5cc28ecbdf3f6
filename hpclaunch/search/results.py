"""The results of a search: the best trial, the best at each moment, how time was used, and rows for tables; pure."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from hpclaunch.core.quoting import spreadsheet_text
from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.search.events import COMPLETED, FAILED, FINISHED, INTERRUPTED, LOST, MACHINE, PRUNED, RUNNING
from hpclaunch.search.names import texts_of
from hpclaunch.search.table import TrialRow, TrialTable, row_of_first_start
from hpclaunch.search.terms import SearchTerms
from hpclaunch.search.totals import JournalTotals

STATES = (COMPLETED, PRUNED, FAILED, RUNNING, INTERRUPTED, MACHINE, LOST)


@record
class SearchSummary:
    """A search in numbers. ``total``: None if it has no limit. ``waiting``: trials that have not begun.

    ``busy``: the part of the slots' time in which a trial ran, from the first begin to the last end (None: not known).
    """

    total: int | None
    states: dict[str, int]
    waiting: int
    best: TrialRow | None
    trials_per_second: float | None
    busy: float | None

    @property
    def has_failed(self) -> bool:
        """Whether every trial has ended and none was of use: a search fails if all its trials have FAILED."""
        return set(self.states) == {FAILED} and not self.waiting


def summary_of(
    table: TrialTable, terms: SearchTerms, at_once: int, totals: Sequence[JournalTotals] = ()
) -> SearchSummary:
    """Return the numbers of a search as its journals tell them. ``totals``: of the trials that the table lacks."""
    rows = list(table.rows())
    states = Counter(row.state for row in rows)
    for part in totals:
        states.update(part.states)
    began = [*(row.begin.time for row in rows if row.begin), *(part.first for part in totals if part.finished)]
    ended = [*(row.end.time for row in rows if row.end), *(part.last for part in totals if part.finished)]
    seconds = sum(row.seconds for row in rows) + sum(part.seconds for part in totals)
    lasted = max(ended) - min(began) if began and ended else 0.0
    finished = sum(states[state] for state in FINISHED)
    best = [row_of_first_start(*part.best) for part in totals if part.best]
    return SearchSummary(
        total=terms.total,
        states={state: states[state] for state in STATES if states[state]},
        waiting=max(0, (terms.total or 0) - states.total()),
        best=best_of(sorted([*rows, *best], key=lambda row: row.number), terms),
        trials_per_second=finished / lasted if lasted > 0 else None,
        busy=min(1.0, seconds / (lasted * at_once)) if lasted > 0 else None,
    )


def best_of(rows: Iterable[TrialRow], terms: SearchTerms) -> TrialRow | None:
    """Return the completed trial with the best value; of equal ones the first. None without a metric."""
    best = None
    for row in rows:
        is_known = row.state == COMPLETED and row.value is not None and terms.metric
        if is_known and terms.is_better(row.value or 0.0, best.value if best else None):
            best = row
    return best


def failed_among(rows: Iterable[TrialRow]) -> list[TrialRow]:
    """Return the trials that have failed, by number."""
    return [row for row in rows if row.state == FAILED]


def failures_in_words(failed: Sequence[TrialRow], begun: int) -> str:
    """Return how many trials have failed, and why the first did."""
    first = failed[0]
    why = "exit code 1"
    if first.end:
        why = first.end.reason or f"exit code {first.end.exit_code}"
    return f"{len(failed)} of {count(begun, 'trial')} FAILED; the first is trial {first.number}: {why}"


def best_so_far(rows: Iterable[TrialRow], terms: SearchTerms) -> list[tuple[float, float]]:
    """Return (seconds since the first begin, best value until then), one pair for each improvement."""
    rows = list(rows)
    first = min((row.begin.time for row in rows if row.begin), default=0.0)
    ends = [(row.end.time, row.value) for row in rows if row.end and row.state == COMPLETED]
    best: float | None = None
    points = []
    for time, value in sorted(((time, value) for time, value in ends if value is not None), key=lambda pair: pair[0]):
        if terms.is_better(value, best):
            best = value
            points.append((time - first, value))
    return points


def ranked(rows: Iterable[TrialRow], terms: SearchTerms) -> list[TrialRow]:
    """Return the trials, those with a value first, from the best to the worst, then the others by number."""
    sign = 1 if terms.is_minimized else -1

    def place(row: TrialRow) -> tuple[bool, float, int]:
        has_value = row.value is not None and row.state == COMPLETED
        return (not has_value, sign * (row.value or 0.0) if has_value else 0.0, row.number)

    return sorted(rows, key=place)


def columns_of(terms: SearchTerms) -> tuple[str, ...]:
    """Return the names of the columns of a table of trials."""
    return ("trial", "state", terms.metric or "value", *terms.space.names, "seconds", "attempts")


def cells_of(row: TrialRow, terms: SearchTerms) -> tuple[str, ...]:
    """Return the cells of a trial as text, in the order of `columns_of`."""
    texts = texts_of(row.values)
    value = "" if row.value is None else f"{row.value:.6g}"
    return (
        str(row.number),
        row.state,
        value,
        *(texts.get(name, "") for name in terms.space.names),
        f"{row.seconds:.1f}",
        str(row.attempts),
    )


def json_of(row: TrialRow) -> dict[str, Any]:
    """Return a trial as plain values, with what its last start was granted."""
    begin, end = row.begin, row.end
    values: dict[str, Any] = {"trial": row.number, "state": row.state, "value": row.value, "values": row.values}
    values |= {"attempts": row.attempts, "seconds": round(row.seconds, 3)}
    if begin:
        values |= {"host": begin.host, "cpus": begin.cpus, "gpus": begin.gpus, "began": begin.time}
    if end:
        values |= {"ended": end.time, "exit_code": end.exit_code, "reason": end.reason}
    return values


def csv_of(rows: Sequence[TrialRow], terms: SearchTerms) -> str:
    """Return all trials as CSV, one line each, with a line of names; values with all their digits."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = terms.space.names
    header = ("trial", "state", terms.metric or "value", *names, "seconds", "attempts", "exit_code", "host")
    writer.writerow(map(spreadsheet_text, header))
    for row in rows:
        texts = texts_of(row.values)
        own = ["" if row.value is None else repr(row.value), *(texts.get(name, "") for name in names)]
        end = ("" if row.end is None else row.end.exit_code, "" if row.begin is None else row.begin.host)
        cells = (row.number, row.state, *own, round(row.seconds, 3), row.attempts, *end)
        writer.writerow([spreadsheet_text(cell) if isinstance(cell, str) else cell for cell in cells])
    return file.getvalue()
