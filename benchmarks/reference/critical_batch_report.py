"""Fits the law to the finished runs of the study of the critical batch, and shows it as a table and two pictures.

`critical_batch.py --report` calls it. The fit is a result too (study critical_batch_law, case fit): in `measured`
critical_batch (samples), fewest_samples (E_min) and fewest_steps (S_min), each with _low and _high (80 %; null: no
upper end); misfit (root mean square, relative); predicted_critical_batch and noise_scale (at the target), medians over
the runs, with _low and _high, the least and the largest.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import batch_law
import store
import studies
from critical_batch_runs import FIT, LAW, STUDY, by_batch, law_settings
from medians import spread
from series import medians_of

from hpclaunch.guidelines.efficiency import Pareto
from hpclaunch.guidelines.noise_table import TABLE
from hpclaunch.reports.charts.study_chart import Panel, Series, draw

PUBLISHED = "CIFAR-10"
HEADS = ("batch", "rate", "steps", "law", "samples", "seconds", "noise scale", "B_crit predicted from it", "seeds")
STEPS_PICTURE, NOISE_PICTURE = "critical_batch_steps.svg", "critical_batch_noise.svg"


def write_law(folder: Path) -> store.Result | None:
    """Fit the law to all runs and write it, unless the same runs have been fitted; None with fewer than two sizes.

    Raises SystemExit if the runs do not follow the law.
    """
    runs = by_batch(studies.current(STUDY, folder))
    if len(runs) < 2:
        return None
    try:
        return store.once(LAW, FIT, 0, law_settings(runs), lambda: law_of(runs), folder)
    except ValueError as error:
        raise SystemExit(f"no law fits the runs in {store.path_of(STUDY, folder)}: {error}") from None


def law_of(results: dict[int, list[store.Result]]) -> dict[str, Any]:
    """What the fit finds (see the module). Raises ValueError if samples grow faster than the batch."""
    runs = {batch: [one.measured["samples"] for one in found] for batch, found in results.items()}
    law, ranges = batch_law.fit(runs), batch_law.bootstrap(runs)
    measured: dict[str, Any] = {
        "critical_batch": law.critical_batch,
        "fewest_samples": law.fewest_epochs,
        "fewest_steps": law.fewest_epochs / law.critical_batch,
        "misfit": batch_law.misfit(law, runs),
    }
    for name, reach in ranges.items():
        measured |= {f"{name}_low": reach.low, f"{name}_high": reach.high}
    for name in ("predicted_critical_batch", "noise_scale"):
        values = [one.measured[name] for found in results.values() for one in found if name in one.measured]
        if values:
            measured |= {name: statistics.median(values), f"{name}_low": min(values), f"{name}_high": max(values)}
    return {name: float(f"{value:.5g}") if math.isfinite(value) else None for name, value in measured.items()}


def report(folder: Path, pictures: Path) -> str:
    """Draw both pictures into a folder; the table and the fit as Markdown. Raises SystemExit without runs."""
    runs, fitted = by_batch(studies.current(STUDY, folder)), write_law(folder)
    if fitted is None:
        place = store.path_of(STUDY, folder)
        raise SystemExit(f"no runs at two batch sizes in {place}: run benchmarks/reference/critical_batch.py first")
    found = fitted.measured
    law = Pareto(fewest_epochs=found["fewest_samples"], critical_batch=found["critical_batch"] or math.inf)
    pictures.mkdir(parents=True, exist_ok=True)
    draw([steps_panel(runs, law)], pictures / STEPS_PICTURE)
    draw([noise_panel(runs, found), curves_panel(runs)], pictures / NOISE_PICTURE)
    rows = [HEADS, ["---"] * len(HEADS), *(cells(batch, found, law) for batch, found in runs.items())]
    return "\n".join(["| " + " | ".join(row) + " |" for row in rows]) + "\n\n" + summary(found)


def cells(batch: int, results: Sequence[store.Result], law: Pareto) -> list[str]:
    """A row of the table: medians of the seeds with their range."""

    def shown(name: str, form: str = ",.0f") -> str:
        values = [one.measured[name] for one in results if name in one.measured]
        return spread(values, form)

    return [
        str(batch),
        f"{results[0].measured['learning_rate']:.2g}",
        shown("steps"),
        f"{law.epochs(batch) / batch:,.0f}",
        shown("samples"),
        shown("seconds"),
        shown("noise_scale"),
        shown("predicted_critical_batch"),
        ", ".join(str(one.seed) for one in results),
    ]


def summary(found: dict[str, Any]) -> str:
    """The fit in sentences, beside the published values for another network on CIFAR-10."""

    def shown(name: str) -> str:
        value, low, high = (found.get(name + end) for end in ("", "_low", "_high"))
        if value is None:
            return "not known" if low is None else f"above {low:,.0f}"
        return f"{value:,.0f} ({low:,.0f} to {'no upper end' if high is None else f'{high:,.0f}'})"

    published = next(row for row in TABLE if row.task == PUBLISHED)
    return (
        f"S = S_min (1 + B_crit / B) with B_crit = {shown('critical_batch')} samples, "
        f"E_min = {shown('fewest_samples')} samples and S_min = {shown('fewest_steps')} steps; "
        f"root mean square misfit {found['misfit']:.1%}; 80 % ranges by bootstrap. "
        f"The noise scale is {shown('noise_scale')} samples at the target, and predicts "
        f"B_crit = {shown('predicted_critical_batch')}: medians of all runs, with their range. "
        f"McCandlish et al. 2018 have B_crit = {published.critical:,.0f} and a noise scale of {published.noise:,.0f} "
        "for another network on CIFAR-10, as means over a whole training."
    )


def steps_panel(runs: dict[int, list[store.Result]], law: Pareto) -> Panel:
    """Steps to the target against the batch size: the notebook's first picture (Shallue et al. 2018, figure 1)."""
    sizes = list(runs)
    steps = [[one.measured["steps"] for one in found] for found in runs.values()]
    many = between(sizes[0], sizes[-1])
    known = math.isfinite(law.critical_batch)
    name = f"S_min (1 + B_crit / B), B_crit = {law.critical_batch:,.0f}" if known else "E_min / B"
    series = [
        medians_of("measured, median of the seeds", sizes, steps, line=""),
        Series(label=name, x=many, y=[law.epochs(batch) / batch for batch in many]),
        Series(label="perfect scaling, E_min / B", x=many, y=[law.fewest_epochs / batch for batch in many], line="--"),
    ]
    if known:
        at = law.critical_batch
        series.append(Series(label="critical batch", x=[at], y=[law.epochs(at) / at], line=""))
    return Panel(
        title="mini-ResNet on CIFAR-10: steps to a training loss",
        x_label="batch size, samples",
        y_label="steps to the target",
        series=series,
        logarithmic="xy",
    )


