"""How much a rank's step time varies, derived from steps in which all ranks wait for the slowest; pure arithmetic."""

from __future__ import annotations

import math
from functools import cache

_REACH, _PARTS = 9.0, 1800
"""The integrals' range in standard deviations, and their number of parts: exact to 1e-9."""


def of_a_rank(spread: float, ranks: int) -> float:
    """Return the relative standard deviation of one rank's step time, given that of the joint steps (``spread``).

    In synchronous training a step takes as long as that of its slowest rank, and the largest of several values varies
    less than each. The ranks' times are taken as independent and normal. Raises ValueError for a negative spread.
    Source: ``spread_of_slowest``.
    """
    if spread < 0:
        raise ValueError(f"a standard deviation cannot be negative: {spread}")
    return spread / spread_of_slowest(ranks)


@cache
def spread_of_slowest(ranks: int) -> float:
    """Return the standard deviation of the largest of ``ranks`` independent standard normal values.

    It is 1, 0.8256, 0.7480, 0.7012 for 1 to 4 ranks. Source: order statistics with density p phi(x) Phi(x)^(p - 1)
    (David and Nagaraja, Order Statistics, 2003), integrated with the trapezoidal rule.
    """
    if ranks < 1:
        raise ValueError(f"there must be at least one rank, not {ranks}")
    width = 2 * _REACH / _PARTS
    mean = square = 0.0
    for index in range(_PARTS + 1):
        x = index * width - _REACH
        below = 0.5 * math.erfc(-x / math.sqrt(2))
        density = ranks * math.exp(-x * x / 2) / math.sqrt(2 * math.pi) * below ** (ranks - 1) * width
        mean += density * x
        square += density * x * x
    return math.sqrt(square - mean * mean)
