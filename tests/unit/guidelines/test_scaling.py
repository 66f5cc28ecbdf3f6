"""Speed-up, efficiency, spread and causes, on figures that can be checked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.guidelines.scaling import (
    COMMUNICATION,
    COMPUTING,
    INPUT,
    OUTSIDE,
    WAITING,
    MeasuredPoint,
    StepSplit,
    mean_split,
    median_split,
    scale,
    split_of_event,
)


def split(compute: float, communication: float = 0.0, waiting: float = 0.0, waits: float = 0.0) -> StepSplit:
    return StepSplit(compute_s=compute, communication_s=communication, waiting_s=waiting, input_s=waits)


def point(ranks: int, per_rank: int, *steps: float, parts: StepSplit | None = None) -> MeasuredPoint:
    """A layout of one rank a node, whose runs had steps of so many seconds."""
    rates = tuple(ranks * per_rank / step for step in steps)
    return MeasuredPoint(nodes=ranks, ranks=ranks, per_rank=per_rank, accumulation=1, rates=rates, split=parts)


def test_strong_scaling_divides_the_step_of_one_process() -> None:
    alone, four = scale([point(1, 64, 0.8), point(4, 16, 0.25)])
    assert (alone.speed_up, alone.efficiency, alone.low, alone.high, alone.causes) == (1, 1, 1, 1, ())
    assert four.speed_up == pytest.approx(3.2) and four.efficiency == pytest.approx(0.8)
    assert four.ideal_s == pytest.approx(0.2) and four.verdict == "faster" and four.is_worth_it


def test_weak_scaling_keeps_the_step_of_one_process() -> None:
    _, four = scale([point(1, 16, 0.2), point(4, 16, 0.25)])
    assert four.ideal_s == pytest.approx(0.2) and four.speed_up == pytest.approx(3.2)


def test_the_spread_is_that_of_all_pairs_of_runs() -> None:
    one, two = scale([point(1, 8, 1.0, 1.25, 0.8), point(2, 4, 0.5, 0.625)])
    assert one.point.samples_per_s == pytest.approx(8.0)
    assert two.point.samples_per_s == pytest.approx((16 + 12.8) / 2)
    assert two.speed_up == pytest.approx(14.4 / 8)
    assert (two.low, two.high) == (pytest.approx(12.8 / 10), pytest.approx(16 / 6.4))
    assert two.point.deviation == pytest.approx(2.2627 / 14.4, rel=1e-3)
    assert point(1, 8, 1.0).deviation is None


@pytest.mark.parametrize(
    ("step", "verdict", "worth"),
    [(0.9, "hardly faster", False), (1.0, "hardly faster", False), (1.01, "slower", False), (1 / 1.21, "faster", True)],
)
def test_the_verdict_is_that_of_plans(step: float, verdict: str, worth: bool) -> None:
    _, two = scale([point(1, 8, 1.0), point(2, 4, step)])
    assert (two.verdict, two.is_worth_it) == (verdict, worth)


ALONE = point(1, 8, 0.080, parts=split(0.076, waits=0.002))


@pytest.mark.parametrize(
    ("parts", "cause", "seconds"),
    [
        (split(0.019, communication=0.100, waits=0.0005), COMMUNICATION, 0.100),
        (split(0.019, waiting=0.100, waits=0.0005), WAITING, 0.100),
        (split(0.019, waits=0.1005), INPUT, 0.100),
        (split(0.119, waits=0.0005), COMPUTING, 0.100),
        (split(0.019, waits=0.0005), OUTSIDE, 0.100),
    ],
)
def test_the_cause_is_the_part_that_more_ranks_should_have_shortened(
    parts: StepSplit, cause: str, seconds: float
) -> None:
    """The ideal step of four ranks is 20 ms, and theirs takes 120 ms."""
    _, four = scale([ALONE, point(4, 2, 0.120, parts=parts)])
    assert four.verdict == "slower"
    assert four.causes[0].name == cause and four.causes[0].seconds == pytest.approx(seconds, abs=1e-12)
    assert sum(one.seconds for one in four.causes) == pytest.approx(four.point.step_s - four.ideal_s)


def test_unknown_parts_give_no_cause_and_no_run_of_one_process_gives_no_speed_up() -> None:
    assert scale([ALONE, point(4, 2, 0.120)])[1].causes == ()
    assert scale([point(1, 8, 0.080), point(4, 2, 0.120, parts=split(0.1))])[1].causes == ()
    with pytest.raises(ValueError, match="one process"):
        scale([point(2, 4, 0.5)])
    with pytest.raises(ValueError, match="runs"):
        point(2, 4)


def test_the_mean_of_splits_adds_up_to_the_mean_step() -> None:
    found = mean_split([split(0.1, 0.2, 0.3, 0.4), split(0.3, 0.4, 0.1, 0.0)])
    assert found is not None and found.total_s == pytest.approx(0.9) and found.waiting_s == pytest.approx(0.2)
    assert mean_split([]) is None


def test_the_split_is_that_of_the_median_speed() -> None:
    one, two, slow = split(0.1), split(0.2), split(9.0)
    assert median_split([(3.0, one), (0.1, slow), (2.0, two)]) == two
    assert median_split([(3.0, one), (2.0, two)]) == split(pytest.approx(0.15))
    assert median_split([(3.0, one), (2.9, one), (2.0, two), (0.1, slow)]) == split(pytest.approx(0.15))
    assert median_split([]) is None


def test_the_wait_for_the_slowest_rank_is_a_part_of_the_communication() -> None:
    event: dict[str, Any] = {
        "step_seconds": {"compute": 0.05, "communication": 0.04, "input": 0.01},
        "step_seconds_by_rank": [0.03, 0.09],
    }
    assert split_of_event(event) == split(0.05, pytest.approx(0.01), pytest.approx(0.03), 0.01)
    for own in (None, [], [0.03, "x"], "0.3"):
        assert split_of_event({**event, "step_seconds_by_rank": own}) == split(0.05, 0.04, 0.0, 0.01)
    assert split_of_event({**event, "step_seconds_by_rank": [0.0, 9.0]}) == split(0.05, 0.0, 0.04, 0.01)


@pytest.mark.parametrize(
    "parts",
    [
        None,
        3,
        {},
        {"compute": 0.1, "communication": 0.1},
        {"compute": 0.1, "communication": -1, "input": 0},
        {"compute": True, "communication": 0.1, "input": 0},
        {"compute": float("inf"), "communication": 0.1, "input": 0},
    ],
)
def test_damaged_parts_count_for_nothing(parts: object) -> None:
    assert split_of_event({"step_seconds": parts}) is None
