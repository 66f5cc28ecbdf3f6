"""The table and the picture of the study universes, from its results; it runs nothing."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from store import Result
from universes_cases import STUDY

from hpclaunch.reports.charts.study_chart import Panel, Series, draw

BAR = 0.7
"""The largest ratio of Omega_m that the study may have (the issue's bar)."""
MINUTES = 60
HEADS = ("parameter", "mean absolute error", "always the mean", "ratio (range over the seeds)")
COLUMNS = ("error", "always_the_mean", "ratio")
UNITS: Mapping[str, str] = {"h_0": " km/s/Mpc"}


def report(results: Sequence[Result], pictures: Path) -> int:
    """Print the table and draw the picture; 1 if there is no result, or if a bar does not hold."""
    trained = [result for result in results if result.case == "train"]
    if not trained:
        print("no result yet: python benchmarks/reference/universes.py --work FOLDER")
        return 1
    print(table(trained), "", *(verdicts := held(results)), sep="\n")
    pictures.mkdir(parents=True, exist_ok=True)
    draw(panels(trained), pictures / f"{STUDY}.svg", title="Parameters of universes that were held out", columns=2)
    return 1 if any(line.startswith("FALLS SHORT") for line in verdicts) else 0


def table(trained: Sequence[Result]) -> str:
    """A row for each parameter: medians over the seeds, the ratio with its range."""
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    for target in trained[0].measured["answers"]["targets"]:
        name, unit = target["name"], UNITS.get(target["name"], "")
        error, constant, ratio = ([run.measured[f"{name}_{what}"] for run in trained] for what in COLUMNS)
        cells = [name, *(f"{statistics.median(values):.3g}{unit}" for values in (error, constant))]
        cells.append(f"{statistics.median(ratio):.2f} ({min(ratio):.2f} to {max(ratio):.2f})")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def held(results: Sequence[Result]) -> list[str]:
    """Which bars hold, each with its figure."""
    trained = [result for result in results if result.case == "train"]
    worst = max(result.measured["omega_m_ratio"] for result in trained)
    minutes = sum(result.measured["seconds"] for result in trained) / 60
    data = sum(result.measured["seconds"] for result in results if result.case == "data") / 60
    of_all = f"with each of {len(trained)} seeds"
    bars = {
        f"ratio of Omega_m at most {BAR} {of_all}: {worst:.2f}": worst <= BAR,
        f"training {of_all} within {MINUTES} minutes: {minutes:.0f} (the data: {data:.0f} more)": minutes <= MINUTES,
    }
    return [f"{'holds' if good else 'FALLS SHORT'}: {words}" for words, good in bars.items()]


def panels(trained: Sequence[Result]) -> list[Panel]:
    """A panel for each parameter: the answers over the true values in its unit, a colour for each seed."""
    return [_panel(trained, place) for place, _ in enumerate(trained[0].measured["answers"]["targets"])]


def _panel(trained: Sequence[Result], place: int) -> Panel:
    target = trained[0].measured["answers"]["targets"][place]
    ends = (target["low"], target["high"])
    series = [
        Series(
            label=f"seed {run.seed}: {run.measured[target['name'] + '_ratio']:.2f} of the error of the mean",
            x=_values(run.measured["answers"]["true"], place, ends),
            y=_values(run.measured["answers"]["answered"], place, ends),
            line="",
        )
        for run in trained
    ]
    exact = Series(label="exact", x=ends, y=ends, line="-")
    return Panel(title=target["name"], x_label="true", y_label="answered", series=[*series, exact])


def _values(rows: Sequence[Sequence[Any]], place: int, ends: tuple[float, float]) -> list[float]:
    """One column of answers in the parameter's unit; -1 and 1 are the ends of its range."""
    low, high = ends
    return [low + (row[place] + 1) * (high - low) / 2 for row in rows]
