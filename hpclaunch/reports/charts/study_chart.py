"""Draws the results of a study: curves and bars with their ranges, side by side; it computes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from hpclaunch.core.records import record
from hpclaunch.reports.charts.canvas import import_matplotlib, new_figure, save

WIDTH, HEIGHT = 5.0, 3.8
"""Inches of a panel."""
BAR = 0.8
"""The part of a group's place that its bars fill."""
MARK_LINES = (":", "--", "-.")
"""Styles of Matplotlib, so that the marks of a panel can be told apart."""


@record
class Series:
    """One curve, or the bars of one colour: ``y`` over ``x``, each with its range if ``low`` and ``high`` are given.

    ``x``: numbers; of bars the names of the groups. ``line``: a style of Matplotlib; "" draws points alone.
    ``names``: of the points of a curve, written beside them. ``quiet``: a curve that is one of many: thin, grey, and
    not in the legend.
    """

    label: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    line: str = "-"
    names: Sequence[str] = ()
    quiet: bool = False


@record
class Panel:
    """One picture with its axes. ``marks``: horizontal lines with a name, such as a published value.

    ``uprights``: the places of vertical lines, such as restarts, which share ``upright_name``. ``from_zero``: whether
    the y axis begins at zero. ``stacked`` bars stand on each other, in the order of the series.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    kind: Literal["curves", "bars", "stacked"] = "curves"
    logarithmic: Literal["", "x", "y", "xy"] = ""
    marks: Sequence[tuple[str, float]] = ()
    uprights: Sequence[float] = ()
    upright_name: str = ""
    from_zero: bool = False


def draw(panels: Sequence[Panel], path: Path, *, title: str = "", columns: int = 2) -> None:
    """Write the panels as one picture, ``columns`` in a row. Raises ImportError without matplotlib, OSError."""
    import_matplotlib()
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(WIDTH * max(columns, 1.2), HEIGHT * rows)
    if title:
        figure.suptitle(title)
    for number, panel in enumerate(panels, start=1):
        draw_panel(figure.add_subplot(rows, columns, number), panel)
    save(figure, path)


def draw_panel(axes: Any, panel: Panel) -> None:
    """Draw a panel into axes of matplotlib, with a legend."""
    {"curves": _draw_curves, "bars": _draw_bars, "stacked": _draw_stacked}[panel.kind](axes, panel.series)
    for number, (label, height) in enumerate(panel.marks):
        line = MARK_LINES[number % len(MARK_LINES)]
        axes.axhline(height, color="grey", linestyle=line, linewidth=1, label=label)
    for number, place in enumerate(panel.uprights):
        axes.axvline(place, color="grey", linestyle="--", linewidth=1, label="_" if number else panel.upright_name)
    if "x" in panel.logarithmic:
        axes.set_xscale("log")
    if "y" in panel.logarithmic:
        axes.set_yscale("log")
    if panel.from_zero:
        axes.set_ylim(bottom=0)
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize="x-small")


def _draw_curves(axes: Any, series: Sequence[Series]) -> None:
    for curve in series:
        if curve.quiet:
            axes.plot(curve.x, curve.y, color="grey", linewidth=0.7, alpha=0.6, label="_")
            continue
        marker = "o" if len(curve.x) <= 16 or not curve.line else None
        (drawn,) = axes.plot(curve.x, curve.y, linestyle=curve.line or "none", marker=marker, label=curve.label)
        for name, place in zip(curve.names, zip(curve.x, curve.y, strict=True), strict=bool(curve.names)):
            axes.annotate(name, place, textcoords="offset points", xytext=(5, -3), fontsize="x-small")
        if curve.low and len(curve.x) > 1:
            axes.fill_between(curve.x, curve.low, curve.high, alpha=0.2, color=drawn.get_color())


def _draw_bars(axes: Any, series: Sequence[Series]) -> None:
    groups = list(dict.fromkeys(str(name) for bars in series for name in bars.x))
    width = BAR / len(series)
    for number, bars in enumerate(series):
        shift = (number - (len(series) - 1) / 2) * width
        places = [groups.index(str(name)) + shift for name in bars.x]
        ranges = None
        if bars.low:
            ranges = [
                [y - low for y, low in zip(bars.y, bars.low, strict=True)],
                [high - y for y, high in zip(bars.y, bars.high, strict=True)],
            ]
        axes.bar(places, bars.y, width, yerr=ranges, capsize=2, label=bars.label)
    axes.set_xticks(range(len(groups)), groups)


def _draw_stacked(axes: Any, series: Sequence[Series]) -> None:
    below = [0.0] * len(series[0].y)
    for bars in series:
        axes.bar(range(len(below)), bars.y, BAR, bottom=below, label=bars.label)
        below = [low + own for low, own in zip(below, bars.y, strict=True)]
    axes.set_xticks(range(len(below)), [str(name) for name in series[0].x])
