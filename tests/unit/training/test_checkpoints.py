"""Checkpoints: always a whole one, the last two kept, a full disk said in words."""

from __future__ import annotations

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

import subprocess
import sys
from pathlib import Path

from hpclaunch.training import checkpoints
from hpclaunch.training.failure import TrainingError


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoints")
    assert checkpoints.latest(folder) is None
    for epoch in (8, 9, 10, 11):
        checkpoints.save(folder, epoch, {"weight-000": np.full(3, epoch, np.float32)})
    assert sorted(path.name for path in Path(folder).iterdir()) == ["epoch-0010.npz", "epoch-0011.npz"]
    newest = checkpoints.latest(folder)
    assert newest is not None
    with np.load(newest, allow_pickle=False) as held:
        assert held["epoch"] == 11 and list(held["weight-000"]) == [11, 11, 11]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.npz").write_text("x")
    (tmp_path / "epoch-0099.npz.partial").write_text("x")
    checkpoints.save(str(tmp_path), 1, {"a": np.zeros(1)})
    assert checkpoints.latest(str(tmp_path)) == str(tmp_path / "epoch-0001.npz")
    assert (tmp_path / "mine.npz").exists()


FULL_DISK = """
import resource, sys
import numpy as np
from hpclaunch.training import checkpoints
checkpoints.save(sys.argv[1], 1, {"a": np.zeros(10)})
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # as a quota does: writing stops in the middle of the file
try:
    checkpoints.save(sys.argv[1], 2, {"a": np.zeros(100000)})
except checkpoints.TrainingError as error:
    print(error)
"""


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert "the disk is full or the quota is used up" in done.stdout, done.stderr
    assert f"the last good checkpoint is {tmp_path / 'epoch-0001.npz'}" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-0001.npz"]
    with np.load(tmp_path / "epoch-0001.npz", allow_pickle=False) as held:
        assert held["a"].shape == (10,)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r"cannot write the checkpoint .*there is no earlier checkpoint"):
        checkpoints.save(str(tmp_path / "file" / "checkpoints"), 1, {"a": np.zeros(1)})