def between(low: float, high: float) -> list[float]:
    """The places at which a line is drawn, at equal distances on a logarithmic axis."""
    return [low * (high / low) ** (point / 60) for point in range(61)]


def noise_panel(runs: dict[int, list[store.Result]], found: dict[str, Any]) -> Panel:
    """The critical batch against the noise scale: the notebook's second picture (McCandlish et al. 2018, figure 4)."""
    equal = between(min(row.noise for row in TABLE), max(row.noise for row in TABLE))
    series = [
        Series(
            label="McCandlish et al. 2018",
            x=[row.noise for row in TABLE],
            y=[row.critical for row in TABLE],
            names=[row.task for row in TABLE],
            line="",
        ),
        Series(label="equal", x=equal, y=equal, line="--"),
    ]
    if found["critical_batch"] is not None and "noise_scale" in found:
        noise, critical = found["noise_scale"], found["critical_batch"]
        series.append(Series(label=f"here: {len(runs)} batch sizes", x=[noise], y=[critical], names=["here"], line=""))
    return Panel(
        title="the noise scale beside the critical batch",
        x_label="gradient noise scale, samples",
        y_label="critical batch size, samples",
        series=series,
        logarithmic="xy",
    )


def curves_panel(runs: dict[int, list[store.Result]]) -> Panel:
    """The noise scale on the way to the target, by the loss that was reached: a run for each batch size."""
    series = []
    for batch, found in runs.items():
        curve = found[0].measured["curve"]
        points = [
            (loss, noise)
            for loss, noise in zip(curve["loss"], curve["noise_scale"], strict=True)
            if loss is not None and noise is not None
        ]
        if points:
            series.append(Series(label=f"batch {batch}", x=[x for x, _ in points], y=[y for _, y in points]))
    return Panel(
        title="the noise scale on the way to the target",
        x_label="training loss",
        y_label="gradient noise scale, samples",
        series=series,
        logarithmic="y",
    )
