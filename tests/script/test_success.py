"""When a script calls its run completed: only after every rank's own shell has reported 0."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.builders import with_library

FAILED_NODE = "srun: error: Node failure on n3"
# The script's programs; sleep counts the seconds that it waits for files of a shared file system.
STAND_INS = """
scontrol() { echo "scontrol $*" >> asked; echo "JobId=7 Restarts=$AGAIN PreemptTime=$PREEMPTED Restarts2=0"; }
squeue() { echo RUNNING; }
sleep() { echo "$*" >> slept; eval "${LATE-}"; }
"""
# A launcher that starts the named ranks with their codes (NUMBER:CODE), one after the other, and ends with 0.
LAUNCH = """
launcher() {
  for one in $ENDED; do N=${one%:*} CODE=${one#*:} "$@"; done
  printf "$WORDS" >&2
}
rank() { rank_log "$N"; return "$CODE"; }
begin slurm restarts=$RESTARTS restart_by=requeue
launch launcher
finish
"""


def launched(
    folder: Path, ended: str, world: int = 2, text: str = LAUNCH, **known: str
) -> subprocess.CompletedProcess[str]:
    """A script whose launcher ends with 0 after these ranks; its log is the file ``log``."""
    (folder / "job.sh").touch()
    os.utime(folder / "job.sh", (0, 0))
    (folder / "asked").touch()
    told = {"PREEMPTED": "None", "AGAIN": "0", "RESTARTS": "0", "WORDS": "", **known}
    return with_library(
        f"cd {folder}; exec 2>> log\n{STAND_INS}{text}",
        HPCLAUNCH_RUN_DIR=str(folder),
        HPCLAUNCH_WORLD_SIZE=str(world),
        SLURM_JOB_ID="7",
        ENDED=ended,
        **told,
    )


def marks(folder: Path, start: str = "7.0") -> tuple[str, str]:
    """The script's exit code and its mark of success, as they stand in the run directory."""
    files = [folder / f"attempts/{start}/{name}" for name in ("exit-code", "completed")]
    code, mark = (file.read_text().strip() if file.exists() else "" for file in files)
    return code, mark


def said(folder: Path) -> str:
    return (folder / "log").read_text()


@pytest.mark.parametrize(("ended", "world"), [("1:0 0:0", 2), ("0:0", 1), ("2:0 0:0 1:0 3:0", 4)])
def test_a_run_is_complete_when_every_rank_has_ended_with_0(tmp_path: Path, ended: str, world: int) -> None:
    assert launched(tmp_path, ended, world).returncode == 0, said(tmp_path)
    assert marks(tmp_path) == ("0", f"7.0 {world}")
    assert said(tmp_path) == ""
    assert not (tmp_path / "slept").exists()
    assert not (tmp_path / "attempts/7.0/ranks").exists(), "a job of many ranks leaves no file for each"


@pytest.mark.parametrize(
    ("ended", "world", "words"),
    [
        ("", 2, "2 of 2 ranks did not report that they ended with 0 (0 1)"),
        ("0:0", 2, "1 of 2 ranks did not report that they ended with 0 (1)"),
        ("1:0", 2, "1 of 2 ranks did not report that they ended with 0 (0)"),
        ("0:0 2:0", 2, "1 of 2 ranks did not report that they ended with 0 (1)"),
        ("", 1, "1 of 1 ranks did not report that they ended with 0"),
        ("", 9, "9 of 9 ranks did not report that they ended with 0 (0 1 2 3 4 5 6 7 ...)"),
        ("", 8, "8 of 8 ranks did not report that they ended with 0 (0 1 2 3 4 5 6 7)"),
    ],
)
def test_a_launchers_0_without_all_ranks_is_no_success(tmp_path: Path, ended: str, world: int, words: str) -> None:
    done = launched(tmp_path, ended, world)
    assert (done.returncode, marks(tmp_path)) == (69, ("69", ""))
    assert said(tmp_path).endswith(
        f"hpclaunch: this start has not completed the run: the launcher ended with 0, but {words}\n"
    )


@pytest.mark.parametrize(("full", "ranks"), [((1,), "1 of 2 ranks could not be written (1)"), ((0, 1), "2 of 2")])
def test_lost_output_of_a_rank_is_no_success(tmp_path: Path, full: tuple[int, ...], ranks: str) -> None:
    (tmp_path / "logs").mkdir()
    for number in full:
        (tmp_path / f"logs/rank-{number}.out").symlink_to("/dev/full")  # each write to it: no space left on device
    text = LAUNCH.replace('rank_log "$N";', 'rank_log "$N"; echo "of rank $N";')
    done = launched(tmp_path, "0:0 1:0", text=text, RESTARTS="1")
    assert (done.returncode, marks(tmp_path)) == (74, ("74", ""))
    words = (tmp_path / "attempts/7.0/not-recorded").read_text()
    assert words.startswith(f"the log is incomplete: output of {ranks}") and words.endswith(". Is the disk full?\n")
    assert said(tmp_path).endswith(f"hpclaunch: this start has not completed the run: {words}")
    assert "No space left on device" in said(tmp_path) and "requeue" not in (tmp_path / "asked").read_text()


def test_lost_output_of_a_rank_that_failed_leaves_it_its_code(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/rank-1.out").symlink_to("/dev/full")
    text = LAUNCH.replace('rank_log "$N";', 'rank_log "$N"; echo "of rank $N";')
    assert launched(tmp_path, "0:0 1:7", text=text).returncode == 7
    assert (tmp_path / "attempts/7.0/ranks/1.lost").exists()


def test_a_process_that_a_rank_leaves_behind_loses_it_no_success(tmp_path: Path) -> None:
    """It holds the rank's output open; the copier is ended with the rank, and has written all that the rank wrote."""
    text = LAUNCH.replace('rank_log "$N";', 'rank_log "$N"; command sleep 20 & echo "of rank $N";')
    assert launched(tmp_path, "0:0", world=1, text=text).returncode == 0, said(tmp_path)
    assert (tmp_path / "logs/rank-0.out").read_text() == "of rank 0\n"


def test_a_rank_that_failed_decides_although_its_launcher_ends_with_0(tmp_path: Path) -> None:
    done = launched(tmp_path, "0:0 1:7")
    assert (done.returncode, marks(tmp_path)) == (7, ("7", ""))
    assert (tmp_path / "attempts/7.0/ranks/1").read_text() == "7\n"


def test_a_rank_file_with_another_code_is_no_success(tmp_path: Path) -> None:
    """As where the file of the first failure could not be written."""
    text = LAUNCH.replace("launch launcher", 'launch launcher; rm -f "$HPCLAUNCH_EXIT_FILE"')
    done = launched(tmp_path, "0:0 1:7", text=text)
    assert (done.returncode, marks(tmp_path)) == (69, ("69", ""))


def test_ranks_without_numbers_are_counted_by_their_files(tmp_path: Path) -> None:
    for count, code in ((3, 0), (2, 69)):
        folder = tmp_path / str(count)
        folder.mkdir()
        text = LAUNCH.replace('rank_log "$N"', 'rank_log ""')
        assert launched(folder, " ".join(["x:0"] * count), world=3, text=text).returncode == code, said(folder)
    assert "1 of 3 ranks did not report that they ended with 0\n" in said(folder)
    assert len(list((folder / "attempts/7.0/ranks").iterdir())) == 2


def test_every_worker_of_a_search_is_counted(tmp_path: Path) -> None:
    """HPCLAUNCH_WORLD_SIZE is that of a trial, which is one rank."""
    for count, code, mark in ((3, 0, "7.0 3"), (2, 69, "")):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "worker").write_text("#!/bin/sh\nexit $CODE\n")
        (folder / "worker").chmod(0o700)
        text = LAUNCH.replace("launch launcher", "launch_search 3 ./worker 1 1 0 launcher")
        assert launched(folder, " ".join(["x:0"] * count), world=1, text=text).returncode == code, said(folder)
        assert marks(folder) == (str(code), mark)
    assert "1 of 3 ranks did not report that they ended with 0\n" in said(folder)


def test_a_worker_that_is_killed_begins_again_three_times_and_then_has_failed(tmp_path: Path) -> None:
    (tmp_path / "worker").write_text("#!/bin/sh\necho >> began\nkill -s KILL $$\n")
    (tmp_path / "worker").chmod(0o700)
    text = LAUNCH.replace("launch launcher", "launch_search 1 ./worker 1 1 0 launcher")
    done = launched(tmp_path, "x:0", world=1, text=text)
    assert (done.returncode, marks(tmp_path)) == (137, ("137", "")), said(tmp_path)
    assert (tmp_path / "began").read_text() == "\n" * 4


def test_a_file_that_the_file_system_shows_late_is_waited_for(tmp_path: Path) -> None:
    late = '[ "$(grep -c . slept)" -lt 3 ] || echo 0 > attempts/7.0/ranks/1'
    assert launched(tmp_path, "0:0", LATE=late).returncode == 0, said(tmp_path)
    assert (tmp_path / "slept").read_text() == "1\n" * 3


def test_nobody_waits_longer_than_a_file_system_keeps_what_it_knew(tmp_path: Path) -> None:
    assert launched(tmp_path, "0:0").returncode == 69
    assert (tmp_path / "slept").read_text() == "1\n" * 65
    (tmp_path / "one").mkdir()
    assert launched(tmp_path / "one", "", world=1).returncode == 69
    assert not (tmp_path / "one/slept").exists(), "the only rank is on the script's own node"


@pytest.mark.parametrize(
    "words",
    [
        FAILED_NODE,
        "slurmstepd: error: *** JOB 7 ON n3 CANCELLED AT 2026-11-27T23:54:10 DUE TO NODE FAILURE",
        "slurmstepd-n3: error: *** STEP 7.0 ON n3 CANCELLED AT 2026-11-27T23:54:10 DUE TO NODE FAILURE",
    ],
)
def test_what_slurm_says_of_a_failed_node_counts_more_than_all_ranks(tmp_path: Path, words: str) -> None:
    done = launched(tmp_path, "0:0 1:0", WORDS=f"an epoch\\n{words}, and more\\n")
    assert (done.returncode, marks(tmp_path)) == (69, ("69", ""))
    assert f"the launcher ended with 0, but the log says: {words}" in said(tmp_path)
    assert not (tmp_path / "slept").exists()


def test_what_slurm_said_of_an_earlier_start_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"{FAILED_NODE}\n")
    assert launched(tmp_path, "0:0 1:0", WORDS=f"the program says: {FAILED_NODE}\\n").returncode == 0, said(tmp_path)


