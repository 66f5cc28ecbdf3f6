"""The speed of a device that ranks measured: what is shown of it, and what is not believed."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.actions.clusters.diagnosis import diagnose
from hpclaunch.actions.clusters.diagnosis.device import device_report
from tests.unit.actions.diagnosis.probes import a_rank, evidence, with_ranks

SPEED = {"float32": [50.0, 49.0], "mixed": [790.0, 760.0], "copy": [4100.0, 4050.0]}


def facts(**changes: Any) -> dict[str, Any]:
    return {"library": "PyTorch", "name": "NVIDIA H200", "on_gpu": True, "speed": {**SPEED, **changes}}


def check_of(found: Any) -> Any:
    return next((check for check in diagnose(found) if check.name == "device"), None)


def test_the_slowest_rank_counts_and_the_check_has_its_figures() -> None:
    ranks = [a_rank(number, device=facts(float32=[50.0 - number, 45.0])) for number in range(4)]
    found = device_report(evidence(ranks=ranks))
    assert found is not None
    assert (found.float32, found.tf32, found.mixed, found.copy_gbytes_per_s) == (47.0, 0.0, 790.0, 4100.0)
    check = check_of(evidence(ranks=ranks))
    figures = "matrix product 47 in float32, 790 in 16 bits TFLOP/s, copy 4.1e+03 GB/s"
    assert (check.verdict, check.what) == ("PASS", figures)


def test_a_rank_that_is_much_slower_than_another_is_named_and_not_believed() -> None:
    ranks = [a_rank(number, device=facts(mixed=[790.0 / (1 + number // 3), 390.0])) for number in range(4)]
    check = check_of(evidence(ranks=ranks))
    assert check.verdict == "WARN" and "n1 reaches 395 in 16 bits, another rank 790" in check.what
    assert "plan does not use it" in check.next


def test_repeats_that_differ_are_doubted() -> None:
    found = device_report(evidence(ranks=with_ranks(device=facts(copy=[4100.0, 2000.0]))))
    assert found is not None and found.doubts == "the repeats of the copy differ, so other work disturbed them"


def test_a_fault_of_the_measurement_is_a_warning_and_its_absence_says_nothing() -> None:
    check = check_of(evidence(ranks=with_ranks(device={"problem": "OutOfMemoryError: no room"})))
    assert (check.verdict, check.what) == ("WARN", "OutOfMemoryError: no room")
    assert check_of(evidence(ranks=with_ranks())) is None
    some = [a_rank(number, **({"device": facts()} if number else {})) for number in range(4)]
    assert device_report(evidence(ranks=some)) is None


@pytest.mark.parametrize("lacking", ["float32", "copy"])
def test_a_rank_without_a_product_or_a_copy_measured_no_speed(lacking: str) -> None:
    speed = {kind: pair for kind, pair in SPEED.items() if kind != lacking}
    one = {"library": "PyTorch", "name": "NVIDIA H200", "on_gpu": True, "speed": speed}
    ranks = [a_rank(number, device=facts() if number else one) for number in range(4)]
    assert device_report(evidence(ranks=ranks)) is None and check_of(evidence(ranks=ranks)) is None


@pytest.mark.parametrize("pair", [[0.0, 0.0], [1.0, 2.0], [float("nan"), 1.0], ["fast", 1.0]])
def test_figures_that_are_no_speeds_are_refused(pair: list[Any]) -> None:
    with pytest.raises(ValueError, match="are no speeds"):
        device_report(evidence(ranks=with_ranks(device=facts(float32=pair))))
