"""Learning-rate rules as functions of world size and epoch; pure."""

from __future__ import annotations

import math

SCALING = {
    "none": lambda size: 1.0,
    "linear": float,  # Goyal et al. 2017: k times the batch, k times the rate
    "sqrt": math.sqrt,  # keeps the variance of the update (Krizhevsky 2014)
}


def scaled(base: float, size: int, rule: str) -> float:
    """The learning rate for a world of `size` ranks whose base rate is for one; rule "none", "linear" or "sqrt"."""
    return base * SCALING[rule](size)


def warmed_up(rate: float, size: int, epoch: float, warmup_epochs: float) -> float:
    """The rate at a fractional `epoch` (from 0): from rate / size linearly to rate over the warm-up epochs.

    The formula of Horovod's LearningRateWarmupCallback; with linear scaling it starts at the base rate (Goyal et al.
    2017, section 2.2).
    """
    if epoch >= warmup_epochs:
        return rate
    return rate / size * (epoch * (size - 1) / warmup_epochs + 1)
