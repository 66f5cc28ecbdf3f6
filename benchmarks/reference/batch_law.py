"""The law of steps against batch size, fitted to runs; and what a noise scale says of it. It trains nothing.

S(B) = S_min (1 + B_crit / B), E(B) = B S(B) = E_min (1 + B / B_crit). Source: McCandlish et al. 2018,
arXiv 1812.06162, eq. 2.11. The law is hpclaunch's own (guidelines/efficiency.py), here with E in samples.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpclaunch.guidelines.efficiency import Pareto, fit_pareto
from hpclaunch.guidelines.least_squares import least_squares

RELATIVE = 0.01
"""Misfits in units of one percent, so that the prior of least_squares weighs next to nothing."""
PRIOR = 3.0
"""The prior of a constant: a factor of e^3 around the start of the search."""
DRAWS = 1000
WITHIN = 0.8
"""The part of the draws that a range holds, as in the library's own intervals."""

Runs = Mapping[int, Sequence[float]]
"""Batch size → samples to the target, one for each seed."""


def fit(runs: Runs) -> Pareto:
    """Return the law with the least squared misfit of log E, which is that of log S. fewest_epochs: E_min in samples.

    The search begins at the closed form of fit_pareto. Raises ValueError as it does; if samples do not grow with the
    batch, the critical batch is infinite.
    """
    points = [(batch, samples) for batch, found in runs.items() for samples in found]
    start = fit_pareto(points)
    if math.isinf(start.critical_batch):
        return start

    def moved(place: Sequence[float]) -> Pareto:
        fewest, critical = (math.exp(PRIOR * one) for one in place)
        return Pareto(fewest_epochs=start.fewest_epochs * fewest, critical_batch=start.critical_batch * critical)

    def misfits(place: Sequence[float]) -> list[float]:
        law = moved(place)
        return [math.log(law.epochs(batch) / samples) / RELATIVE for batch, samples in points]

    return moved(least_squares(misfits, 2).place)


def misfit(law: Pareto, runs: Runs) -> float:
    """Return the root mean square of the relative misfit of the steps."""
    logs = [math.log(law.epochs(batch) / samples) for batch, found in runs.items() for samples in found]
    return math.sqrt(sum(log**2 for log in logs) / len(logs))


@dataclass(frozen=True, kw_only=True)
class Range:
    """The ends of a range that holds 80 % of the draws."""

    low: float
    high: float


def bootstrap(runs: Runs, draws: int = DRAWS) -> dict[str, Range]:
    """Return the ranges of ``critical_batch``, ``fewest_samples`` and ``fewest_steps``: fits to resampled runs.

    A draw resamples the batch sizes, and then the runs of each: so the ranges hold the spread of the seeds as well as
    how far the law misses some sizes (Efron and Tibshirani 1993). A draw whose samples grow faster than the batch
    counts with a critical batch of 0. Raises ValueError with fewer than two batch sizes.
    """
    if len(runs) < 2:
        raise ValueError("a range needs runs at two batch sizes at least")
    draw = random.Random(1)
    found: dict[str, list[float]] = {"critical_batch": [], "fewest_samples": [], "fewest_steps": []}
    while len(found["critical_batch"]) < draws:
        drawn = resampled(runs, draw)
        if len(drawn) < 2:
            continue
        try:
            law = fit(drawn)
        except ValueError:
            law = None
        critical = law.critical_batch if law else 0.0
        found["critical_batch"].append(critical)
        found["fewest_samples"].append(law.fewest_epochs if law else 0.0)
        found["fewest_steps"].append(law.fewest_epochs / critical if law else math.inf)
    return {name: within(values) for name, values in found.items()}


def resampled(runs: Runs, draw: random.Random) -> dict[int, list[float]]:
    """Return as many batch sizes as there are, drawn with replacement, each with as many drawn runs as it has."""
    sizes: dict[int, list[float]] = {}
    for batch in draw.choices(sorted(runs), k=len(runs)):
        sizes.setdefault(batch, []).extend(draw.choices(runs[batch], k=len(runs[batch])))
    return sizes


def within(values: Sequence[float]) -> Range:
    """Return the range of the middle 80 % of some values."""
    ordered = sorted(values)
    cut = (1 - WITHIN) / 2 * (len(ordered) - 1)
    return Range(low=ordered[round(cut)], high=ordered[round(len(ordered) - 1 - cut)])


def predicted_critical_batch(curve: Sequence[tuple[float, float]], batch: int) -> float:
    """Return the critical batch (samples) that a run's noise scales predict, from (steps, noise scale) of its parts.

    A step at batch B is worth 1 / (1 + B_noise / B) of a step without noise (McCandlish et al. 2018, section 2.2). So
    a run takes S = S_min + (sum of B_noise over the S_min steps without noise) / B steps, and B_crit is the mean of the
    noise scale over steps without noise. Raises ValueError for an empty curve.
    """
    if not curve:
        raise ValueError("the run has no noise scale")
    worth = [steps / (1 + noise / batch) for steps, noise in curve]
    return sum(share * noise for share, (_, noise) in zip(worth, curve, strict=True)) / sum(worth)
