"""The section of a search: its best trial, all trials, and how the best value was found; it reads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.reports.charts.search_chart import best_panel, importance_panel
from hpclaunch.reports.charts.study_chart import Panel
from hpclaunch.reports.page.amounts import duration, percent, short
from hpclaunch.reports.page.model import (
    Block,
    CodeText,
    Fact,
    Facts,
    Figure,
    Listing,
    PageSection,
    Sentence,
    Value,
)
from hpclaunch.search.events import COMPLETED
from hpclaunch.search.names import texts_of
from hpclaunch.search.results import SearchSummary, ranked
from hpclaunch.search.table import TrialRow, counts
from hpclaunch.search.terms import SearchTerms

_MOST_LISTED = 50
_MOST_NAMES = 8


@record
class FailedTrials:
    """The failed trials in words, and the last lines of the log of the ``first`` of them."""

    words: str
    first: int
    log_end: str


def search_section(
    rows: Sequence[TrialRow], terms: SearchTerms, summary: SearchSummary, failed: FailedTrials | None = None
) -> PageSection:
    """Return what a search has found so far."""
    metric = terms.metric or "value"
    blocks: list[Block] = [Sentence(text=_search_in_words(summary, len(rows), metric))]
    if failed is not None:
        blocks.append(Sentence(text=f"{failed.words}.", tone="bad" if summary.has_failed else "warning"))
        title = f"The last lines of the log of trial {failed.first}"
        blocks += [CodeText(title=title, text=failed.log_end)] if failed.log_end else []
    if summary.best is not None:
        best = tuple(Fact(name=name, value=text) for name, text in texts_of(summary.best.values).items())
        blocks.append(Facts(title=f"The best trial: number {summary.best.number}", rows=best))
    order = ranked(rows, terms)
    if order:
        names = terms.space.names[:_MOST_NAMES]
        columns = ("trial", metric, *names, "state", "took")
        title = "The trials, the best first" + (
            f": {_MOST_LISTED} of {len(order)}" if len(order) > _MOST_LISTED else ""
        )
        listed = tuple(_cells(row, names) for row in order[:_MOST_LISTED])
        blocks.append(Listing(title=title, columns=columns, rows=listed))
    known = [row for row in rows if row.state == COMPLETED and row.value is not None]
    if known:
        data = tuple(
            (row.number, *_values(row, terms.space.names), row.value, row.end.time if row.end else None)
            for row in known
        )
        columns = ("trial", *terms.space.names, metric, "ended")
        panels = [("best-so-far", best_panel(known, terms)), ("importance", importance_panel(known, terms))]
        blocks += [_figure(name, panel, columns, data) for name, panel in panels if panel.series]
    return PageSection(name="search", title="The search", blocks=tuple(blocks))


def _search_in_words(summary: SearchSummary, begun: int, metric: str) -> str:
    words = f"{count(begun, 'trial')} begun"
    words += f" of {summary.total}" if summary.total is not None else ""
    words += f": {counts(summary.states)}."
    if summary.best is not None and summary.best.value is not None:
        words += f" The best {metric} is {short(summary.best.value)} (trial {summary.best.number})."
    if summary.busy is not None:
        words += f" The slots for trials were busy {percent(summary.busy)} of the time."
    return words


def _values(row: TrialRow, names: Sequence[str]) -> tuple[Value, ...]:
    texts = texts_of(row.values)
    return tuple(texts.get(name) for name in names)


def _cells(row: TrialRow, names: Sequence[str]) -> tuple[Value, ...]:
    return (row.number, row.value, *_values(row, names), row.state, duration(row.seconds) if row.seconds else None)


def _figure(name: str, panel: Panel, columns: tuple[str, ...], data: tuple[tuple[Value, ...], ...]) -> Figure:
    words = {
        "best-so-far": "Each completed trial at the time of its end, and the best value until then.",
        "importance": "How much of the variance of the value each parameter explains alone.",
    }
    return Figure(name=name, title=panel.title, words=words[name], drawings=(panel,), columns=columns, rows=data)
