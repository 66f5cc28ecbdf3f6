"""Gradient lag and groups that update apart, on real ranks; that lag is like one process, test_techniques shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group horovod: numpy is not installed (the extra `train` brings it)", allow_module_level=True)

from tests.horovod.conftest import PROGRAMS
from tests.horovod.test_own_optimizer import AT, PROGRAM, SAVED, STEPS, as_stopped, losses
from tests.tiers import LONG

GROUPS = ("--update-groups=2", "--group-steps=3")


def test_a_lagged_run_continues_on_another_number_of_ranks(data: str, ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A checkpoint has the average of the gradients that wait, which is all that the next step applies of them."""
    options = (data, "--kind=sgd", "--gradient-lag=true")
    both = ranks(*PROGRAM, *options, *SAVED)
    assert len(losses(both)) == STEPS
    assert "gradient noise scale: not measured with --gradient-lag=true" in both.text
    stopped = as_stopped(both, tmp_path / "one")
    one = ranks(*PROGRAM, *options, "--alone=2", size=0, HPCLAUNCH_CHECKPOINT_DIR=stopped)
    assert losses(one) == pytest.approx(losses(both)[AT:], rel=1e-6)
    for kind in [("--gradient-lag=true",), GROUPS] if LONG else []:
        whole = ranks(*PROGRAM, data, "--kind=adam", *kind, *SAVED)
        folder = as_stopped(whole, tmp_path / kind[0])
        again = ranks(*PROGRAM, data, "--kind=adam", *kind, *SAVED, HPCLAUNCH_CHECKPOINT_DIR=folder)
        assert losses(again) == losses(whole)[AT:]


def test_groups_train_apart_and_exchange_their_weights(ranks) -> None:  # type: ignore[no-untyped-def]
    """Four ranks in two groups: with an exchange after every step SGD with momentum is full data parallel."""
    ended = ranks(PROGRAMS / "update_groups.py", size=4, OMP_NUM_THREADS="1")
    assert ended.code == 0, ended.text

    def held(every: int) -> list[Any]:
        return [np.load(ended.run_dir / f"every-{every}-{rank}.npz") for rank in range(4)]

    every_step, apart = held(1), held(4)
    for rank in every_step:
        np.testing.assert_array_equal(rank["ranks"], every_step[0]["ranks"])
        np.testing.assert_allclose(rank["ranks"], rank["alone"], atol=1e-6)
    for step in range(6):
        own = [rank["ranks"][step] for rank in apart]
        for first, second in ((0, 1), (2, 3)):  # a group averages its gradients in every step
            np.testing.assert_array_equal(own[first], own[second])
        assert np.array_equal(own[0], own[2]) == (step == 3), step
    # The state of the optimizer stays a group's own, until it is united for a checkpoint.
    before, united = [rank["before"] for rank in apart], [rank["united"] for rank in apart]
    assert not np.array_equal(before[0], before[2])
    for rank in united:
        np.testing.assert_allclose(rank, (before[0] + before[2]) / 2, atol=1e-7)
        np.testing.assert_array_equal(rank, united[0])
