"""How many epochs a batch size needs: the Pareto law of large batches and the gradient noise scale; it runs no step."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import Number, Origin, positive

MCCANDLISH = "McCandlish et al. 2018, arXiv 1812.06162"
ENOUGH_STEPS = 1000
"""Steps over which a noise scale must be averaged before it replaces the square-root rule."""
ENOUGH_CERTAINTY = 2.0
"""Both ends of the noise scale's confidence interval must lie within this factor of its value."""
FEWEST_BATCHES = 2
"""The law has two unknowns, so it needs runs at two batch sizes at least."""


@record
class Pareto:
    """E(B) = ``fewest_epochs`` x (1 + B / ``critical_batch``): epochs to a target, by global batch size (samples)."""

    fewest_epochs: float
    critical_batch: float

    def __post_init__(self) -> None:
        positive(fewest_epochs=self.fewest_epochs)
        if not self.critical_batch > 0:
            raise ValueError(f"must be above zero: critical_batch = {self.critical_batch}")

    def epochs(self, batch: float) -> float:
        """Return the epochs to the target at a global batch size (samples)."""
        return self.fewest_epochs * (1 + batch / self.critical_batch)

    def steps(self, batch: float, samples: int) -> float:
        """Return the optimizer steps to the target: S = S_min (1 + B_crit / B)."""
        return self.epochs(batch) * samples / batch

    def efficiency(self, batch: float, base: float) -> float:
        """Return the progress per sample relative to ``base``: E(base) / E(batch), as Pollux defines it."""
        return (self.critical_batch + base) / (self.critical_batch + batch)


@record
class CriticalBatch:
    """The critical batch size B_crit in samples (None: not known), and its origin.

    Its 80 % interval reaches from ``samples`` / ``spread`` to ``samples`` x ``spread``.
    """

    samples: float | None = None
    origin: Origin = "given"
    spread: float = 1.0

    @property
    def numbers(self) -> tuple[Number, ...]:
        """The numbers that a reason shows."""
        if self.samples is None:
            return ()
        return (Number(name="B_crit", value=self.samples, unit="samples", origin=self.origin),)


NOT_KNOWN = CriticalBatch()


def pareto_from(epochs: float, batch: float, critical_batch: float) -> Pareto:
    """Return the law that passes through one known run: ``epochs`` to the target at global batch size ``batch``.

    Source: E_min = E0 / (1 + B0 / B_crit), McCandlish et al. 2018.
    """
    positive(epochs=epochs, batch=batch, critical_batch=critical_batch)
    return Pareto(fewest_epochs=epochs / (1 + batch / critical_batch), critical_batch=critical_batch)


def fit_pareto(runs: Sequence[tuple[float, float]]) -> Pareto:
    """Return the law with the least squared relative error for runs of (global batch size, epochs to the target).

    E is linear in B, so weighted least squares (weight 1 / E^2) has a closed form. If epochs do not grow with the
    batch, the critical batch size is infinite. Raises ValueError without two different batch sizes, or if epochs grow
    faster than the batch. Source of the law: McCandlish et al. 2018.
    """
    if len({batch for batch, _ in runs}) < FEWEST_BATCHES:
        raise ValueError("the Pareto law needs runs at two different batch sizes at least")
    for batch, epochs in runs:
        positive(batch=batch, epochs=epochs)
    weight = sum(1 / epochs**2 for _, epochs in runs)
    batches = sum(batch / epochs**2 for batch, epochs in runs)
    squares = sum((batch / epochs) ** 2 for batch, epochs in runs)
    inverse = sum(1 / epochs for _, epochs in runs)
    mixed = sum(batch / epochs for batch, epochs in runs)
    determinant = weight * squares - batches**2
    fewest = (inverse * squares - batches * mixed) / determinant
    slope = (weight * mixed - batches * inverse) / determinant
    if slope <= 0:
        return Pareto(fewest_epochs=inverse / weight, critical_batch=math.inf)
    if fewest <= 0:
        raise ValueError("epochs grow faster than the batch: these runs do not follow the Pareto law")
    return Pareto(fewest_epochs=fewest, critical_batch=fewest / slope)


@record
class NoiseScale:
    """A measured gradient noise scale in samples, tr(Sigma) / |G|^2: its interval, and the number of steps."""

    value: float
    low: float
    high: float
    steps: int

    @property
    def trustworthy(self) -> bool:
        """Whether it may replace the square-root rule: enough steps, and an interval within a factor of 2."""
        certain = self.value <= ENOUGH_CERTAINTY * self.low and self.high <= ENOUGH_CERTAINTY * self.value
        return self.steps >= ENOUGH_STEPS and certain


def noise_scale(small_squares: float, big_squares: float, small_batch: float, big_batch: float) -> float:
    """Return the simple noise scale in samples, from the mean squared gradient norms of a small and a big batch.

    Each mean is taken over the steps first, because a mean of ratios would be biased. In data-parallel training the
    small batch is that of one rank, and the big one that of all ranks. Raises ValueError if the batches do not differ,
    or if noise hides the gradient (the estimate of |G|^2 is not positive: average over more steps).
    Source: McCandlish et al. 2018, appendix A.1.
    """
    positive(small_squares=small_squares, small_batch=small_batch)
    if not big_batch > small_batch:
        raise ValueError("the big batch must be larger than the small one")
    gradient = (big_batch * big_squares - small_batch * small_squares) / (big_batch - small_batch)
    variance = (small_squares - big_squares) / (1 / small_batch - 1 / big_batch)
    if gradient <= 0:
        raise ValueError("the noise hides the gradient at these batch sizes: average over more steps")
    return max(variance, 0.0) / gradient


TASK_SPREAD = 1.5
"""Spread of a task's B_crit: CosmoFlow's fits, to v0.7 (384) and v1.0 (831), differ by this factor from their mean."""
NOISE_SPREAD = 1.6
"""Spread of B_crit around a measured noise scale: in the project's own test, their ratio was 0.70, 1.27 and 1.57."""
TASKS: dict[str, float] = {
    "mnist": 200,
    "svhn": 500,
    "cifar-10": 900,
    "imagenet": 15_000,
    "cosmoflow": 384,
    "deepcam": 1_098,
    "oc20": 2_060,
}
"""Default critical batch sizes in samples. The first four are means over the training (McCandlish et al. 2018); the
others come from the Pareto law, fitted to MLPerf HPC logs (CosmoFlow v0.7, DeepCAM, OC20)."""
