"""What the events of a run say of its checkpoints, whatever else stands there."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.guidelines.checkpoint_history import advise_after, saved_times


def event(kind: str, time: float, **values: Any) -> dict[str, Any]:
    return {"event": kind, "time": time, **values}


RUN = [
    event("start", 0.0),
    event("checkpoint", 105.0, seconds=5.0),
    event("epoch", 150.0, epoch=1, seconds=150.0),
    event("checkpoint", 206.0, seconds=1.0),
    event("resume", 1000.0),
    event("checkpoint", 1103.0, seconds=3.0),
    event("checkpoint", 1206.0, seconds=3.0),
    event("end", 1212.0),
]


def test_the_first_checkpoint_and_the_time_of_a_restart_do_not_count() -> None:
    found = saved_times(RUN)
    assert found is not None
    assert (found.number, found.total_s, found.save_s) == (4, 12.0, 3.0)
    assert found.interval_s == 100.0  # 100 s before the second, and 100 s before the fourth
    assert found.share == pytest.approx(12 / 1212)


def test_the_used_interval_stands_beside_the_best() -> None:
    found = advise_after(RUN, nodes=8, mtbf_days=100.0)
    assert found is not None
    saved, advice = found
    assert advice.saving.save_s == saved.save_s and advice.saving.used_s == saved.interval_s
    assert advice.used_lost is not None and advice.used_lost > advice.lost and not advice.assumed
    assert "every 100 s, as now, loses" in advice.words


def test_one_checkpoint_alone_has_no_interval() -> None:
    found = saved_times([event("checkpoint", 5.0, seconds=2.0)])
    assert found is not None and (found.save_s, found.interval_s, found.share) == (2.0, None, None)


@pytest.mark.parametrize("seconds", [None, "x", 0, -1.0, float("nan"), float("inf"), True, 10**400])
def test_whatever_else_stands_there_is_left_out(seconds: Any) -> None:
    assert saved_times([event("checkpoint", 5.0, seconds=seconds)]) is None
    assert advise_after([event("epoch", 5.0, seconds=9.0)], 1, None) is None
