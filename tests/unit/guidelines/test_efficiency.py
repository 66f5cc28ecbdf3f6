"""The Pareto law of epochs against batch, and the two-batch noise scale, against known answers."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hpclaunch.guidelines.efficiency import Pareto, fit_pareto, noise_scale, pareto_from

LAW = Pareto(fewest_epochs=43, critical_batch=384)


def test_at_the_critical_batch_twice_the_epochs_and_twice_the_fewest_steps() -> None:
    assert LAW.epochs(384) == 86
    assert LAW.steps(384, 384_000) == pytest.approx(2 * 43 * 384_000 / 384)


def test_efficiency_is_that_of_pollux() -> None:
    assert LAW.efficiency(384, 128) == pytest.approx((384 + 128) / (384 + 384))
    assert LAW.efficiency(128, 128) == 1


def test_the_law_through_one_run() -> None:
    assert pareto_from(86, 384, 384) == LAW


@given(st.floats(1, 1000), st.floats(1, 1e6), st.lists(st.floats(1, 1e5), min_size=2, max_size=6, unique=True))
def test_a_fit_finds_the_law_that_made_the_runs(fewest: float, critical: float, batches: list[float]) -> None:
    law = Pareto(fewest_epochs=fewest, critical_batch=critical)
    assume(max(batches) > 1.5 * min(batches))
    found = fit_pareto([(batch, law.epochs(batch)) for batch in batches])
    for batch in batches:
        assert found.epochs(batch) == pytest.approx(law.epochs(batch), rel=1e-3)


@given(st.floats(1, 1e6), st.floats(1, 1e6))
def test_a_larger_batch_takes_more_epochs_and_fewer_steps(one: float, other: float) -> None:
    small, large = sorted((one, other))
    assert LAW.epochs(small) <= LAW.epochs(large)
    assert LAW.steps(small, 1000) >= LAW.steps(large, 1000)


def test_epochs_that_do_not_grow_have_no_critical_batch() -> None:
    found = fit_pareto([(64, 50), (128, 40)])
    assert math.isinf(found.critical_batch)
    assert found.epochs(1e9) == found.fewest_epochs


def test_one_batch_size_is_not_enough_and_impossible_growth_is_refused() -> None:
    with pytest.raises(ValueError, match="two different batch sizes"):
        fit_pareto([(64, 50), (64, 51)])
    with pytest.raises(ValueError, match="do not follow"):
        fit_pareto([(64, 10), (128, 100)])


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.integers(1, 512), st.integers(2, 64))
def test_the_noise_scale_of_known_gradients(squares: float, variance: float, small: int, ranks: int) -> None:
    big = small * ranks
    found = noise_scale(squares + variance / small, squares + variance / big, small, big)
    assert found == pytest.approx(variance / squares, rel=1e-4)


def test_noise_that_hides_the_gradient_is_refused() -> None:
    with pytest.raises(ValueError, match="hides the gradient"):
        noise_scale(10, 1, 1, 2)
    with pytest.raises(ValueError, match="larger than the small one"):
        noise_scale(10, 1, 2, 2)


def test_equal_gradients_have_no_noise() -> None:
    assert noise_scale(4, 4, 8, 16) == 0
