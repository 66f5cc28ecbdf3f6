"""A training whose steps have known parts: every batch sleeps, and every step of rank 1, in which the others wait."""

from __future__ import annotations

import math

import pytest

from tests.horovod.conftest import Ended

SLOW_INPUT_S, SLOW_RANK_S = 0.05, 0.2
SLOW = (f"--slow-input={SLOW_INPUT_S}", f"--slow-rank={SLOW_RANK_S}")
"""Options of programs/monitored.py."""


def check_the_parts_of_a_step(ended: Ended, size: int, samples: int, batch: int) -> None:
    """Check what metrics.jsonl says; ``batch``: samples of a rank in a step. A busy machine makes the steps longer."""
    assert ended.events("epoch")
    for line in ended.events("epoch"):
        parts, own = line["step_seconds"], line["step_seconds_by_rank"]
        assert parts["input"] >= SLOW_INPUT_S and len(own) == size
        assert own[1] >= SLOW_INPUT_S + SLOW_RANK_S
        mean = sum(own) / size
        assert parts["communication"] >= max(own) - mean - 1e-5  # up to the digits that are written
        assert parts["compute"] + parts["input"] == pytest.approx(mean, abs=1e-5)
        measured = math.ceil(math.ceil(samples / size) / batch) - 1  # steps, without the first
        assert sum(parts.values()) * measured <= line["seconds"] + 1e-3
