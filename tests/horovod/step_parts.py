"""A training whose steps have known parts: every batch sleeps, and every step of rank 1, in which the others wait."""

from __future__ import annotations

import pytest

from tests.horovod.conftest import Ended

SLOW_INPUT_S, SLOW_RANK_S = 0.05, 0.2
SLOW = (f"--slow-input={SLOW_INPUT_S}", f"--slow-rank={SLOW_RANK_S}")
"""Options of programs/monitored.py."""


def check_the_parts_of_a_step(ended: Ended, size: int) -> None:
    """Check what metrics.jsonl says on a machine of any load: a busy one makes steps longer, never shorter.

    The ranks' clocks read the end of a step at slightly different times. So what their totals say about each other is
    left to the unit tests, where the clocks are known.
    """
    assert ended.events("epoch")
    for line in ended.events("epoch"):
        parts, own = line["step_seconds"], line["step_seconds_by_rank"]
        assert parts["input"] >= SLOW_INPUT_S and len(own) == size
        assert own[1] >= SLOW_INPUT_S + SLOW_RANK_S
        assert parts["compute"] + parts["input"] == pytest.approx(sum(own) / size, abs=1e-5)  # the digits written
        assert parts["communication"] > 0
