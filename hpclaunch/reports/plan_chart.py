"""Draws a forecast: throughput, efficiency, time and cost against nodes, as PNG or SVG; it predicts nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpclaunch.core.errors import Fault, InvalidRequest, Refused
from hpclaunch.guidelines.choice import Candidate
from hpclaunch.guidelines.throughput import Throughput
from hpclaunch.planner.values import Forecast

FORMATS = (".png", ".svg")
LARGE = 10_000
"""Samples/s from which on an axis says 20k in place of 20000."""
_UNITS = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
Points = list[tuple[int, Throughput, Candidate]]


def check_plot(path: Path) -> None:
    """Raise InvalidRequest for a name that is no picture's, and Refused where it cannot be drawn or written."""
    if path.suffix.lower() not in FORMATS:
        raise InvalidRequest(
            Fault(where="--plot", what=f"{path.name!r} has no known format", allowed=", ".join(FORMATS))
        )
    if not path.absolute().parent.is_dir():
        raise Refused(Fault(where=str(path), what="its folder is not there", next=f"mkdir -p {path.parent}"))
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise Refused(
            Fault(where="--plot", what="matplotlib is not installed", next="pip install 'hpclaunch[plot]'")
        ) from None


def draw(found: Forecast, path: Path) -> None:
    """Write the four curves with their ranges. Raises Refused where nothing was predicted."""
    points: Points = [
        (row.nodes, row.throughput, row.candidate) for row in found.rows if row.throughput and row.candidate
    ]
    if not points:
        raise Refused(
            Fault(
                where="--plot", what=f"nothing to draw: {found.summary}", next="leave --plot out, or hpclaunch profile"
            )
        )
    figure = _figure(found, points)
    try:
        figure.savefig(path)
    except OSError as error:
        raise Refused(Fault(where=str(path), what=f"cannot be written: {error.strerror}")) from None


def _figure(found: Forecast, points: Points) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{found.job} at {found.site} ({found.node_type}); ranges hold in 4 cases of 5")
    (rate, efficiency), (time, cost) = figure.subplots(2, 2)
    _draw_throughput(rate, efficiency, points)
    _draw_time_and_cost(time, cost, points, f"{found.unit}s")
    word = "nearest" if found.refusals else "typed" if found.typed else "chosen"
    for axes in (rate, efficiency, time, cost):
        axes.axvline(found.nodes, color="tab:orange", linestyle=":", label=f"{word}: {found.nodes}")
        axes.legend()
    return figure


def _draw_throughput(rate: Any, efficiency: Any, points: Points) -> None:
    from matplotlib.ticker import EngFormatter

    nodes, found = [one[0] for one in points], [throughput for _, throughput, _ in points]
    _curve(rate, nodes, [_three(one.samples_per_s) for one in found], "samples/s")
    if max(one.samples_per_s.high for one in found) >= LARGE:
        rate.yaxis.set_major_formatter(EngFormatter(sep=""))
    _curve(efficiency, nodes, [(100 * one.efficiency,) * 3 for one in found], "efficiency, %")
    efficiency.set_ylim(top=105)


def _draw_time_and_cost(time: Any, cost: Any, points: Points, unit_of_cost: str) -> None:
    nodes, found = [one[0] for one in points], [candidate for _, _, candidate in points]
    longest = max(one.time_s.middle for one in found)
    size, unit = next(((size, unit) for size, unit in _UNITS if longest >= 2 * size), _UNITS[-1])
    _curve(time, nodes, [_three(one.time_s, 1 / size) for one in found], f"time to the target, {unit}")
    _curve(cost, nodes, [_three(one.cost) for one in found], f"cost, {unit_of_cost}")


def _three(interval: Any, scale: float = 1.0) -> tuple[float, float, float]:
    return interval.low * scale, interval.middle * scale, interval.high * scale


def _curve(axes: Any, nodes: list[int], values: list[tuple[float, float, float]], label: str) -> None:
    middles = [middle for _, middle, _ in values]
    lengths = [[middle - low for low, middle, _ in values], [high - middle for _, middle, high in values]]
    axes.errorbar(nodes, middles, yerr=lengths, marker="o", capsize=4)  # a single count has no area to shade
    axes.fill_between(nodes, [low for low, _, _ in values], [high for _, _, high in values], alpha=0.2)
    axes.set_xscale("log", base=2)
    axes.set_xticks(nodes, [str(count) for count in nodes])
    axes.set_xlabel("nodes")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
