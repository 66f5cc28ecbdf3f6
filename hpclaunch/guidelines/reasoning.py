"""How a recommendation is explained: its rule, numbers, verdict, source and intervals; it decides nothing."""

from __future__ import annotations

import math
from typing import Literal

from hpclaunch.core.records import record

Origin = Literal["typed", "given", "site", "default", "profile", "fitted", "computed"]
"""How a number was obtained: typed by a person, given by job or model, from the site file, a default, measured, …"""

GUIDELINES = "Distributed Training guidelines (Big Data Center, NERSC and Intel)"

Z90 = 1.2815515655446004
"""The 90 % quantile of the standard normal distribution: an 80 % interval reaches this many deviations to each side."""


@record
class Number:
    """A number that a rule was applied to. ``unit`` may be empty."""

    name: str
    value: float
    unit: str = ""
    origin: Origin = "computed"


@record
class Reason:
    """One rule as it was applied: its numbers, the result, and the source. ``warning`` is one line, or empty."""

    rule: str
    numbers: tuple[Number, ...] = ()
    verdict: str
    source: str
    warning: str = ""


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


def positive(**values: float) -> None:
    """Raise ValueError if a value is not a finite number above zero; it names all such values."""
    wrong = [f"{name} = {value}" for name, value in values.items() if not (math.isfinite(value) and value > 0)]
    if wrong:
        raise ValueError(f"must be above zero: {', '.join(wrong)}")
