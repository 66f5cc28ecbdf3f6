"""Ranges of what is computed from uncertain quantities, against samples of these quantities."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence

import pytest

from hpclaunch.guidelines.intervals import (
    Z90,
    Interval,
    added,
    combined,
    deviation,
    mapped,
    quotient,
    scaled,
    spread,
    widened,
)

DRAWS = 40_000
EPOCHS, RATE = spread(10.0, 0.3), spread(200.0, 0.1, "fitted")


def drawn(interval: Interval, seed: int) -> list[float]:
    """Samples of a quantity whose logarithm is normal, with the quantiles of the interval."""
    sigma, source = math.log(interval.high / interval.middle) / Z90, random.Random(seed)
    return [interval.middle * source.lognormvariate(0.0, sigma) for _ in range(DRAWS)]


def quantiles(samples: Sequence[float]) -> list[float]:
    tenths = statistics.quantiles(samples, n=10)
    return [tenths[0], tenths[4], tenths[8]]


def ends(interval: Interval) -> list[float]:
    return [interval.low, interval.middle, interval.high]


def test_a_quotient_has_the_quantiles_of_what_is_drawn() -> None:
    divided = [epochs / rate for epochs, rate in zip(drawn(EPOCHS, 1), drawn(RATE, 2), strict=True)]
    assert ends(quotient(EPOCHS, RATE)) == pytest.approx(quantiles(divided), rel=0.01)
    assert quotient(EPOCHS, RATE).origin == "fitted"


def test_what_varies_from_run_to_run_makes_a_range_wider() -> None:
    varied = [epochs * factor for epochs, factor in zip(drawn(EPOCHS, 1), drawn(spread(1.0, 0.5), 3), strict=True)]
    assert ends(widened(EPOCHS, 0.5)) == pytest.approx(quantiles(varied), rel=0.015)
    assert ends(widened(EPOCHS, 0.0)) == pytest.approx(ends(EPOCHS))


def test_a_sum_of_narrow_quantities_has_the_quantiles_of_what_is_drawn() -> None:
    one, other = spread(100.0, 0.1), spread(50.0, 0.1, "default")
    sums = [first + second for first, second in zip(drawn(one, 1), drawn(other, 2), strict=True)]
    assert ends(added(one, other)) == pytest.approx(quantiles(sums), rel=0.01)
    assert added(one, other).origin == one.origin
    assert added(spread(1.0, 5.0), spread(1.0, 5.0)).low >= 0


@pytest.mark.parametrize("function", [lambda value: 3 * value, lambda value: max(20.0, value), math.sqrt])
def test_a_rising_function_moves_every_quantile(function: Callable[[float], float]) -> None:
    of_samples = [function(value) for value in drawn(EPOCHS, 1)]
    assert ends(mapped(EPOCHS, function)) == pytest.approx(quantiles(of_samples), rel=0.02)


def test_a_product_with_a_number_keeps_the_relative_range() -> None:
    assert scaled(RATE, 2.5) == mapped(RATE, lambda value: value * 2.5)
    assert ends(scaled(RATE, 0.0)) == [0.0, 0.0, 0.0]


def test_widths_of_factors_combine_in_logarithms() -> None:
    assert combined(0.5) == pytest.approx(0.5)
    assert combined(1.0, 1.0) == pytest.approx(2 ** math.sqrt(2) - 1)
    assert combined() == 0.0
    assert math.exp(deviation(0.5) * Z90) == pytest.approx(1.5)


@pytest.mark.parametrize(("middle", "relative"), [(-1.0, 0.1), (1.0, -0.1)])
def test_a_range_is_never_negative(middle: float, relative: float) -> None:
    with pytest.raises(ValueError, match="not negative"):
        spread(middle, relative)
    with pytest.raises(ValueError, match="rise and not be negative"):
        Interval(low=2.0, middle=1.0, high=3.0)
