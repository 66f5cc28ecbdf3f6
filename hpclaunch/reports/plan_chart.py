"""Draws a forecast as PNG or SVG: throughput, efficiency, time and cost against nodes; it predicts nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpclaunch.core.errors import Fault, InvalidRequest, Refused
from hpclaunch.guidelines.choice import Candidate
from hpclaunch.guidelines.throughput import Throughput
from hpclaunch.planner.values import Forecast

FORMATS = (".png", ".svg")
LARGE = 10_000
"""Samples/s above which the axis shows 20k instead of 20000."""
_UNITS = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
Points = list[tuple[int, Throughput, Candidate]]


def check_plot(path: Path) -> None:
    """Raise InvalidRequest for an unknown picture format, and Refused if the picture cannot be drawn or written."""
    if path.suffix.lower() not in FORMATS:
        raise InvalidRequest(
            Fault(where="--plot", what=f"{path.name!r} has no known format", allowed=", ".join(FORMATS))
        )
    if not path.absolute().parent.is_dir():
        raise Refused(Fault(where=str(path), what="its folder does not exist", next=f"mkdir -p {path.parent}"))
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise Refused(
            Fault(where="--plot", what="matplotlib is not installed", next="pip install 'hpclaunch[plot]'")
        ) from None


def draw(forecast: Forecast, path: Path) -> None:
    """Write the four curves with their 80 % intervals to ``path``. Raises Refused if there is no prediction."""
    points: Points = [
        (row.nodes, row.throughput, row.candidate) for row in forecast.rows if row.throughput and row.candidate
    ]
    if not points:
        raise Refused(
            Fault(
                where="--plot",
                what=f"there is nothing to draw: {forecast.summary}",
                next="leave --plot out, or hpclaunch profile",
            )
        )
    figure = _figure(forecast, points)
    try:
        figure.savefig(path)
    except OSError as error:
        raise Refused(Fault(where=str(path), what=f"cannot be written: {error.strerror}")) from None


def _figure(forecast: Forecast, points: Points) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{forecast.job} at {forecast.site} ({forecast.node_type}); with 80 % intervals")
    (rate, efficiency), (time, cost) = figure.subplots(2, 2)
    _draw_throughput(rate, efficiency, points)
    _draw_time_and_cost(time, cost, points, f"{forecast.unit}s")
    word = "nearest" if forecast.refusals else "typed" if forecast.typed else "chosen"
    for axes in (rate, efficiency, time, cost):
        axes.axvline(forecast.nodes, color="tab:orange", linestyle=":", label=f"{word}: {forecast.nodes}")
        axes.legend()
    return figure


def _draw_throughput(rate: Any, efficiency: Any, points: Points) -> None:
    from matplotlib.ticker import EngFormatter

    nodes, throughputs = [count for count, _, _ in points], [throughput for _, throughput, _ in points]
    _curve(rate, nodes, [_bounds(throughput.samples_per_s) for throughput in throughputs], "samples/s")
    if max(throughput.samples_per_s.high for throughput in throughputs) >= LARGE:
        rate.yaxis.set_major_formatter(EngFormatter(sep=""))
    _curve(efficiency, nodes, [(100 * throughput.efficiency,) * 3 for throughput in throughputs], "efficiency, %")
    efficiency.set_ylim(top=105)


def _draw_time_and_cost(time: Any, cost: Any, points: Points, unit_of_cost: str) -> None:
    nodes, candidates = [count for count, _, _ in points], [candidate for _, _, candidate in points]
    longest = max(candidate.time_s.middle for candidate in candidates)
    size, unit = next(((size, unit) for size, unit in _UNITS if longest >= 2 * size), _UNITS[-1])
    _curve(
        time, nodes, [_bounds(candidate.time_s, 1 / size) for candidate in candidates], f"time to the target, {unit}"
    )
    _curve(cost, nodes, [_bounds(candidate.cost) for candidate in candidates], f"cost, {unit_of_cost}")


def _bounds(interval: Any, scale: float = 1.0) -> tuple[float, float, float]:
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
