"""Several ranks beside one process with the same global batch: known answers."""

from __future__ import annotations

import pytest

from hpclaunch.guidelines.distribution import HARDLY_FASTER, compare_with_one
from hpclaunch.guidelines.throughput import StepTime


def step(compute: float, communication: float = 0.0, *, waiting: float = 0.0, fixed: float = 0.0) -> StepTime:
    return StepTime(
        compute_s=compute,
        communication_s=communication,
        straggler_s=0.0,
        slowdown_s=0.0,
        input_s=waiting,
        fixed_s=fixed,
    )


@pytest.mark.parametrize(
    ("compute", "communication", "speed_up", "verdict"),
    [
        (1.0, 3.0, 0.5, "slower"),
        (1.0, 1.0, 1.0, "hardly faster"),
        (1.0, 0.7, 2 / 1.7, "hardly faster"),
        (1.0, 2 / HARDLY_FASTER - 1.0001, 1.2, "faster"),
        (0.5, 0.1, 2 / 0.6, "faster"),
    ],
)
def test_the_speed_up_decides(compute: float, communication: float, speed_up: float, verdict: str) -> None:
    found = compare_with_one(step(compute, communication), step(2.0))
    assert found.speed_up == pytest.approx(speed_up, rel=1e-3)
    assert found.reason.verdict == verdict and found.is_worth_it == (verdict == "faster")
    assert found.communication == pytest.approx(communication / (compute + communication))


def test_waiting_for_samples_does_not_count() -> None:
    found = compare_with_one(step(1.0, 0.25, waiting=9.0, fixed=0.5), step(4.0, waiting=6.0))
    assert (found.speed_up, found.communication, found.fixed) == pytest.approx((3.2, 0.2, 0.4))
    assert (found.ranks_s, found.one_s) == (1.25, 4.0)