@pytest.mark.parametrize(("marks_of_it", "code"), [("training", 69), ("training trained", 0), ("", 0)])
def test_a_training_of_the_library_must_have_reached_its_end(tmp_path: Path, marks_of_it: str, code: int) -> None:
    text = LAUNCH.replace("return", f"for mark in {marks_of_it}; do : > attempts/7.0/$mark; done; return")
    assert launched(tmp_path, "0:0 1:0", text=text).returncode == code
    assert ("but its training did not reach its end" in said(tmp_path)) is (code != 0)


@pytest.mark.parametrize(
    ("ended", "known", "restarted"),
    [
        ("0:0", {}, True),
        ("0:0 1:0", {"WORDS": f"{FAILED_NODE}\\n"}, True),
        ("0:69 1:0", {}, False),
        ("0:0 1:0", {}, False),
    ],
    ids=["a rank is missing", "a node failed", "the program's own 69", "completed"],
)
def test_what_is_not_proven_is_started_again_like_the_failure_of_a_node(
    tmp_path: Path, ended: str, known: dict[str, str], restarted: bool
) -> None:
    launched(tmp_path, ended, RESTARTS="2", **known)
    assert ("scontrol requeue 7\n" in (tmp_path / "asked").read_text()) is restarted
    assert ("; requeueing the job" in said(tmp_path)) is restarted


