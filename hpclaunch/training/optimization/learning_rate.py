"""Learning-rate rules as pure functions of world size and epoch: scaling, warm-up, decay.

Everything is given in epochs, which do not depend on the world size and the batch size, as steps do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable

ADASCALE = "adascale"  # its factor is measured during training (adascale.py); all others are known before

SCALING: dict[str, Callable[[int], float]] = {
    "none": lambda size: 1.0,
    "linear": float,  # Goyal et al. 2017 (arXiv 1706.02677): k times the batch, k times the rate
    "sqrt": math.sqrt,  # keeps the variance of the update (Krizhevsky 2014, arXiv 1404.5997)
    "power23": lambda size: float(size ** (2 / 3)),  # MLPerf HPC's AdamW runs follow a power of .67 to .79
    ADASCALE: lambda size: 1.0,
}
DECAYS = ("constant", "step", "exponential", "inverse", "polynomial", "cosine")


def scaled(base: float, size: int, rule: str) -> float:
    """The learning rate for a batch `size` times as large as that of the `base` rate; rule: a key of SCALING."""
    return base * SCALING[rule](size)


def warm_up_start(base: float, size: int, rule: str) -> float:
    """The rate at which the warm-up begins: the `base` rate, that of a single batch (Goyal et al. 2017, section 2.2).

    Without scaling the base rate is the rate of the whole batch already. Then the warm-up begins at 1 / size of it, as
    that of Horovod's LearningRateWarmupCallback does.
    """
    return base / size if rule == "none" else base


def warmed_up(rate: float, start: float, epoch: float, warmup_epochs: float) -> float:
    """The rate at a fractional `epoch` (from 0): it rises linearly from `start` to `rate` over the warm-up epochs."""
    if epoch >= warmup_epochs:
        return rate
    return start + (rate - start) * epoch / warmup_epochs


def adascale_gain(variance: float, norm: float, size: int) -> float:
    """The factor between 1 and `size` on the rate of one rank (Johnson et al. 2020, arXiv 2007.05105, section 3).

    variance: the trace of the covariance of one rank's gradient; norm: the squared norm of the mean gradient.
    It is near `size` if noise dominates (linear scaling), and near 1 if it does not. Without measurements it is 1.
    """
    norm, variance = max(norm, 0.0), max(variance, 0.0)
    mean_of_all = variance / size + norm
    return (variance + norm) / mean_of_all if mean_of_all > 0 else 1.0


def gradient_noise(one: float, both: float, size: int) -> tuple[float, float]:
    """(variance, norm) for adascale_gain, from squared gradient norms: of `one` rank, and of the average of `size` > 1.

    E one = norm + variance, E both = norm + variance / size (McCandlish et al. 2018, arXiv 1812.06162, appendix A.1).
    """
    return (one - both) * size / (size - 1), (size * both - one) / (size - 1)


@dataclass(frozen=True)
class Schedule:
    """The learning rate of a whole run.

    rate: after the warm-up, before the decay; start: where the warm-up begins; epochs: those of the run.
    decay: one of DECAYS. boundaries: epochs at which "step" multiplies by `factor`; "exponential" does so every epoch
    after the warm-up; "inverse" is 1 / (1 + factor * epochs since the warm-up); power: of "polynomial".
    """

    rate: float
    start: float
    epochs: float
    warmup_epochs: float = 0.0
    decay: str = "constant"
    factor: float = 0.1
    power: float = 1.0
    boundaries: tuple[float, ...] = ()

    def at(self, epoch: float) -> float:
        """The rate at a fractional epoch, from 0 (the first step) to epochs (after the last)."""
        if epoch < self.warmup_epochs:
            return warmed_up(self.rate, self.start, epoch, self.warmup_epochs)
        return self.rate * self._decay_factor(epoch)

    def why_no_warm_up(self) -> str:
        """Why the warm-up of the settings changes nothing, in a sentence; empty if it works, or if there is none."""
        if not self.warmup_epochs or self.start != self.rate:
            return ""
        return (
            "the warm-up of {:g} epochs has no effect: a step is one batch, so the learning rate is {:g} from the "
            "first step on".format(self.warmup_epochs, self.rate)
        )

    def _decay_factor(self, epoch: float) -> float:
        """The factor of the decay; all decays but "step" begin at 1 when the warm-up ends."""
        since = epoch - self.warmup_epochs
        if self.decay == "step":
            return self.factor ** sum(epoch >= boundary for boundary in self.boundaries)
        if self.decay == "exponential":
            return self.factor**since
        if self.decay == "inverse":
            return 1 / (1 + self.factor * since)
        duration = self.epochs - self.warmup_epochs
        left = max(0.0, 1 - since / duration) if duration > 0 else 1.0
        if self.decay == "polynomial":  # LARS: power 2 (You et al. 2017), LAMB: power 1 (You et al. 2019)
            return left**self.power
        if self.decay == "cosine":  # Loshchilov and Hutter 2016 (arXiv 1608.03983), without restarts
            return 0.5 * (1 + math.cos(math.pi * (1 - left)))
        return 1.0


def epochs_of(text: str) -> tuple[float, ...]:
    """Ascending epochs from a text such as "30,60,80", none from ""; raises ValueError for anything else."""
    found = tuple(float(part) for part in text.split(",")) if text.strip() else ()
    if not all(0 < epoch < math.inf for epoch in found) or list(found) != sorted(set(found)):
        raise ValueError("{!r}: ascending epochs above 0 are expected, such as 30,60,80".format(text))
    return found


def schedule(asked: Any, size: int, steps_per_epoch: int) -> Schedule:
    """The schedule of a job's options (parameters.json), for a world of `size` ranks.

    Accumulated batches count like ranks, because the rate depends on the number of batches that an update averages.
    """
    batches = size * asked.accumulation
    return Schedule(
        rate=scaled(asked.learning_rate, batches, asked.scale_learning_rate),
        start=warm_up_start(asked.learning_rate, batches, asked.scale_learning_rate),
        epochs=asked.epochs,
        warmup_epochs=asked.warmup_steps / steps_per_epoch if asked.warmup_steps else asked.warmup_epochs,
        decay=asked.decay,
        factor=asked.decay_factor,
        power=asked.decay_power,
        boundaries=tuple(asked.decay_epochs),
    )
