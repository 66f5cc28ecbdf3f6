"""Tables and pictures of the guidelines' study: data sets, the cost of other updates, figures 4 and 5; runs nothing.

Figure 4 of the guidelines is the trade of compute for time, figure 5 the effect of the batch on the gradient estimate
and on the speed of training; both are of McCandlish et al. 2018 (arXiv 1812.06162). They are drawn from the committed
results of critical_batch.py: `batch-B` in the study critical_batch, and the fitted law in critical_batch_law.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import medians
import store
import studies
from critical_batch_runs import LAW, by_batch
from critical_batch_runs import STUDY as CRITICAL
from guidelines_cases import BY_NAME, CASES, STUDY
from guidelines_rules import NOTHING, ROOT, jobs_that_train, markdown
from series import medians_of
from target import Target

from hpclaunch.config.job import Job, job_of_file
from hpclaunch.core.units import count
from hpclaunch.guidelines.dataset import PROJECTS, judge_dataset
from hpclaunch.reports.charts.study_chart import Panel, Series, draw

PICTURES = ("guidelines_figure_4.svg", "guidelines_figure_5.svg", "guidelines_updates.svg")
LEVELS = (1.5, 1.6, 1.8)
"""Training losses at which figure 4 reads the curves; the first is the target that the study trains to."""
CONVERGED = {
    "Etalumis (15 million)": "can converge well",
    "Etalumis (3 million)": "can converge well",
    "CosmoFlow": "can converge, with each subvolume twice",
    "ImageNet": "can converge well",
}
"""In the words of the guidelines' table."""
OWN_RESULTS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "chips": (
        "hours_to_minutes",
        "shards-1",
        {"test_accuracy": "test accuracy on drawn photographs of 96 x 96 pixels, 1,020 to train"},
    ),
    "cifar": (
        studies.LARGE_BATCH,
        "recommended",
        {"training_accuracy": "training", "test_accuracy": "test accuracy in 12 epochs"},
    ),
    "cosmoflow": (
        "universes",
        "train",
        {"omega_m_ratio": "of the error of always answering the mean, on 1,000 volumes"},
    ),
    "mnist": ("notebook3", "learn-horovod-1", {"test_accuracy": "test accuracy"}),
}
"""A job -> the study and the case of its committed results, and the values that are shown, with words for each."""


# --- data sets


def data_sets(results: Path) -> str:
    """The guidelines' table of data sets, then the project's own jobs with their committed results; as Markdown."""
    heads = ["project", "parameters", "samples", "samples per parameter", "verdict", "converged", "from"]
    rows = [
        [
            one.name,
            words(one.parameters),
            f"{one.samples:,}",
            ratio(one.samples, one.parameters),
            "",
            CONVERGED[one.name],
        ]
        + ["the guidelines' table"]
        for one in PROJECTS
    ]
    for name in jobs_that_train():
        job = job_of_file(ROOT / "jobs" / name / "job.yaml", name).sized()
        rows.append(own_row(job, results))
    return markdown(heads, rows)


def own_row(job: Job, results: Path) -> list[str]:
    """The row of a job of this project."""
    assert job.training is not None
    samples, parameters = job.training.samples, job.training.figures.get("parameters")
    outcome, source = outcome_of(job.name, results)
    if not parameters:
        return [job.name, "not stored", f"{samples:,}", NOTHING, NOTHING, outcome, source]
    verdict = judge_dataset(samples, parameters).verdict
    return [job.name, words(parameters), f"{samples:,}", ratio(samples, parameters), verdict, outcome, source]


def outcome_of(job: str, results: Path) -> tuple[str, str]:
    """What committed results say about the convergence of a job, and where they are."""
    if job in OWN_RESULTS:
        study, case, shown = OWN_RESULTS[job]
        found = [one for one in studies.current(study, results) if one.case == case]
        if found:
            parts = [f"{spread([one.measured[value] for one in found], '.1%')} {what}" for value, what in shown.items()]
            return f"{', '.join(parts)}; {count(len(found), 'seed')}", f"study {study}, case {case}"
    return "no committed result", NOTHING


def words(parameters: float) -> str:
    return f"{parameters / 1e6:,.2f} million"


def ratio(samples: float, parameters: float) -> str:
    return f"{samples / parameters:.2g}"


# --- the cost of other updates