@pytest.mark.parametrize(("limit", "restarted"), [(3, True), (2, False)])
def test_it_counts_against_the_limit_of_restarts(tmp_path: Path, limit: int, restarted: bool) -> None:
    for number in (1, 2):
        (tmp_path / f"attempts/5.{number}").mkdir(parents=True)
        (tmp_path / f"attempts/5.{number}/started").touch()
    done = launched(tmp_path, "0:0", RESTARTS=str(limit))
    assert done.returncode == 69
    assert ("scontrol requeue" in (tmp_path / "asked").read_text()) is restarted
    assert ("not started again: its limit is 2 restarts" in said(tmp_path)) is not restarted


@pytest.mark.parametrize("ended", ["0:75 1:75", "0:0"], ids=["saved", "not proven"])
def test_a_job_that_slurm_has_queued_again_is_not_called_lost_and_not_requeued_twice(
    tmp_path: Path, ended: str
) -> None:
    """As after `scontrol requeue`, or the failure of a node."""
    launched(tmp_path, ended, RESTARTS="2", AGAIN="1")
    assert "; the scheduler has queued this job again\n" in said(tmp_path)
    assert "scontrol requeue" not in (tmp_path / "asked").read_text()
    assert "not started again" not in said(tmp_path) and "hpclaunch resume" not in said(tmp_path)


