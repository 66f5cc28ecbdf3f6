"""The page that compares two runs: their settings, results and curves; it reads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.reports.page.amounts import duration, percent, time_in_words
from hpclaunch.reports.page.model import Block, Fact, Listing, Page, PageSection, Sentence, Value
from hpclaunch.reports.page.recorded import RecordedRun
from hpclaunch.reports.page.run_page import results_of, with_unique_names
from hpclaunch.reports.page.runs_page import metric_figure
from hpclaunch.reports.page.sections.course import tone_of
from hpclaunch.reports.page.sections.curves import RATES, metric_groups
from hpclaunch.reports.page.sections.speed import typical_rate

_MOST_FIGURES = 8
_MOST_DIFFERENCES = 300
Differences = Sequence[tuple[str, Sequence[str]]]
"""(name of a fact, its value in each run), where the values differ."""


def comparison_page(found: Sequence[RecordedRun], differences: Differences, now: float, version: str) -> Page:
    """Return the page that compares runs. ``differences``: of their settings, code, software and results."""
    first, second = found
    states = dict.fromkeys(one.run.state for one in found)
    return Page(
        title=f"{first.run.label} and {second.run.label}",
        state=" and ".join(states),
        tone=max((tone_of(state) for state in states), key=("good", "plain", "warning", "bad").index),
        lead="Two runs beside each other: what differs in their settings, their curves and their results.",
        key_figures=tuple(Fact(name=one.run.label, value=duration(one.seconds), origin=one.run.state) for one in found),
        sections=with_unique_names([_results(found), _settings(found, differences), _curves(found)]),
        made=time_in_words(now),
        version=version,
        sources=tuple(str(one.run.path) for one in found),
    )


def _settings(found: Sequence[RecordedRun], differences: Differences) -> PageSection:
    rows = tuple((name, *values) for name, values in differences if not name.startswith("result."))
    blocks: tuple[Block, ...] = (Sentence(text="Their settings, code and software do not differ."),)
    if rows:
        columns = ("what", *(one.run.label for one in found))
        listing = Listing(title="What differs", columns=columns, rows=rows[:_MOST_DIFFERENCES])
        left = len(rows) - _MOST_DIFFERENCES
        more = (Sentence(text=f"{left} more differences: hpclaunch runs compare lists all."),) if left > 0 else ()
        blocks = (listing, *more)
    return PageSection(name="settings", title="Settings, code and software", blocks=blocks)


def _results(found: Sequence[RecordedRun]) -> PageSection:
    tables = [_measured_values(one) for one in found]
    rows: list[tuple[Value, ...]] = []
    for name in dict.fromkeys(name for table in tables for name in table):
        first, second = (table.get(name) for table in tables)
        change = None
        if first is not None and second is not None and first:
            change = f"{'+' if second >= first else ''}{percent(second / first - 1)}"
        rows.append((name, first, second, change))
    blocks: tuple[Block, ...] = (Sentence(text="Neither run wrote a result."),)
    if rows:
        columns = ("what", *(one.run.label for one in found), "change")
        blocks = (Listing(title="Results and speed", columns=columns, rows=tuple(rows)),)
    return PageSection(name="results", title="Results", blocks=blocks)


def _measured_values(one: RecordedRun) -> dict[str, float]:
    values = results_of(one)
    rate = typical_rate(one.epochs)
    values |= {"samples per second": rate} if rate is not None else {}
    return values | ({"seconds of all starts": one.seconds} if one.seconds is not None else {})


def _curves(found: Sequence[RecordedRun]) -> PageSection:
    names = dict.fromkeys(name for one in found for group in metric_groups(one.epochs).values() for name in group)
    metrics = [*names, "learning_rate", *RATES]
    labels = [one.run.label for one in found]
    figures = [figure for name in metrics if (figure := metric_figure(found, labels, name)) is not None]
    left = len(figures) - _MOST_FIGURES
    notes = [f"{one.run.label}: {one.thinned}." for one in found if one.thinned]
    blocks: list[Block] = [*(Sentence(text=text, tone="warning") for text in notes), *figures[:_MOST_FIGURES]]
    if left > 0:
        blocks.append(Sentence(text=f"{left} more metrics are not drawn."))
    if not blocks:
        blocks = [Sentence(text="Neither run wrote epochs, so there are no curves.")]
    return PageSection(name="curves", title="Curves over each other", blocks=tuple(blocks))