def report(results: Path, pictures: Path) -> str:
    """Draw what there are results for, and return the tables as Markdown. Raises SystemExit without results."""
    runs, batches = studies.current(STUDY, results), by_batch(studies.current(CRITICAL, results))
    if not runs and not batches:
        raise SystemExit(f"no results in {results}: run benchmarks/reference/guidelines.py updates first")
    pictures.mkdir(parents=True, exist_ok=True)
    parts = [updates_table(results)]
    if runs:
        draw(updates_panels(results), pictures / PICTURES[2])
    if len(batches) < 2:
        parts.append("Figures 4 and 5: run benchmarks/reference/critical_batch.py first.")
        return "\n\n".join(parts)
    law = law_of(results)
    draw(figure_4(batches, law), pictures / PICTURES[0], columns=3)
    draw(figure_5(batches, law), pictures / PICTURES[1], columns=3)
    return "\n\n".join([*parts, batch_table(batches, law)])


def updates_table(results: Path) -> str:
    """Medians of the seeds with their range, and the difference to every step of all ranks, seed by seed."""
    held = studies.by_case(STUDY, results)
    base = {one.seed: one.measured["test_accuracy"] for one in held.get("base", ())}
    rows = []
    for case in CASES:
        runs = held.get(case.name, [])
        away = [one.measured["test_accuracy"] - base[one.seed] for one in runs if one.seed in base]
        speeds = [one.measured["images_per_s"] for one in runs]
        rows.append(
            [
                case.words,
                spread([100 * one.measured["test_accuracy"] for one in runs], ".1f"),
                spread([100 * one.measured["accuracy"] for one in runs], ".1f"),
                spread([100 * one for one in away], "+.1f") if case.name != "base" else NOTHING,
                spread(speeds, ",.0f"),
                ", ".join(str(one.seed) for one in runs) or NOTHING,
            ]
        )
    return markdown(["update", "test accuracy, %", "training accuracy, %", "points away", "images/s", "seeds"], rows)


def spread(values: Sequence[float], form: str) -> str:
    """The median, with the range in brackets if there is one; words if there is no value."""
    return medians.spread(values, form) or "not measured yet"


def updates_panels(results: Path) -> list[Panel]:
    """Training accuracy by epoch, and the test accuracies as bars."""
    held = {BY_NAME[name].label: runs for name, runs in studies.by_case(STUDY, results).items()}
    curves = []
    for label, runs in held.items():
        epochs = list(zip(*(one.measured["curve"]["accuracy"] for one in runs), strict=True))
        curves.append(medians_of(label, list(range(1, len(epochs) + 1)), epochs))
    tests = [[one.measured["test_accuracy"] for one in runs] for runs in held.values()]
    bars = medians_of("median and range of the seeds", list(held), tests)
    return [
        Panel(title="training accuracy", x_label="epoch", y_label="accuracy", series=curves),
        Panel(title="test accuracy after the last epoch", x_label="", y_label="accuracy", series=[bars], kind="bars"),
    ]


# --- figures 4 and 5


def law_of(results: Path) -> dict[str, Any] | None:
    """The fitted law; None if there is none, or its critical batch has no upper end."""
    found = studies.current(LAW, results)
    usable = found and all(found[0].measured.get(name) for name in ("critical_batch", "fewest_samples", "fewest_steps"))
    return dict(found[0].measured) if usable else None


def at_level(run: store.Result, level: float) -> float | None:
    """Samples after which a run's training loss was at `level`, interpolated; None if it has not fallen to it.

    A loss is a mean, and counts at the centre of its samples, as the study's own target does (target.py).
    """
    curve, settings = run.measured["curve"], run.settings
    lag = Target(loss=level, every=settings["every"], looks=settings["looks"]).lag
    looks = [(x - lag, y) for x, y in zip(curve["samples"], curve["loss"], strict=True) if y is not None]
    for (before, high), (after, low) in itertools.pairwise(looks):
        if high > level >= low:
            return float(before + (after - before) * (high - level) / (high - low))
    return None


