"""The utilization that a measured rate reaches: it is proportional to the rate, and never made up."""

from __future__ import annotations

import pytest

from hpclaunch.core.spec_parts import utilization_at

RECORDED = {"samples_per_s": 200.0, "low": 100.0, "high": 400.0, "measured": False, "mfu": 0.4, "peak": "312 TFLOP/s"}


def test_the_utilization_is_proportional_to_the_rate() -> None:
    assert utilization_at(RECORDED, 150.0) == (pytest.approx(0.3), 0.4, "312 TFLOP/s")


@pytest.mark.parametrize(
    "recorded",
    [
        None,
        "text",
        {},
        {**RECORDED, "mfu": None},
        {**RECORDED, "samples_per_s": 0},
        {**RECORDED, "mfu": "0.4"},
        {**RECORDED, "samples_per_s": -1.0},
        {**RECORDED, "mfu": float("nan")},
    ],
)
def test_a_record_without_it_gives_none(recorded: object) -> None:
    assert utilization_at(recorded, 150.0) is None
