"""Quantile bounds of past waits: known numbers of order statistics, coverage by simulation, and who counts as alike."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from hpclaunch.guidelines.queue import Past, upper_bound, wait_for

HOUR = 3600


@pytest.mark.parametrize(
    ("count", "quantile", "place"),
    # For the median P(Binomial(5, 1/2) <= 4) = 31/32; for 0.95 the first count is 59, as 1 - 0.95^59 = 0.9515.
    [(4, 0.5, None), (5, 0.5, 5), (8, 0.5, 7), (58, 0.95, None), (59, 0.95, 59), (100, 0.95, 99), (5000, 0.5, 2559)],
)
def test_the_bound_is_the_order_statistic_worked_out_by_hand(count: int, quantile: float, place: int | None) -> None:
    assert upper_bound(range(1, count + 1), quantile) == place


@pytest.mark.parametrize(("quantile", "count"), [(0.5, 20), (0.95, 100)])
def test_the_bound_is_above_the_true_quantile_as_often_as_it_says(quantile: float, count: int) -> None:
    chance = random.Random(1)
    held = 0
    for _ in range(2000):
        waits = sorted(chance.random() for _ in range(count))
        bound = upper_bound(waits, quantile)
        held += bound is not None and bound >= quantile
    assert 0.94 <= held / 2000 <= 0.99


@pytest.mark.parametrize("quantile", [0.0, 1.0, -1.0])
def test_a_quantile_is_between_0_and_1(quantile: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        upper_bound([1.0], quantile)


def jobs(waits: Sequence[float], **changes: object) -> list[Past]:
    like = {"nodes": 2, "partition": "batch", "qos": "normal", "walltime": HOUR, **changes}
    return [Past(waited_s=wait, **like) for wait in waits]  # type: ignore[arg-type]


def test_only_jobs_alike_count() -> None:
    own = jobs([10.0] * 5)
    others = [
        *jobs([9000.0] * 50, nodes=4),
        *jobs([9000.0] * 50, nodes=1),
        *jobs([9000.0] * 50, partition="long"),
        *jobs([9000.0] * 50, qos="low"),
        *jobs([9000.0] * 50, walltime=30 * HOUR),
        *jobs([9000.0] * 50, walltime=None),
    ]
    found = wait_for([*others, *own], 2, HOUR, "batch", "normal")
    assert found is not None and (found.middle_s, found.most_s) == (10.0, None)
    assert "2 nodes: half of such jobs wait at most 10 s (of similar walltime)" in found.reason.verdict
    three = wait_for([*others, *own], 3, HOUR, "batch", "normal")  # the same power of two
    assert three is not None and three.middle_s == 10.0


def test_where_they_are_too_few_others_stand_in_and_it_says_so() -> None:
    short, low = jobs([50.0] * 5, walltime=60), jobs([70.0] * 59, qos="low")
    found = wait_for([*jobs([10.0] * 4), *short, *low], 2, HOUR, "batch", "normal")
    assert found is not None and found.middle_s == 50.0 and "(of any walltime)" in found.reason.verdict
    found = wait_for([*jobs([10.0] * 4), *low], 2, HOUR, "batch", "normal")
    assert found is not None and found.most_s == 70.0 and "any walltime and QOS" in found.reason.verdict
    assert wait_for(jobs([10.0] * 4), 2, HOUR, "batch", "normal") is None
