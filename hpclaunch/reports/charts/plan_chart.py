"""Draws a plan as PNG or SVG: its node counts, or what its batch means for the training; it predicts nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hpclaunch.core.errors import Fault, InvalidRequest, Refused
from hpclaunch.planner.values import Forecast
from hpclaunch.reports.charts import batch_panels, node_panels
from hpclaunch.reports.charts.canvas import check_file, new_figure, save

WIDTH, HEIGHT = 5.0, 3.8
"""Inches of a panel."""
Draw = Callable[[Any, Forecast], None]
KINDS: Mapping[str, tuple[Draw, ...]] = {
    "nodes": (node_panels.throughput, node_panels.efficiency, node_panels.time, node_panels.cost),
    "frontier": (batch_panels.frontier, node_panels.frontier),
    "gradient": (batch_panels.gradient_error, batch_panels.training_speed),
    "steps": (batch_panels.steps,),
    "noise": (batch_panels.noise_scale,),
}
"""The kinds of pictures, and the panels of each."""
USUAL, ALL = "nodes", "all"


def check_plot(path: Path, kind: str) -> None:
    """Raise InvalidRequest for an unknown format or kind, and Refused if the picture cannot be drawn or written."""
    if kind not in (*KINDS, ALL):
        raise InvalidRequest(
            Fault(where="--plot-kind", what=f"{kind!r} is not allowed", allowed=", ".join((*KINDS, ALL)))
        )
    check_file(path, "--plot")


def draw(forecast: Forecast, path: Path, kind: str = USUAL) -> None:
    """Write a picture of one of the KINDS, or of ALL, to ``path``. Raises Refused if there is no prediction."""
    if forecast.efficiency is None or not any(row.throughput and row.candidate for row in forecast.rows):
        raise Refused(
            Fault(
                where="--plot",
                what=f"there is nothing to draw: {forecast.summary}",
                next="leave --plot out, or hpclaunch profile",
            )
        )
    try:
        save(figure_of(forecast, kind), path)
    except OSError as error:
        raise Refused(Fault(where=str(path), what=f"cannot be written: {error.strerror}")) from None


def figure_of(forecast: Forecast, kind: str) -> Any:
    """Return the picture: two panels in a row, each with titles of its axes and a legend."""
    panels = [panel for name, family in KINDS.items() if kind in (name, ALL) for panel in family]
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(WIDTH * max(columns, 1.5), HEIGHT * rows)
    figure.suptitle(f"{forecast.job} at {forecast.site} ({forecast.node_type}); with 80 % intervals")
    for number, panel in enumerate(panels, start=1):
        axes = figure.add_subplot(rows, columns, number)
        panel(axes, forecast)
        axes.legend(fontsize="x-small")
    return figure
