"""The uncertain quantities of a step's time, one moved at a time, and the error of the model itself."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.timing import QUANTITIES
from tests.unit.guidelines.timings import timing


def test_the_model_error_grows_beyond_what_was_measured() -> None:
    seen = replace(timing(), most_ranks=8, batches=(32.0, 64.0))
    assert seen.model_error(4, 64) == pytest.approx(0.03)
    assert seen.model_error(32, 64) == pytest.approx(math.hypot(0.03, 2 * 0.03))
    assert seen.model_error(8, 16) == pytest.approx(math.hypot(0.03, 0.03))
    assert timing().model_error(1024, 1) == pytest.approx(0.3)  # nothing measured


def test_how_a_slow_down_grows_with_the_ranks_is_not_known() -> None:
    slow = replace(timing(), most_ranks=2, batches=(64.0,), slowdown=0.5)
    assert slow.model_error(2, 64) == pytest.approx(0.03)
    assert slow.model_error(4, 64) == pytest.approx(math.hypot(0.03, 0.03, 0.3 / 3))  # a third of a step is slow-down


@given(st.sampled_from(QUANTITIES), st.floats(-3, 3))
def test_a_quantity_moves_alone_and_back(name: str, deviations: float) -> None:
    start = timing(slowdown=0.05, straggling=0.02, fixed_s=0.01, joining_s=0.003, reading=1e9)
    index = list(QUANTITIES).index(name)  # type: ignore[arg-type]
    moved = start.moved(index, deviations)
    assert getattr(moved, name) == pytest.approx(getattr(start, name) * math.exp(0.1 * deviations))
    assert all(getattr(moved, other) == getattr(start, other) for other in QUANTITIES if other != name)
    assert getattr(moved.moved(index, -deviations), name) == pytest.approx(getattr(start, name))
