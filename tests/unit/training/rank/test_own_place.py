"""The place of a rank by the variables of the contract."""

from __future__ import annotations

import os

import pytest

from hpclaunch.training.rank import own_place
from hpclaunch.training.rank.failure import TrainingError

TOLD = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "HPCLAUNCH_RUN_DIR": "/run/x"}


def test_a_rank_is_what_the_script_tells_it() -> None:
    place = own_place.place({**TOLD, "OMP_NUM_THREADS": "1"}, "ddp")
    assert [place[name] for name in ("rank", "size", "local_rank", "local_size")] == [5, 8, 1, 4]
    assert (place["threads"], place["run_dir"]) == (1, "/run/x")


def test_a_program_that_is_started_by_hand_is_alone() -> None:
    place = own_place.place({}, "ddp")
    assert [place[name] for name in ("rank", "size", "local_rank", "local_size")] == [0, 1, 0, 1]
    assert place["run_dir"] == os.path.join(os.getcwd(), "ddp-output")


def test_a_number_that_is_none_is_named() -> None:
    with pytest.raises(TrainingError, match="RANK='x' is no whole number"):
        own_place.place({**TOLD, "RANK": "x"}, "ddp")


def test_a_promised_gpu_that_is_missing_ends_the_rank() -> None:
    own_place.check_gpus({"HPCLAUNCH_EXPECT_GPU": "1"}, 1, "PyTorch")
    own_place.check_gpus({"HPCLAUNCH_EXPECT_GPU": "0"}, 0, "PyTorch")
    with pytest.raises(TrainingError, match="promises GPUs, but PyTorch on"):
        own_place.check_gpus({"HPCLAUNCH_EXPECT_GPU": "1"}, 0, "PyTorch")


def test_gpus_that_were_only_found_are_missed_with_one_warning_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    for local_rank in ("0", "1"):
        own_place.check_gpus({"HPCLAUNCH_EXPECT_GPU": "found", "LOCAL_RANK": local_rank}, 0, "PyTorch", "2.7")
    own_place.check_gpus({"HPCLAUNCH_EXPECT_GPU": "found"}, 1, "PyTorch")
    (line,) = capsys.readouterr().err.splitlines()
    assert "has GPUs, but PyTorch 2.7 sees none: this run computes on CPUs" in line and "--gpus-per-node 0" in line


def test_an_empty_name_of_the_run_directory_is_refused() -> None:
    """Else the files of a run would lie in the working folder, which may be the root of the file system."""
    with pytest.raises(TrainingError, match="HPCLAUNCH_RUN_DIR, which names the run directory, is empty"):
        own_place.place({**TOLD, "HPCLAUNCH_RUN_DIR": ""}, "ddp")
