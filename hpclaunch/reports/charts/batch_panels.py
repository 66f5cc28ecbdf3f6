"""Panels of what a global batch means for the training: the pictures of the guidelines, with the numbers of a plan.

Sources: McCandlish et al. 2018, arXiv 1812.06162, figures 1 to 4; Shallue et al. 2018, arXiv 1811.03600, figure 1.
"""

from __future__ import annotations

from typing import Any

from hpclaunch.guidelines.efficiency import CriticalBatch
from hpclaunch.guidelines.noise_table import TABLE
from hpclaunch.planner.values import Forecast, StatisticalEfficiency

DOUBLINGS = 4
"""A curve reaches this many doublings below the smallest and above the largest batch that the picture marks."""
PER_DOUBLING = 4
"""Points of a curve."""
HALF = 0.5


def efficiency_of(plan: Forecast) -> StatisticalEfficiency:
    """Return what the plan knows of its batches; ``plan_chart.draw`` refuses a plan without it."""
    assert plan.efficiency is not None
    return plan.efficiency


def batches_of(plan: Forecast) -> list[int]:
    """Return the global batch sizes of the plan's node counts, each once."""
    return sorted({row.batch.total for row in plan.rows if row.batch is not None})


def curve_of(plan: Forecast) -> list[float]:
    """Return the batch sizes (samples) of a curve: around those of the plan and the critical one, up to N."""
    known = efficiency_of(plan)
    marked = [*batches_of(plan), *([known.critical.samples] if known.critical.samples else [])]
    low, high = min(marked) / 2**DOUBLINGS, max(marked) * 2**DOUBLINGS
    sizes, at = [], max(1.0, low)
    while at < min(high, known.samples):
        sizes.append(at)
        at *= 2 ** (1 / PER_DOUBLING)
    return [*sizes, min(high, float(known.samples))]


def steps(axes: Any, plan: Forecast) -> None:
    """Draw the steps to the target against the batch: perfect scaling, and the fewer steps that larger batches save."""
    known, sizes = efficiency_of(plan), curve_of(plan)
    first = known.epochs_model.at(sizes[0]).middle * known.samples
    axes.plot(sizes, [first / size for size in sizes], linestyle="--", color="grey", label="perfect scaling")
    axes.plot(sizes, [steps_of(known, size) for size in sizes], label=_law_label(known))
    lows, highs = zip(*(_range_of_steps(known, size) for size in sizes), strict=True)
    axes.fill_between(sizes, lows, highs, alpha=0.2)
    batches = batches_of(plan)
    axes.plot(batches, [steps_of(known, size) for size in batches], "o", color="tab:blue", label="this plan's counts")
    _mark_batches(axes, plan)
    _logarithmic(axes, "global batch size, samples", "steps to the target")


def frontier(axes: Any, plan: Forecast) -> None:
    """Draw the samples to process against the steps: the Pareto frontier between compute and time."""
    known, sizes = efficiency_of(plan), curve_of(plan)
    axes.plot([steps_of(known, size) for size in sizes], [samples_of(known, size) for size in sizes])
    for batch in batches_of(plan):
        chosen = plan.chosen is not None and plan.chosen.batch is not None and plan.chosen.batch.total == batch
        color = "tab:orange" if chosen else "tab:blue"
        label = f"this plan: B = {batch}" if chosen else None
        axes.plot(steps_of(known, batch), samples_of(known, batch), "o", color=color, label=label)
        axes.annotate(f"{batch}", (steps_of(known, batch), samples_of(known, batch)))
    critical = known.critical.samples
    if critical is not None:
        label = f"B_crit = {critical:.0f}{_origin_of(known.critical)}"
        axes.plot(steps_of(known, critical), samples_of(known, critical), "D", color="tab:red", label=label)
    _logarithmic(axes, "steps to the target (time)", "samples to process (compute)")
    axes.set_title("compute against time, by batch size", fontsize="medium")


def gradient_error(axes: Any, plan: Forecast) -> None:
    """Draw how far the gradient of a batch is from the true one: sqrt(B_noise / B), relative to its length."""
    sizes, (noise, words) = curve_of(plan), noise_of(plan)
    axes.plot(sizes, [(noise / size) ** 0.5 for size in sizes], label="error of the gradient")
    axes.axvline(noise, color="tab:red", linestyle="--", label=words)
    _mark_batches(axes, plan, critical=False)
    _logarithmic(axes, "global batch size, samples", "error of the gradient, relative")
    axes.set_title("larger batches: less noisy gradients", fontsize="medium")