def figure_4(batches: dict[int, list[store.Result]], law: dict[str, Any] | None) -> list[Panel]:
    """Left: the frontier of steps and samples, with the law; right: the same for several losses. One point a batch."""
    sizes = list(batches)
    samples, steps, seconds = (column(batches, name) for name in ("samples", "steps", "seconds"))
    names = [str(size) for size in sizes]
    first = [Series(label="measured, with its batch", x=steps, y=samples, line="", names=names)]
    if law:
        xs = [law["fewest_steps"] * (1 + law["critical_batch"] / size) for size in between(sizes)]
        ys = [law["fewest_samples"] * (1 + size / law["critical_batch"]) for size in between(sizes)]
        first.append(Series(label="(S/Smin - 1)(E/Emin - 1) = 1", x=xs, y=ys))
    levels = []
    for level in LEVELS:
        found = {size: [x for run in runs if (x := at_level(run, level)) is not None] for size, runs in batches.items()}
        middle = {size: statistics.median(values) for size, values in found.items() if values}
        if middle:
            xs = [middle[size] / size for size in middle]
            levels.append(Series(label=f"training loss {level:g}", x=xs, y=list(middle.values())))
    return [
        Panel(
            title="samples against steps to the target",
            x_label="steps",
            y_label="samples",
            series=first,
            logarithmic="xy",
        ),
        Panel(
            title="several losses",
            x_label="steps",
            y_label="samples",
            series=levels or first[:1],
            logarithmic="xy",
        ),
        Panel(
            title="time on this machine",
            x_label="seconds",
            y_label="samples",
            series=[Series(label="measured, with its batch", x=seconds, y=samples, line="", names=names)],
            logarithmic="xy",
        ),
    ]


def figure_5(batches: dict[int, list[store.Result]], law: dict[str, Any] | None) -> list[Panel]:
    """Left: noise over signal of a gradient estimate, from the noise scales; right: the progress of a step."""
    known = {
        size: [one.measured["noise_scale"] for one in runs if one.measured.get("noise_scale")]
        for size, runs in batches.items()
    }
    noise = {size: math.sqrt(statistics.median(values) / size) for size, values in known.items() if values}
    sizes, steps = list(batches), column(batches, "steps")
    fewest = law["fewest_steps"] if law else min(steps)
    speed = [fewest / one for one in steps]
    progress = [Series(label="measured: fewest steps / steps", x=sizes, y=speed, line="")]
    if law:
        xs = between(sizes)
        progress.append(
            Series(label="1 / (1 + B_crit / B)", x=xs, y=[1 / (1 + law["critical_batch"] / size) for size in xs])
        )
    panels = [
        Panel(
            title="speed of training, of the highest",
            x_label="batch size",
            y_label="progress of a step",
            series=progress,
            logarithmic="xy",
        )
    ]
    if noise:
        estimate = Series(label="sqrt(noise scale at the target / B)", x=list(noise), y=list(noise.values()))
        first = Panel(
            title="gradient estimate",
            x_label="batch size",
            y_label="noise / length of the gradient",
            series=[estimate],
            logarithmic="xy",
            marks=[("as much noise as gradient", 1.0)],
        )
        panels.insert(0, first)
    return [*panels, noise_panel(batches)]


def noise_panel(batches: dict[int, list[store.Result]]) -> Panel:
    """The noise scale over the samples of a training, of the first seed of each batch."""
    series = []
    for size, runs in batches.items():
        curve = runs[0].measured["curve"]
        pairs = [(x, y) for x, y in zip(curve["samples"], curve["noise_scale"], strict=True) if y]
        if pairs:
            series.append(Series(label=f"B = {size}", x=[x for x, _ in pairs], y=[y for _, y in pairs]))
    return Panel(title="gradient noise scale", x_label="samples", y_label="samples", series=series, logarithmic="xy")


def column(batches: dict[int, list[store.Result]], name: str) -> list[float]:
    """The median of a measured value over the seeds, by batch size."""
    return [statistics.median(one.measured[name] for one in runs) for runs in batches.values()]


def between(sizes: Sequence[int], number: int = 60) -> list[float]:
    """Batch sizes from the least to the largest, equally far from each other in the logarithm."""
    low, high = math.log(min(sizes)), math.log(max(sizes))
    return [math.exp(low + (high - low) * step / (number - 1)) for step in range(number)]


def batch_table(batches: dict[int, list[store.Result]], law: dict[str, Any] | None) -> str:
    """The points of figures 4 and 5 as Markdown."""
    rows = [
        [
            str(size),
            *(spread([one.measured[name] for one in runs], ",.0f") for name in ("steps", "samples", "seconds")),
            spread([one.measured["noise_scale"] for one in runs if one.measured.get("noise_scale")], ",.0f"),
        ]
        for size, runs in batches.items()
    ]
    found = markdown(["batch", "steps", "samples", "seconds", "noise scale at the target"], rows)
    return found + (f"\n\nB_crit of the fitted law: {law['critical_batch']:,.0f} samples." if law else "")