def test_a_restart_that_slurm_made_before_this_start_is_none_after_it(tmp_path: Path) -> None:
    launched(tmp_path, "0:75 1:75", RESTARTS="2", AGAIN="1", SLURM_RESTART_COUNT="1")
    assert "scontrol requeue 7\n" in (tmp_path / "asked").read_text()


@pytest.mark.parametrize("mark", ["completed", "exit-code"])
def test_a_mark_that_cannot_be_written_is_said(tmp_path: Path, mark: str) -> None:
    text = LAUNCH.replace("launch launcher", f"mkdir attempts/7.0/{mark}; launch launcher")
    done = launched(tmp_path, "0:0 1:0", text=text)
    if mark == "completed":
        assert (done.returncode, marks_code(tmp_path)) == (74, "74")
        assert "completed cannot be written. Is the disk full?" in said(tmp_path)
    else:
        assert done.returncode == 0
        assert "the exit code 0 cannot be written to" in said(tmp_path)


def marks_code(folder: Path) -> str:
    return (folder / "attempts/7.0/exit-code").read_text().strip()


def test_a_rank_that_cannot_write_its_file_is_no_success_and_no_reason_to_start_again(tmp_path: Path) -> None:
    text = LAUNCH.replace("launch launcher", "ln -s /dev/full attempts/7.0/ranks/1; launch launcher")
    # What is left on a full disk: the file, and nothing in it.
    text = text.replace("printf", "rm -f attempts/7.0/ranks/1; : > attempts/7.0/ranks/1; printf")
    done = launched(tmp_path, "0:0 1:0", text=text, RESTARTS="2")
    assert (done.returncode, marks(tmp_path)) == (74, ("74", ""))
    assert f"the exit code of this rank, 0, cannot be written to {tmp_path}/attempts/7.0/ranks/1" in done.stdout
    assert "scontrol requeue" not in (tmp_path / "asked").read_text()


def test_a_start_whose_job_had_its_number_before_gets_a_name_of_its_own(tmp_path: Path) -> None:
    """A cluster that was set up again counts from 1."""
    before = tmp_path / "attempts/7.0"
    before.mkdir(parents=True)
    (before / "first-failure").write_text("3\n")
    assert launched(tmp_path, "0:0 1:0").returncode == 0, said(tmp_path)
    assert marks(tmp_path, "7.1") == ("0", "7.1 2")
    (claim,) = (tmp_path / "claims").iterdir()
    assert claim.read_text().startswith("7.1 ")
    assert [file.name for file in before.iterdir()] == ["first-failure"]
