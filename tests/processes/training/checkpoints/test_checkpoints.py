"""Checkpoints where nothing more can be written: the last good one stays, and the error names it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="group horovod: numpy is not installed (the extra `train` brings it)")

from hpclaunch.training.checkpoints import folders
from hpclaunch.training.rank.failure import TrainingError
from tests.unit.training.checkpoints.test_checkpoints import FILES, save

WRITER = """
import sys, numpy as np
from hpclaunch.training.checkpoints import folders as checkpoints
folder, limit = sys.argv[1], int(sys.argv[2])
if limit:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    partial = checkpoints.begin(folder, 2)
    checkpoints.write(partial, "shared.npz", [("a", np.zeros(400000))])
except checkpoints.TrainingError as error:
    checkpoints.abandon(partial)
    print(error)
    sys.exit(3)
"""


def written(folder: Path, limit: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WRITER, str(folder), str(limit)], capture_output=True, text=True)


def test_a_file_that_may_not_grow_stops_it_and_leaves_the_last_good_one(tmp_path: Path) -> None:
    good = save(tmp_path, 1)
    done = written(tmp_path, 100_000)
    assert done.returncode == 3, done.stderr
    assert "the disk is full or the quota is used up" in done.stdout and str(good) in done.stdout
    assert sorted(os.listdir(tmp_path)) == ["step-00000001"]
    assert folders.problem(str(good), FILES) == ""


def test_a_full_disk_stops_it_and_leaves_the_last_good_one(tmp_path: Path) -> None:
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "full", tmp_path]).returncode:
        pytest.skip("group slurm: needs root to mount a small file system")
    try:
        good = save(tmp_path, 1)
        done = written(tmp_path, 0)
        assert done.returncode == 3, done.stderr
        assert "No space left on device" in done.stdout and str(good) in done.stdout
        assert sorted(os.listdir(tmp_path)) == ["step-00000001"]
        assert folders.problem(str(good), FILES) == ""
        subprocess.run(["mount", "-o", "remount,ro", tmp_path], check=True)
        with pytest.raises(TrainingError, match=r"cannot be written \(Read-only file system\)"):
            folders.begin(str(tmp_path), 3)
        assert folders.problem(str(good), FILES) == ""
    finally:
        subprocess.run(["umount", tmp_path], check=True)
