"""Fewer points of a long series, with its smallest and largest values kept; it draws nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hpclaunch.reports.charts.study_chart import Series
from hpclaunch.reports.page.model import Value

MOST_POINTS = 400
"""Points of a curve: two for each of the 200 parts of a picture that is 5 inches wide."""
MOST_ROWS = 40
"""Rows of the table behind a figure on the page; the CSV file has all."""


MOST_HEAT_ROWS = 128
"""Rows of a heat map that can be told apart on the page."""


def kept(values: Sequence[float], most: int = MOST_POINTS) -> list[int]:
    """Return the places of the values to draw: the first, the last, and in each of equal parts the extremes.

    No peak and no valley is lost, and no value is made up or averaged. A value that is no number has its place kept
    once in its part, so that a gap stays one.
    """
    if len(values) <= most:
        return list(range(len(values)))
    parts = max(1, (most - 2) // 3)
    chosen = {0, len(values) - 1}
    for part in range(parts):
        places = range(part * len(values) // parts, (part + 1) * len(values) // parts)
        known = [place for place in places if math.isfinite(values[place])]
        if known:
            chosen |= {min(known, key=values.__getitem__), max(known, key=values.__getitem__)}
        chosen |= set([place for place in places if not math.isfinite(values[place])][:1])
    return sorted(chosen)


def thin_series(label: str, x: Sequence[float], y: Sequence[float], line: str = "-") -> Series:
    """Return a curve with few enough points to draw."""
    places = kept(y)
    return Series(label=label, x=[x[place] for place in places], y=[y[place] for place in places], line=line)


def pooled(
    names: Sequence[str], values: Sequence[Sequence[float | None]]
) -> tuple[list[str], list[list[float | None]]]:
    """Return the rows of a matrix, of many each the largest of neighbours, so that a slow rank stays visible."""
    size = -(-len(names) // MOST_HEAT_ROWS)
    if size <= 1:
        return list(names), [list(row) for row in values]
    labels, rows = [], []
    for at in range(0, len(names), size):
        labels.append(f"{names[at]}-{names[min(at + size, len(names)) - 1]}")
        columns = zip(*values[at : at + size], strict=True)
        rows.append([max((one for one in column if one is not None), default=None) for column in columns])
    return labels, rows


def thin_rows(rows: Sequence[tuple[Value, ...]], most: int = MOST_ROWS) -> list[tuple[Value, ...]]:
    """Return at most ``most`` rows at equal distances, the first and the last among them."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(place * (len(rows) - 1) / (most - 1))] for place in range(most)]
