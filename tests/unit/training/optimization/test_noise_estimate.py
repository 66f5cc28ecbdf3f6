"""The ratio of two noisy averages: unbiased, and in its interval as often as promised."""

from __future__ import annotations

import random

import pytest

from hpclaunch.training.optimization.noise_estimate import estimate, fieller


def sums(steps: list[tuple[float, float]], keep: float = 1.0) -> list[float]:
    held = [0.0] * 7
    for n, g in steps:
        decay = [keep, keep**2] + [keep] * 5
        now = [1.0, 1.0, n, g, n * n, g * g, n * g]
        held = [d * h + x for d, h, x in zip(decay, held, now, strict=True)]
    return held


def drawn(seed: int, count: int) -> list[tuple[float, float]]:
    """Steps whose noise (mean 20) and norm (mean 2) are both skewed and correlated."""
    source = random.Random(seed)
    steps = []
    for _ in range(count):
        shared = source.expovariate(1)
        steps.append((20 + 6 * (source.expovariate(1) - 1) + 4 * (shared - 1), 2 + 1.2 * (shared - 1)))
    return steps


def test_equal_steps_have_no_spread() -> None:
    found = estimate(sums([(30.0, 2.0)] * 5))
    assert found is not None
    assert (found.value, found.noise, found.norm) == (15, 30, 2)
    assert found.low == pytest.approx(15) and found.high == pytest.approx(15)


@pytest.mark.parametrize("steps", [[], [(30.0, 2.0)]])
def test_fewer_than_two_steps_tell_nothing(steps: list[tuple[float, float]]) -> None:
    assert estimate(sums(steps)) is None


def test_averages_are_taken_before_the_ratio() -> None:
    found = estimate(sums([(10.0, 1.0), (10.0, 3.0)]))
    assert found is not None and found.value == 5  # the mean of the two ratios is 6.67


@pytest.mark.parametrize("keep", [1.0, 0.98])
def test_the_truth_is_inside_in_four_of_five_runs(keep: float) -> None:
    runs = [estimate(sums(drawn(seed, 300), keep)) for seed in range(400)]
    inside = [run.low <= 10 <= run.high for run in runs if run is not None and run.high is not None]
    assert len(inside) == 400
    assert 0.74 < sum(inside) / 400 < 0.86  # 0.8 with a standard deviation of 0.02


def test_a_norm_that_may_be_zero_leaves_the_upper_end_open() -> None:
    low, high = fieller(20.0, 0.5, 1.0, 0.25, 0.0)
    assert high is None
    assert 0 < low < 40
    assert fieller(20.0, -0.5, 1.0, 0.25, 0.0) == (0.0, None)


def test_an_estimate_hidden_by_noise_has_no_value() -> None:
    found = estimate(sums([(30.0, -3.0), (28.0, 1.0), (31.0, 0.5)]))
    assert found is not None
    assert found.value is None and found.high is None


def test_the_interval_is_that_of_the_delta_method_where_the_norm_is_well_known() -> None:
    low, high = fieller(20.0, 2.0, 0.04, 0.0001, 0.0)
    spread = 1.2815515655446004 * 10 * (0.04 / 400 + 0.0001 / 4) ** 0.5
    assert low == pytest.approx(10 - spread, rel=1e-3)
    assert high == pytest.approx(10 + spread, rel=1e-3)
