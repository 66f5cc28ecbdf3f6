"""Any times of all-reduces give a latency and a bandwidth; exact ones give their own."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.communication import Group
from hpclaunch.guidelines.measured_link import TimedSize, fitted_link

SIZES = [4**power for power in range(5, 14)]
GROUPS = st.builds(Group, nodes=st.integers(1, 64), per_node=st.integers(2, 8))
SECONDS = st.floats(1e-7, 1e3)


@given(GROUPS, st.floats(1e-6, 1e-3), st.floats(1e7, 1e11))
def test_exact_times_are_explained_exactly(group: Group, latency: float, bandwidth: float) -> None:
    sent = 2 * (group.ranks - 1) / group.ranks
    times = [TimedSize(size=size, seconds=latency + sent * size / bandwidth) for size in SIZES]
    link = fitted_link(times, group)
    for timed in times:
        assert link.latency_s + sent * timed.size / link.bytes_per_s == pytest.approx(timed.seconds, rel=1e-3)


@given(GROUPS, st.lists(SECONDS, min_size=len(SIZES), max_size=len(SIZES)))
def test_any_times_give_a_plausible_link(group: Group, seconds: list[float]) -> None:
    times = [TimedSize(size=size, seconds=time) for size, time in zip(SIZES, seconds, strict=True)]
    link = fitted_link(times, group)
    assert link.latency_s >= 0 and math.isfinite(link.latency_s)
    assert link.bytes_per_s > 0 and math.isfinite(link.bytes_per_s)
    assert link.spread >= 0.3 and math.isfinite(link.spread)


@given(GROUPS, st.lists(SECONDS, min_size=len(SIZES), max_size=len(SIZES)), st.floats(0.01, 100))
def test_slower_clocks_give_the_same_link_slower(group: Group, seconds: list[float], factor: float) -> None:
    one, other = (
        fitted_link([TimedSize(size=s, seconds=t * by) for s, t in zip(SIZES, seconds, strict=True)], group)
        for by in (1.0, factor)
    )
    assert other.bytes_per_s * factor == pytest.approx(one.bytes_per_s, rel=1e-6)
    assert other.latency_s == pytest.approx(one.latency_s * factor, rel=1e-6, abs=1e-9 * factor)
