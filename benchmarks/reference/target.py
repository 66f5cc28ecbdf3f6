"""Where a training's loss crosses a target, from the losses of its batches; pure, the same for every batch size.

The loss is a mean over a fixed number of samples, and looked at after fixed numbers of samples. So all batch sizes are
smoothed alike and have the same number of chances to cross by luck.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Target:
    """A loss to reach. every: samples between looks, a multiple of the batch size; looks: how many a mean covers."""

    loss: float
    every: int
    looks: int = 2

    @property
    def lag(self) -> float:
        """Samples from the centre of a mean to its end, where it is known."""
        return self.every * self.looks / 2


class Crossing:
    """Follows a training batch by batch; `samples` is where its loss crosses the target, None before that.

    A mean counts at the centre of its samples: at their end it would add half of them to every batch size, which the
    fit would take for a larger critical batch. Between the centres of two means the loss is taken as linear.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._parts: list[float] = []  # means between two looks
        self._sum, self._since = 0.0, 0
        self._before: tuple[float, float] | None = None  # (centre in samples, mean) of the look before
        self.seen = 0
        self.samples: float | None = None

    @property
    def loss(self) -> float:
        """The mean loss at the last look; NaN before the first whole mean."""
        last = self._parts[-self._target.looks :]
        return sum(last) / len(last) if len(last) == self._target.looks else math.nan

    def add(self, samples: int, mean_loss: float) -> bool:
        """Count a batch; returns whether it completes a look. Raises ValueError if looks fall within batches."""
        self._sum += samples * mean_loss
        self._since += samples
        self.seen += samples
        if self._since < self._target.every:
            return False
        if self._since > self._target.every:
            raise ValueError(f"batches of {samples} samples do not divide the {self._target.every} between two looks")
        self._parts.append(self._sum / self._since)
        self._sum, self._since = 0.0, 0
        self._look()
        return True

    def _look(self) -> None:
        loss, centre = self.loss, self.seen - self._target.lag
        if self.samples is None and loss <= self._target.loss:
            self.samples = centre
            if self._before is not None:
                at, higher = self._before
                self.samples = at + (centre - at) * (higher - self._target.loss) / (higher - loss)
        if not math.isnan(loss):
            self._before = (centre, loss)
