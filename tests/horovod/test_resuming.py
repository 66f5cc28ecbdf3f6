"""A run that was stopped, killed and damaged ends with the very weights of one that was left alone, on two ranks."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.horovod.conftest import PROGRAMS, Ended
from tests.tiers import LONG

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


@pytest.fixture(scope="module")
def stopped(ranks: Ranks) -> Ended:
    """One rank alone is asked to stop, in the first epoch."""
    ended = ranks(PROGRAM, *ADASCALE, "--event=1:5:term", "--step-seconds=0.1", **EXACT)
    assert (ended.run_dir / "exit-code").read_text() == "75\n", ended.text
    return ended


def test_stopped_killed_and_damaged_it_ends_with_the_weights_of_an_undisturbed_run(
    ranks: Ranks, undisturbed: Ended, stopped: Ended, tmp_path: Path
) -> None:
    kept = {**EXACT, "HPCLAUNCH_CHECKPOINT_DIR": str(tmp_path)}
    # 13 steps an epoch. Both ranks have saved at the same step.
    assert stopped.speakers("asked to stop; saved at epoch 1, step") == ["0"]
    shutil.copytree(stopped.run_dir / "checkpoints", tmp_path, dirs_exist_ok=True)
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


def test_on_another_number_of_ranks_every_rank_gets_the_mean_of_all_ranks_statistics(
    ranks: Ranks, stopped: Ended, tmp_path: Path
) -> None:
    kept = {**EXACT, "HPCLAUNCH_CHECKPOINT_DIR": str(tmp_path)}
    shutil.copytree(stopped.run_dir / "checkpoints", tmp_path, dirs_exist_ok=True)
    before = tmp_path / checkpoints(tmp_path)[-1]
    own = []
    for rank in range(2):
        with np.load(before / f"rank-{rank:04d}.npz") as held:
            own.append([held[name] for name in sorted(held.files) if name.startswith("statistic-")])
    assert len(own[0]) == 2 and all((one != other).any() for one, other in zip(*own, strict=True))

    resumed = ranks(PROGRAM, *ADASCALE, "--epochs=1", size=3, **kept)
    assert resumed.code == 0, resumed.text
    for rank in range(3):
        with np.load(resumed.run_dir / f"restored-{rank}.npz") as held:
            found = [held[name] for name in sorted(held.files)]
        for mean, several in zip(found, zip(*own, strict=True), strict=True):
            np.testing.assert_allclose(mean, np.mean(several, axis=0), rtol=1e-6, err_msg=f"rank {rank}")


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


# A small network has what matters: frozen weights and statistics, many more than a rank's own file may hold.
FROZEN = 23_587_712 if LONG else 666_752


def test_frozen_weights_are_saved_once_and_no_rank_changes_them(ranks: Ranks, tmp_path: Path) -> None:
    """Of a network the last layer is trained. On three ranks, where a mean of equal numbers is rounded."""
    random = np.random.RandomState(1)
    arrays = {"x_train": random.randint(0, 256, (12, 32, 32, 3), "uint8"), "y_train": np.arange(12)}
    np.savez(tmp_path / "images.npz", **arrays, x_test=arrays["x_train"][:3], y_test=np.arange(3))
    network = f"--resnet50={str(LONG).lower()}"
    ended = ranks(PROGRAMS / "frozen.py", f"--data-dir={tmp_path / 'images.npz'}", network, size=3)
    assert ended.code == 0, ended.text
    within, at_the_end = [ended.run_dir / "checkpoints" / f"step-0000000{step}" for step in (1, 2)]
    for folder in (within, at_the_end):
        assert all((folder / f"rank-{rank:04d}.npz").stat().st_size < 1e6 for rank in range(3))
    with np.load(within / "shared.npz") as one, np.load(at_the_end / "shared.npz") as other:
        frozen = [name for name in one.files if name.startswith("statistic-")]
        assert sum(one[name].size for name in frozen) == FROZEN  # all but the last layer
        for name in frozen:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)
        assert (one["weight-000"] != other["weight-000"]).any()
