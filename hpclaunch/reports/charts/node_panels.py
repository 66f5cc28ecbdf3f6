"""Panels of a plan's node counts: throughput, efficiency, time and cost, each with its 80 % interval."""

from __future__ import annotations

from typing import Any

from hpclaunch.core.records import record
from hpclaunch.guidelines.candidates import Candidate
from hpclaunch.guidelines.intervals import Interval
from hpclaunch.guidelines.throughput import Throughput
from hpclaunch.planner.values import Forecast

LARGE = 10_000
"""Samples/s above which the axis shows 20k instead of 20000."""
UNITS = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
MARGIN = 1.2
"""The factor between the outermost node counts and the ends of the axis."""
WIDE = 20.0
"""The ratio of the largest to the smallest value from which an axis is logarithmic."""
MARKS = {
    "1 s": 1.0,
    "10 s": 10.0,
    "1 min": 60.0,
    "10 min": 600.0,
    "1 h": 3600.0,
    "6 h": 21600.0,
    "1 d": 86400.0,
    "10 d": 864e3,
    "100 d": 864e4,
    "3 y": 946e5,
    "30 y": 946e6,
    "300 y": 946e7,
}
"""Times in seconds that a logarithmic axis names."""
Bounds = tuple[float, float, float]
"""Low, middle and high."""


@record
class PlottedSize:
    """A node count with a prediction. ``at``: its place in nodes, a fraction for a part of one; ``label``: in words."""

    at: float
    label: str
    rate: Throughput
    run: Candidate
    chosen: bool


def points_of(plan: Forecast) -> list[PlottedSize]:
    """Return the node counts with a prediction, and parts of a shared node."""
    whole = max((row.ranks / row.nodes for row in plan.rows), default=1.0)
    points = []
    for row in plan.rows:
        if row.throughput is None or row.candidate is None:
            continue
        part = row.ranks / row.nodes < whole
        label = f"{row.ranks}/{whole:.0f}" if part else str(row.nodes)
        place = row.ranks / whole
        point = PlottedSize(at=place, label=label, rate=row.throughput, run=row.candidate, chosen=row is plan.chosen)
        points.append(point)
    return points


def throughput(axes: Any, plan: Forecast) -> None:
    """Draw samples/s against nodes."""
    rates = [point.rate.samples_per_s for point in points_of(plan)]
    middles = [rate.middle for rate in rates]
    if _is_wide(middles):
        _curve(axes, plan, [bounds(rate) for rate in rates], "samples/s (logarithmic)", "log")
        return
    _curve(axes, plan, [bounds(rate) for rate in rates], "samples/s")
    if max(rate.high for rate in rates) >= LARGE:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value else "0")


def efficiency(axes: Any, plan: Forecast) -> None:
    """Draw efficiency in percent against nodes."""
    _curve(axes, plan, [(100 * point.rate.efficiency,) * 3 for point in points_of(plan)], "efficiency, %")
    axes.set_ylim(top=max(105, axes.get_ylim()[1]))


def time(axes: Any, plan: Forecast) -> None:
    """Draw the time to the target against nodes."""
    size, label, scale = _time_axis(plan)
    _curve(axes, plan, [bounds(point.run.time_s, 1 / size) for point in points_of(plan)], label, scale)
    if scale == "log":
        _name_times(axes.yaxis, axes.get_ylim())


def cost(axes: Any, plan: Forecast) -> None:
    """Draw the cost against nodes."""
    _curve(axes, plan, [bounds(point.run.cost) for point in points_of(plan)], f"cost, {plan.unit}s")


def frontier(axes: Any, plan: Forecast) -> None:
    """Draw cost against time, one point per node count: more nodes buy time with cost."""
    size, label, scale = _time_axis(plan)
    for point in points_of(plan):
        at, amount = bounds(point.run.time_s, 1 / size), bounds(point.run.cost)
        style = {"color": "tab:orange", "label": line_label(plan)} if point.chosen else {"color": "tab:blue"}
        axes.errorbar(at[1], amount[1], xerr=_lengths([at]), yerr=_lengths([amount]), marker="o", **style)
        axes.annotate(point.label, (at[1], amount[1]), textcoords="offset points", xytext=(6, 6))
    axes.set_xscale(scale)
    axes.set_xlabel(label)
    if scale == "log":
        _name_times(axes.xaxis, axes.get_xlim())
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"cost, {plan.unit}s")
    axes.set_title("time and cost of each node count", fontsize="medium")


def line_label(plan: Forecast) -> str:
    """Return why a node count is marked: it is the chosen one, the typed one, or the nearest that is possible."""
    word = "chosen"
    if plan.refusals:
        word = "nearest"
    elif plan.typed:
        word = "typed"
    chosen = next((point.label for point in points_of(plan) if point.chosen), plan.nodes)
    return f"{word}: {chosen}"


def bounds(interval: Interval, scale: float = 1.0) -> Bounds:
    """Return low, middle and high, times ``scale``."""
    return interval.low * scale, interval.middle * scale, interval.high * scale


def _time_axis(plan: Forecast) -> tuple[float, str, str]:
    """Return the seconds of the unit, the label and the scale: short times cannot be told apart beside days."""
    times = [point.run.time_s.middle for point in points_of(plan)]
    if _is_wide(times):
        return 1.0, "time to the target (logarithmic)", "log"
    size, unit = next(((size, unit) for size, unit in UNITS if max(times) >= 2 * size), UNITS[-1])
    return size, f"time to the target, {unit}", "linear"


def _is_wide(middles: list[float]) -> bool:
    return max(middles) > WIDE * min(middles)


def _name_times(axis: Any, limits: tuple[float, float]) -> None:
    """Name times that people say in place of powers of ten of a unit."""
    seen = {name: seconds for name, seconds in MARKS.items() if limits[0] <= seconds <= limits[1]}
    axis.set_ticks(list(seen.values()), list(seen))
    axis.set_ticks([], minor=True)


def _lengths(values: list[Bounds]) -> list[list[float]]:
    return [[middle - low for low, middle, _ in values], [high - middle for _, middle, high in values]]


def _curve(axes: Any, plan: Forecast, values: list[Bounds], label: str, scale: str = "linear") -> None:
    points = points_of(plan)
    nodes, middles = [point.at for point in points], [middle for _, middle, _ in values]
    axes.errorbar(nodes, middles, yerr=_lengths(values), marker="o", capsize=4)  # one count has no area to shade
    axes.fill_between(nodes, [low for low, _, _ in values], [high for _, _, high in values], alpha=0.2)
    for point in points:
        if point.chosen:
            axes.axvline(point.at, color="tab:orange", linestyle=":", label=line_label(plan))
    axes.set_xscale("log", base=2)
    axes.set_xlim(nodes[0] / MARGIN, nodes[-1] * MARGIN)
    axes.set_xticks(nodes, [point.label for point in points])
    axes.set_xlabel("nodes")
    axes.set_ylabel(label)
    axes.set_yscale(scale)
    if scale == "linear":  # a logarithmic axis has no zero
        axes.set_ylim(bottom=0)