def training_speed(axes: Any, plan: Forecast) -> None:
    """Draw the progress of a step, relative to that with the true gradient: 1 / (1 + B_noise / B)."""
    sizes, (noise, words) = curve_of(plan), noise_of(plan)
    axes.plot(sizes, [1 / (1 + noise / size) for size in sizes], label="progress of a step")
    axes.plot(noise, HALF, "D", color="tab:red", label=words)
    _mark_batches(axes, plan, critical=False)
    axes.set_xscale("log")
    axes.set_xlabel("global batch size, samples")
    axes.set_ylabel("progress of a step, relative to the most")
    axes.set_ylim(0, 1)
    axes.set_title("larger batches: larger steps, up to a limit", fontsize="medium")


def noise_scale(axes: Any, plan: Forecast) -> None:
    """Draw the critical batch against the noise scale: published tasks, and this job."""
    known = efficiency_of(plan)
    axes.plot([row.noise for row in TABLE], [row.critical for row in TABLE], "o", label="McCandlish et al. 2018")
    for row in TABLE:
        axes.annotate(row.task, (row.noise, row.critical), textcoords="offset points", xytext=(5, -3), fontsize="small")
    ends = [min(row.noise for row in TABLE), max(row.noise for row in TABLE)]
    axes.plot(ends, ends, linestyle="--", color="grey", label="equal")
    axes.margins(x=0.25)  # room for the names
    critical, noise = known.critical.samples, known.noise
    if critical is not None and noise is not None:
        reach = [[noise.value - noise.low], [noise.high - noise.value]]
        axes.errorbar(noise.value, critical, xerr=reach, marker="D", color="tab:red", label=f"{plan.job}, measured")
    elif critical is not None:
        label = f"{plan.job}: B_crit = {critical:.0f}{_origin_of(known.critical)}"
        axes.axhline(critical, color="tab:red", linestyle=":", label=label)
    _logarithmic(axes, "gradient noise scale", "critical batch size")


def noise_of(plan: Forecast) -> tuple[float, str]:
    """Return the noise scale in samples and how it is known; if it was not measured, B_crit is taken for it."""
    known = efficiency_of(plan)
    if known.noise is not None and known.noise.trustworthy:
        return known.noise.value, f"noise scale = {known.noise.value:.0f}, measured"
    critical = known.critical.samples or float(known.bound)
    return critical, f"noise scale taken as B_crit = {critical:.0f}{_origin_of(known.critical)}"


def steps_of(known: StatisticalEfficiency, batch: float) -> float:
    """Return the steps to the target with a global batch size."""
    return samples_of(known, batch) / batch


def samples_of(known: StatisticalEfficiency, batch: float) -> float:
    """Return the samples that a training processes: epochs x N."""
    return known.epochs_model.at(batch).middle * known.samples


def _range_of_steps(known: StatisticalEfficiency, batch: float) -> tuple[float, float]:
    epochs = known.epochs_model.at(batch)
    return epochs.low * known.samples / batch, epochs.high * known.samples / batch


def _law_label(known: StatisticalEfficiency) -> str:
    return "epochs do not depend on the batch" if known.epochs_model.pareto is None else "E_min (1 + B / B_crit) epochs"


def _origin_of(critical: CriticalBatch) -> str:
    return {"given": "", "profile": ", measured", "typed": ", typed"}.get(critical.origin, ", by default")


def _mark_batches(axes: Any, plan: Forecast, *, critical: bool = True) -> None:
    """Mark the plan's batch, sqrt(N) or the noise scale as its bound, and the critical batch."""
    known = efficiency_of(plan)
    if plan.chosen is not None and plan.chosen.batch is not None:
        batch = plan.chosen.batch.total
        axes.axvline(batch, color="tab:orange", linestyle=":", label=f"this plan: B = {batch}")
    axes.axvline(known.bound, color="tab:green", linestyle=":", label=f"bound of an automatic batch: {known.bound}")
    if critical and known.critical.samples is not None:
        value = known.critical.samples
        axes.axvline(value, color="tab:red", linestyle=":", label=f"B_crit = {value:.0f}{_origin_of(known.critical)}")


def _logarithmic(axes: Any, across: str, up: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
