"""Priors for what no batch size moves, by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.intervals import Interval, added, deviation, scaled, spread
from hpclaunch.guidelines.overhead import Staged, expected_overhead, fixed_time, measured_overhead, reading_rate


def test_the_fixed_time_of_the_bundled_models() -> None:
    assert fixed_time(961).seconds == pytest.approx(10.61e-3)
    assert fixed_time(248).seconds == pytest.approx(3.48e-3)
    assert fixed_time(961).width == 1.0


def test_operations_that_were_not_counted_have_a_wider_range() -> None:
    layers, nothing = fixed_time(None, layers=35), fixed_time(None)
    assert layers.seconds == pytest.approx(1e-3 + 35 * 27 * 10e-6)
    assert (layers.width, nothing.width) == (3.0, 3.0)
    assert "estimated from its layers" in layers.reason.verdict and "not known" in nothing.reason.verdict


def test_a_node_decodes_with_its_cores_and_reads_what_does_not_fit() -> None:
    assert reading_rate(64, kept=False, fits=True) == pytest.approx(3.84e9)
    assert reading_rate(64, kept=False, fits=False) == pytest.approx(2e9)
    assert reading_rate(8, kept=False, fits=False) == pytest.approx(0.48e9)
    assert reading_rate(64, kept=False, fits=False, gbytes_per_s=1) == pytest.approx(1e9)
    assert reading_rate(None, kept=True, fits=True) == pytest.approx(32e9)


def test_the_overhead_of_a_run_by_hand() -> None:
    staged = Staged(dataset_bytes=16e9, parameters=100e6, slots=2)
    found = expected_overhead(4, staged, kept=True, epoch_s=60)
    assert found.once_s.middle == pytest.approx(20 + 2 * 2 + 2)  # 16 GB by four nodes at 2 GB/s
    assert found.epoch_s.middle == pytest.approx(0.05 * 60 + 0.1 + 1.2)  # 1.2 GB of weights and states at 1 GB/s
    assert found.total(10).middle == pytest.approx(26 + 43)
    assert expected_overhead(4, staged, kept=False, epoch_s=60).once_s.middle == pytest.approx(24)


def test_a_measured_overhead_counts_once() -> None:
    assert measured_overhead(45).total(100).middle == 45


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 3)), min_size=1, max_size=4), st.floats(0, 1e3))
def test_sums_and_multiples_of_ranges(parts: list[tuple[float, float]], by: float) -> None:
    ranges = [spread(middle, width) for middle, width in parts]
    total = added(*ranges)
    assert total.middle == pytest.approx(sum(middle for middle, _ in parts))
    assert sum(one.low for one in ranges) <= total.low * (1 + 1e-9) + 1e-6
    assert total.high <= sum(one.high for one in ranges) * (1 + 1e-9) + 1e-6
    assert scaled(total, by).middle == pytest.approx(total.middle * by)


def test_a_width_as_a_deviation() -> None:
    assert deviation(1.0) == pytest.approx(math.log(2) / 1.2815515655446004)
    assert isinstance(added(spread(1, 1)), Interval)
