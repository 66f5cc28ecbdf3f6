"""A step of which only measured points are known: what they tell is narrow, and what they do not tell is a range."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.program_steps import StepPoint, fitted


def a_point(nodes: int, per_rank: float, seconds: float) -> StepPoint:
    return StepPoint(nodes=nodes, per_rank=per_rank, low=seconds, high=seconds)


parts = st.fixed_dictionaries(
    {
        "fixed": st.floats(0.0, 0.1),
        "each": st.floats(1e-5, 1e-2),
        "exchange": st.floats(0.0, 0.2),
        "growth": st.floats(0.0, 1.0),
    }
)


def true_step(told: dict[str, float], nodes: int, per_rank: float) -> float:
    """Communication between constant (growth 0) and as the further nodes (growth 1)."""
    exchange = told["exchange"] * (nodes - 1) ** told["growth"] if nodes > 1 else 0.0
    return told["fixed"] + told["each"] * per_rank + exchange


@given(told=parts, further=st.booleans(), nodes=st.sampled_from([1, 2, 4, 8]), per_rank=st.sampled_from([16, 32, 128]))
def test_whatever_the_parts_are_the_true_step_is_inside(
    told: dict[str, float], further: bool, nodes: int, per_rank: int
) -> None:
    layouts = [(1, 64), (2, 64), *([(1, 32)] if further else [])]
    steps = fitted([a_point(count, batch, true_step(told, count, batch)) for count, batch in layouts])
    found = steps.step(nodes, per_rank)
    assert found is not None
    assert found.low <= true_step(told, nodes, per_rank) * 1.01
    assert found.high >= true_step(told, nodes, per_rank) / 1.01
    assert found.high / found.low > 0.999 * (1 + steps.noise) ** 2  # a further run has this noise as well


def test_a_second_batch_tells_the_fixed_part_from_that_of_a_sample() -> None:
    one, two = a_point(1, 64, 0.100), a_point(2, 64, 0.120)
    wide, narrow = fitted([one, two]), fitted([one, two, a_point(1, 32, 0.060)])
    unknown, known = wide.step(1, 32), narrow.step(1, 32)
    assert unknown is not None and known is not None
    assert unknown.high / unknown.low > 2 and known.high / known.low < 1.2
    assert wide.part("fixed")[0] == 0.0 and narrow.part("fixed")[0] > 0.0


def test_no_other_node_count_is_known_from_one() -> None:
    steps = fitted([a_point(2, 64, 0.1), a_point(2, 32, 0.06)])
    assert steps.step(1, 64) is None and steps.step(4, 64) is None
    assert steps.step(2, 64) is not None


def test_points_that_no_parts_fit_widen_until_some_do() -> None:
    steps = fitted([a_point(1, 64, 0.1), a_point(1, 32, 0.15), a_point(2, 64, 0.09)])
    assert steps.noise > 0.1
    found = steps.step(1, 64)
    assert found is not None and found.high / found.low > 1.2


def test_without_a_point_nothing_is_fitted() -> None:
    with pytest.raises(ValueError, match="needs a measured point"):
        fitted([])
