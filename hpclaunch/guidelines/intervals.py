"""Uncertain quantities: their ranges, and the range of what is computed from them; it knows no rule.

All are taken as independent. Factors are log-normal, so that the squares of the logarithms of their widths add up; in
a sum the squares of the distances from the middle do.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import Origin

Z90 = 1.2815515655446004
"""The 90 % quantile of the standard normal distribution: an 80 % interval reaches this many deviations to each side."""


@record
class Interval:
    """An uncertain quantity that is not negative: its 10, 50 and 90 % quantiles, and how it was obtained."""

    low: float
    middle: float
    high: float
    origin: Origin = "computed"

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.middle <= self.high:
            raise ValueError(f"quantiles must rise and not be negative: {self.low}, {self.middle}, {self.high}")


def spread(middle: float, relative: float, origin: Origin = "computed") -> Interval:
    """Return the 80 % interval of ``middle`` with a ``relative`` half-width (0.15: +-15 %).

    It is symmetric in the logarithm, because a time cannot become negative. Raises ValueError for a negative middle
    or width.
    """
    if middle < 0 or relative < 0:
        raise ValueError("an interval needs a middle and a width that are not negative")
    return Interval(low=middle / (1 + relative), middle=middle, high=middle * (1 + relative), origin=origin)


def combined(*relative: float) -> float:
    """Return the relative half-width of a product of independent quantities, given the half-width of each.

    They are taken as log-normal, so that the squares of the logarithms add up.
    """
    return math.expm1(math.sqrt(sum(math.log1p(width) ** 2 for width in relative)))


def added(*parts: Interval) -> Interval:
    """Return the sum of independent quantities: the distances of their ends from the middle add up in squares."""
    middle = sum(part.middle for part in parts)
    low = math.sqrt(sum((part.middle - part.low) ** 2 for part in parts))
    high = math.sqrt(sum((part.high - part.middle) ** 2 for part in parts))
    origin = max(parts, key=lambda part: part.middle).origin
    return Interval(low=max(0.0, middle - low), middle=middle, high=middle + high, origin=origin)


def scaled(interval: Interval, by: float) -> Interval:
    """Return the interval of a quantity times a number that is not negative."""
    return Interval(low=interval.low * by, middle=interval.middle * by, high=interval.high * by, origin=interval.origin)


def deviation(width: float) -> float:
    """Return the standard deviation of the logarithm of a quantity, given the relative half-width of its range."""
    return math.log1p(width) / Z90


def widened(interval: Interval, relative: float) -> Interval:
    """Return the interval with a wider range, which also holds a variation of this ``relative`` half-width."""
    below = combined(interval.middle / interval.low - 1, relative)
    above = combined(interval.high / interval.middle - 1, relative)
    return _interval_of(interval.middle, below, above, interval.origin)


def quotient(one: Interval, other: Interval) -> Interval:
    """Return the interval of one quantity divided by another, both above zero; its origin is that of the other."""
    below = combined(one.middle / one.low - 1, other.high / other.middle - 1)
    above = combined(one.high / one.middle - 1, other.middle / other.low - 1)
    return _interval_of(one.middle / other.middle, below, above, other.origin)


def _interval_of(middle: float, below: float, above: float, origin: Origin) -> Interval:
    """Return the interval with these relative distances of its ends from the middle."""
    return Interval(low=middle / (1 + below), middle=middle, high=middle * (1 + above), origin=origin)


def mapped(interval: Interval, rising: Callable[[float], float]) -> Interval:
    """Return the interval of a rising function of a quantity."""
    low, middle, high = rising(interval.low), rising(interval.middle), rising(interval.high)
    return Interval(low=low, middle=middle, high=high, origin=interval.origin)
