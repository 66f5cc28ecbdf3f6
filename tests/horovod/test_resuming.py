"""A run that was stopped, killed and damaged ends with the very weights of one that was left alone, on two ranks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.horovod.conftest import PROGRAMS, Ended

PROGRAM = PROGRAMS / "resumable.py"
EXACT = {"TF_DETERMINISTIC_OPS": "1", "OMP_NUM_THREADS": "1"}
ADASCALE = ("--scale-learning-rate=adascale", "--optimizer=adam", "--learning-rate=0.01", "--decay=cosine")
Ranks = Callable[..., Ended]


def same_final_state(one: Ended, other: Ended, size: int) -> None:
    for rank in range(size):
        with np.load(one.run_dir / f"final-{rank}.npz") as a, np.load(other.run_dir / f"final-{rank}.npz") as b:
            assert a.files == b.files and len(a.files) > 20
            for name in a.files:
                np.testing.assert_array_equal(a[name], b[name], err_msg=f"rank {rank} {name}")


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def undisturbed(ranks: Ranks) -> Ended:
    ended = ranks(PROGRAM, *ADASCALE, **EXACT)
    assert ended.code == 0, ended.text
    return ended


def test_stopped_killed_and_damaged_it_ends_with_the_weights_of_an_undisturbed_run(
    ranks: Ranks, undisturbed: Ended, tmp_path: Path
) -> None:
    kept = {**EXACT, "HPCLAUNCH_CHECKPOINT_DIR": str(tmp_path)}
    # 13 steps an epoch. Asked to stop in the first epoch, one rank alone: both save at the same step.
    stopped = ranks(PROGRAM, *ADASCALE, "--event=1:5:term", "--step-seconds=0.1", **kept)
    assert (stopped.run_dir / "exit-code").read_text() == "75\n", stopped.text
    assert stopped.speakers("asked to stop; saved at epoch 1, step") == ["0"]
    first = json.loads((tmp_path / checkpoints(tmp_path)[0] / "checkpoint.json").read_text())
    assert 5 <= first["epoch_step"] < 13 and first["epoch"] == 0

    # Killed in the second epoch, with a checkpoint every four steps.
    killed = ranks(PROGRAM, *ADASCALE, "--event=1:19:kill", "--checkpoint-steps=4", **kept)
    assert killed.code != 0
    assert killed.speakers("resuming from") == ["0"]
    assert checkpoints(tmp_path) == ["step-00000013", "step-00000016"]

    # The newest is truncated: the one before it, an epoch's end, is taken, and rank 0 says so.
    newest = tmp_path / "step-00000016" / "rank-0001.npz"
    os.truncate(newest, newest.stat().st_size - 100)
    ended = ranks(PROGRAM, *ADASCALE, **kept)
    assert ended.code == 0, ended.text
    assert ended.speakers("warning: the data") == [], ended.text
    assert ended.speakers("step-00000016 is damaged (rank 1: rank-0001.npz has") == ["0"]
    assert [line["steps_made"] for line in ended.events("resume")] == [13]
    assert [line["epoch"] for line in ended.events("epoch")] == [2, 3]
    same_final_state(undisturbed, ended, 2)


def test_on_more_ranks_it_goes_on_at_the_same_part_of_the_epoch_and_says_what_follows(
    ranks: Ranks, tmp_path: Path
) -> None:
    options = ("--precision=float16", "--optimizer=sgd", "--scale-learning-rate=linear")
    kept = {**EXACT, "HPCLAUNCH_CHECKPOINT_DIR": str(tmp_path)}
    stopped = ranks(PROGRAM, *options, "--event=0:16:term", "--step-seconds=0.1", size=0, **kept)
    assert stopped.code == 75, stopped.text
    facts = json.loads((tmp_path / checkpoints(tmp_path)[-1] / "checkpoint.json").read_text())
    ended = ranks(PROGRAM, *options, "--synthetic-samples=9", **kept)
    assert ended.code == 0, ended.text
    said = "warning: the data are not those of the checkpoint (random-9, then random-4096); in the interrupted epoch"
    assert ended.speakers(said) == ["0"], ended.text
    assert ended.speakers("world size 2 instead of 1: the batch size per rank stays, so the global batch is 16") == [
        "0"
    ]
    [line] = ended.events("resume")
    assert (line["epoch"], line["step"]) == (0, facts["epoch_step"] * 13 // 26)
    # Steps that were made alone, and those of two ranks from the same part of the epoch on.
    [end] = ended.events("end")
    assert end["steps"] == facts["step"] + 3 * 13 - line["step"]


def test_weights_that_are_no_numbers_are_never_saved(ranks: Ranks, tmp_path: Path) -> None:
    kept = {**EXACT, "HPCLAUNCH_CHECKPOINT_DIR": str(tmp_path)}
    options = ("--optimizer=sgd", "--learning-rate=1e30", "--batch-norm=none", "--checkpoint-steps=1")
    ended = ranks(PROGRAM, *options, **kept)
    assert ended.speakers("training has diverged") == ["0"], ended.text
    assert (ended.run_dir / "exit-code").read_text() == "1\n"
    for name in checkpoints(tmp_path):
        with np.load(tmp_path / name / "shared.npz") as shared:
            weights = [shared[key] for key in shared.files if key.startswith("weight-")]
        assert weights and all(np.isfinite(weight).all() for weight in weights), name
