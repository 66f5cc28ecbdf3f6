"""Draws a scaling study: speed-up with the ideal line, efficiency, and the parts of a step; it computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpclaunch.reports.charts.study_chart import Panel, Series, draw

PARTS = (
    ("compute_s", "compute"),
    ("communication_s", "communication"),
    ("waiting_s", "waiting for the slowest rank"),
    ("input_s", "waiting for input"),
)
MILLI = 1e3


def draw_study(results: Mapping[str, Any], path: Path) -> None:
    """Draw results, as ``hpclaunch scale --json`` has them. Raises ImportError without matplotlib, OSError."""
    study = results["study"]
    kept = "global batch" if study["mode"] == "strong" else "batch per rank"
    title = f"{study['job']} at {study['site']}: {study['mode']} scaling, {kept} {study['batch']}"
    draw(panels_of(results), path, title=title, columns=3)


def panels_of(results: Mapping[str, Any]) -> list[Panel]:
    """Return the panels of what was measured; those of the parts of a step only if all layouts report them."""
    rows = [row for row in results["rows"] if row["speed_up"] is not None]
    found = [_speed_up(rows), _efficiency(rows)] if rows else []
    divided = [row for row in results["rows"] if row["split"] is not None]
    return [*found, _steps(divided)] if divided else found


def _speed_up(rows: Sequence[Mapping[str, Any]]) -> Panel:
    ranks = [row["ranks"] for row in rows]
    measured = Series(
        label="measured",
        x=ranks,
        y=[row["speed_up"] for row in rows],
        low=[row["speed_up_low"] for row in rows],
        high=[row["speed_up_high"] for row in rows],
    )
    series = [measured, Series(label="ideal", x=ranks, y=ranks, line="--")]
    alone = next(row for row in rows if row["ranks"] == 1)
    predicted = [row for row in rows if row["predicted"]]
    if predicted:
        y = [row["predicted"] / alone["samples_per_s"] for row in predicted]
        series.append(Series(label="predicted", x=[row["ranks"] for row in predicted], y=y, line=":"))
    return Panel(title="speed-up", x_label="ranks", y_label="times one process", series=series)


def _efficiency(rows: Sequence[Mapping[str, Any]]) -> Panel:
    measured = Series(
        label="measured",
        x=[row["ranks"] for row in rows],
        y=[row["efficiency"] for row in rows],
        low=[row["speed_up_low"] / row["ranks"] for row in rows],
        high=[row["speed_up_high"] / row["ranks"] for row in rows],
    )
    return Panel(
        title="efficiency", x_label="ranks", y_label="speed-up / ranks", series=[measured], marks=[("ideal", 1.0)]
    )


def _steps(rows: Sequence[Mapping[str, Any]]) -> Panel:
    names = [str(row["ranks"]) for row in rows]
    series = [Series(label=label, x=names, y=[MILLI * row["split"][name] for row in rows]) for name, label in PARTS]
    return Panel(title="parts of a step", x_label="ranks", y_label="ms", series=series, kind="stacked")
