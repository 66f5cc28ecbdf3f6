"""Draws a search: the best value until each moment, the importance of its parameters, and all trials as lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpclaunch.reports.charts.canvas import import_matplotlib, new_figure, save
from hpclaunch.reports.charts.study_chart import HEIGHT, WIDTH, Panel, Series, draw_panel
from hpclaunch.search.events import COMPLETED
from hpclaunch.search.importance import importances
from hpclaunch.search.names import texts_of
from hpclaunch.search.results import best_so_far, ranked
from hpclaunch.search.space import Dimension
from hpclaunch.search.table import TrialRow, TrialTable
from hpclaunch.search.terms import SearchTerms

_MOST_LINES = 1_000
"""Of more trials the best half and an even choice of the others are drawn: more lines would be one grey area."""


def draw_search(table: TrialTable, terms: SearchTerms, path: Path, title: str) -> None:
    """Write the picture of a search. Raises ImportError without matplotlib, and OSError."""
    import_matplotlib()
    rows = [row for row in table.rows() if row.state == COMPLETED and row.value is not None]
    figure = new_figure(2.4 * WIDTH, 2 * HEIGHT)
    figure.suptitle(title)
    grid = figure.add_gridspec(2, 2)
    draw_panel(figure.add_subplot(grid[0, 0]), best_panel(rows, terms))
    importance = importance_panel(rows, terms)
    right = figure.add_subplot(grid[0, 1])
    draw_panel(right, importance)
    if not importance.series:
        right.axis("off")
    _draw_lines(figure.add_subplot(grid[1, :]), _rows_to_draw(rows, terms), terms)
    save(figure, path)


def best_panel(rows: Sequence[TrialRow], terms: SearchTerms) -> Panel:
    """Return the panel of the value of each completed trial, and of the best until then."""
    points = best_so_far(rows, terms)
    first = min((row.begin.time for row in rows if row.begin), default=0.0)
    ends = [(row.end.time - first, row.value) for row in rows if row.end and row.value is not None]
    series = [Series(label="each trial", x=[x for x, _ in ends], y=[y for _, y in ends], line="")] if ends else []
    if points:
        last = max(x for x, _ in ends)
        xs, ys = _steps([*points, (last, points[-1][1])])
        series.append(Series(label="best until then", x=xs, y=ys))
    return Panel(title="Best so far", x_label="seconds", y_label=terms.metric or "value", series=series)


def _steps(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return the corners of a line that keeps its value until the next point."""
    xs, ys = [points[0][0]], [points[0][1]]
    for x, y in points[1:]:
        xs += [x, x]
        ys += [ys[-1], y]
    return xs, ys


def importance_panel(rows: Sequence[TrialRow], terms: SearchTerms) -> Panel:
    """Return the panel of the share of the variance that each parameter explains."""
    shares = importances(rows, terms.space)
    title = "Share of the variance" if shares else "Too few trials for an importance"
    bars = Series(label="importance", x=list(shares), y=[100 * share for share in shares.values()])
    return Panel(
        title=title, x_label="", y_label="%", series=[bars] if shares else [], kind="bars" if shares else "curves"
    )


def _rows_to_draw(rows: Sequence[TrialRow], terms: SearchTerms) -> list[TrialRow]:
    order = ranked(rows, terms)
    if len(order) <= _MOST_LINES:
        return order
    half = _MOST_LINES // 2
    rest = order[half:]
    return [*order[:half], *rest[:: math.ceil(len(rest) / half)]]


def _draw_lines(axes: Any, rows: Sequence[TrialRow], terms: SearchTerms) -> None:
    """Draw parallel coordinates: one upright for each parameter and for the value, one line for each trial."""
    names = [*terms.space.names, terms.metric or "value"]
    values = [row.value or 0.0 for row in rows]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    for row, value in reversed(list(zip(rows, values, strict=True))):
        share = (value - low) / (high - low) if high > low else 0.5
        heights = [_height(one, row, rows) for one in terms.space.dimensions]
        good = 1 - share if terms.is_minimized else share
        color = (1 - good * 0.9, 0.35 + 0.25 * (1 - good), 0.2 + 0.5 * good)
        axes.plot(range(len(names)), [*heights, share], color=color, alpha=0.25 + 0.6 * good, linewidth=0.6 + good)
    for place, one in enumerate(terms.space.dimensions):
        axes.axvline(place, color="0.6", linewidth=0.8)
        for height, text in _ticks(one, rows):
            axes.annotate(text, (place, height), fontsize=7, xytext=(3, 0), textcoords="offset points", va="center")
    for height, number in ((0.0, low), (1.0, high)):
        axes.annotate(f"{number:.4g}", (len(names) - 1, height), fontsize=7, xytext=(3, 0), textcoords="offset points")
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks([])
    axes.set_title("Trials")


def _ends(one: Dimension, rows: Sequence[TrialRow]) -> tuple[float, float]:
    numbers = [float(row.values.get(one.name, 0)) for row in rows]
    low, high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
    return (math.log(low), math.log(high)) if one.log and low > 0 else (low, high)


def _height(one: Dimension, row: TrialRow, rows: Sequence[TrialRow]) -> float:
    """Return the place of a trial's value on its upright, from 0 to 1."""
    if one.values:
        texts = [str(value) for value in one.values]
        place = texts.index(str(row.values[one.name])) if str(row.values.get(one.name)) in texts else 0
        return place / max(1, len(texts) - 1)
    low, high = _ends(one, rows)
    number = float(row.values.get(one.name, 0))
    number = math.log(number) if one.log and number > 0 else number
    return (number - low) / (high - low) if high > low else 0.5


def _ticks(one: Dimension, rows: Sequence[TrialRow]) -> list[tuple[float, str]]:
    if one.values:
        texts = list(texts_of({str(place): value for place, value in enumerate(one.values)}).values())
        return [(place / max(1, len(texts) - 1), text) for place, text in enumerate(texts)][:20]
    low, high = _ends(one, rows)
    ends = (math.exp(low), math.exp(high)) if one.log and rows else (low, high)
    return [(0.0, f"{ends[0]:.4g}"), (1.0, f"{ends[1]:.4g}")]
