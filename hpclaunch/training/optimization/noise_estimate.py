"""The gradient noise scale and its interval, from weighted sums over steps; pure functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Sequence

SPAN = 1000.0  # steps that averages cover; AdaptDL (petuum/adaptdl, gradient_noise_scale.py) forgets as fast
Z90 = 1.2815515655446004  # the normal distribution's 90 % quantile: between -Z90 and Z90 lie 80 %


@dataclass(frozen=True)
class Estimate:
    """tr(Sigma) / |G|^2 in samples, with the ends of its 80 % interval; None: not known, or no upper end.

    noise: tr(Sigma) of a single sample's gradient; norm: |G|^2. The estimate of each can be negative while noise
    dominates.
    """

    value: float | None
    low: float
    high: float | None
    noise: float
    norm: float


def estimate(sums: Sequence[float]) -> Estimate | None:
    """The estimate from sums over steps of: w, w^2, w n, w g, w n^2, w g^2, w n g; None with fewer than two steps.

    w: a step's weight; n, g: its unbiased estimates of tr(Sigma) and |G|^2. Numerator and denominator are averaged
    before the division, because a mean of ratios is biased (McCandlish et al. 2018, arXiv 1812.06162, appendix A.1).
    """
    weight, squares = sums[0], sums[1]
    if weight <= 0 or squares / weight**2 >= 1 - 1e-9:
        return None
    noise, norm = sums[2] / weight, sums[3] / weight
    share = squares / weight**2  # 1 / number of steps where all weigh the same
    of_mean = share / (1 - share)  # from the spread of the steps to the variance of their mean
    nn = (sums[4] / weight - noise**2) * of_mean
    gg = (sums[5] / weight - norm**2) * of_mean
    ng = (sums[6] / weight - noise * norm) * of_mean
    low, high = fieller(noise, norm, nn, gg, ng)
    return Estimate(noise / norm if norm > 0 and noise > 0 else None, low, high, noise, norm)


def line(found: Estimate, epoch: int, steps: int) -> dict[str, Any]:
    """What the line `noise_scale` of metrics.jsonl says after an epoch (from 1) and so many steps."""
    return {
        "epoch": epoch,
        "noise_scale": found.value,
        "low": found.low,
        "high": found.high,
        "noise": found.noise,
        "squared_norm": found.norm,
        "steps": steps,
    }


def in_words(found: Estimate, epoch: int, steps: int) -> str:
    """The same for a reader: "epoch 2 gradient noise scale 412 (80 %: 390 to 440) samples, after 60 steps"."""
    upper = "no upper end" if found.high is None else "{:.4g}".format(found.high)
    value = "not yet known (above {:.0f} samples)".format(found.low)
    if found.value is not None:
        value = "{:.4g} (80 %: {:.4g} to {}) samples".format(found.value, found.low, upper)
    return "epoch {} gradient noise scale {}, after {} steps".format(epoch, value, steps)


def fieller(a: float, b: float, aa: float, bb: float, ab: float, z: float = Z90) -> tuple[float, float | None]:
    """The interval of a / b, for two positive quantities with variances aa, bb and covariance ab.

    It contains all r >= 0 for which a - r b differs from zero by at most z of its standard deviations. The upper end is
    None if b could be zero. Source: Fieller 1954, J. R. Stat. Soc. B 16, 175.
    """
    square, half, rest = b * b - z * z * bb, a * b - z * z * ab, a * a - z * z * aa
    inside = half * half - square * rest
    if square > 0:
        width = math.sqrt(max(inside, 0.0))
        return max((half - width) / square, 0.0), max((half + width) / square, 0.0)
    if square == 0 or inside <= 0 or b <= 0:
        return 0.0, None
    upper_root = (half - math.sqrt(inside)) / square  # square < 0: everything above it is possible
    return max(upper_root, 0.0) if a / b >= upper_root else 0.0, None
