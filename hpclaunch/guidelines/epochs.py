"""How many epochs a global batch size needs with an optimizer, as a range; it runs no step."""

from __future__ import annotations

import math

from hpclaunch.core.records import record
from hpclaunch.guidelines.efficiency import MCCANDLISH, CriticalBatch, Pareto, pareto_from
from hpclaunch.guidelines.intervals import Interval
from hpclaunch.guidelines.published import Published
from hpclaunch.guidelines.reasoning import Number, Reason, positive

PRESUMED_RATIO, PRESUMED_SPREAD = 2.8, 5.5
"""B_crit over sqrt(N) of a task that is not known: the mean of the logarithm, and the factor to each end of 80 %.

Nine tasks with known B_crit: 0.8 (MNIST), 1.8 (SVHN), 4.0 (CIFAR-10), 13 (ImageNet), 0.75 and 1.1 (CosmoFlow v0.7 and
v1.0), 3.2 (DeepCAM), 1.5 (OC20), 38 (ImageNet with LARS)."""

EPOCHS_SPREAD = 0.064
"""Relative half-width (80 %) of epochs from run to run: 5 % standard deviation (CosmoFlow in MLPerf HPC, median)."""
KNOWN_SPREAD = 2.0
"""A critical batch size within this factor tells how many epochs to make (as of a noise scale that is trusted)."""


def presumed_critical_batch(samples: int) -> CriticalBatch:
    """Return what is presumed of the critical batch size of an unknown task with a data set of ``samples``."""
    positive(samples=samples)
    return CriticalBatch(samples=PRESUMED_RATIO * math.sqrt(samples), origin="default", spread=PRESUMED_SPREAD)


@record
class EpochsModel:
    """Epochs to the target by global batch size: ``epochs`` up to ``flat`` samples, beyond them E_min (1 + B / B_crit).

    ``flat`` is infinite where the epochs do not depend on the batch. ``row``: the publication behind ``flat``.
    Sources: ``published`` (flat); McCandlish et al. 2018 (the Pareto law).
    """

    epochs: float
    flat: float
    critical: CriticalBatch
    row: Published | None = None

    def at(self, batch: float) -> Interval:
        """Return the epochs at a global batch size (samples); the range is that of the critical batch size."""
        positive(batch=batch)
        middle, spread = self.critical.samples, self.critical.spread
        if batch <= self.flat or middle is None:
            return Interval(low=self.epochs, middle=self.epochs, high=self.epochs, origin="given")
        low, centre, high = (self._law_epochs(batch, middle * factor) for factor in (spread, 1.0, 1 / spread))
        return Interval(low=low, middle=centre, high=high, origin=self.critical.origin)

    def _law_epochs(self, batch: float, critical: float) -> float:
        return pareto_from(self.epochs, self.flat, critical).epochs(batch)

    def decides(self, batch: float) -> bool:
        """Whether the law, not the job's own number, says how many epochs a batch (samples) is trained for."""
        return batch > self.flat and self.critical.samples is not None and self.critical.spread <= KNOWN_SPREAD

    @property
    def pareto(self) -> Pareto | None:
        """The Pareto law beyond ``flat``; None where the epochs do not depend on the batch."""
        if self.critical.samples is None or math.isinf(self.flat):
            return None
        return pareto_from(self.epochs, self.flat, self.critical.samples)

    def explain(self, batch: float) -> Reason:
        """Return the verdict on a global batch size (samples)."""
        found, row = self.at(batch), self.row
        numbers = [Number(name="B", value=batch, unit="samples")]
        if not math.isinf(self.flat):
            numbers.append(Number(name="same epochs up to", value=self.flat, unit="samples", origin="default"))
        numbers += self.critical.numbers
        if batch <= self.flat:
            verdict = f"{found.middle:.3g} epochs, as with the job's own batch size"
        else:
            reach = f"{found.low:.3g} to {found.high:.3g}" if found.low < found.high else f"{found.middle:.3g}"
            verdict = f"{reach} epochs to the target"
            verdict += "" if self.decides(batch) else f"; the job's own {self.epochs:.3g} are kept"
        return Reason(
            rule="the job's own epochs up to published batch sizes; beyond them E(B) = E_min (1 + B / B_crit)",
            numbers=tuple(numbers),
            verdict=verdict,
            source=f"{row.source}; {MCCANDLISH}" if row else MCCANDLISH,
        )


def fixed_epochs(epochs: float) -> EpochsModel:
    """Return a number of epochs that does not depend on the batch, such as a typed one."""
    return EpochsModel(epochs=epochs, flat=math.inf, critical=CriticalBatch())
