"""What a script leaves when SIGTERM ends it, so that its end is not taken for a failure, nor for success."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import with_library

SET_UP = "begin local\ntrue\nkill -s TERM $$\nsleep 60"
LAUNCHED = """signal_to=group
begin local
(until [ -e ready ]; do sleep 0.05; done; kill -s TERM $$) &
rank() { touch ready; exec sleep 60; }
launch
finish"""


@pytest.mark.parametrize("text", [SET_UP, LAUNCHED], ids=["during the set-up", "while the ranks run"])
def test_a_script_that_got_sigterm_says_so_and_ends_with_143(tmp_path: Path, text: str) -> None:
    done = with_library(f"cd {tmp_path}\n{text}", HPCLAUNCH_RUN_DIR=str(tmp_path), SUBMITIT_LOCAL_JOB_ID="7")
    assert done.returncode == 143, done.stderr
    start = tmp_path / "attempts/7.0"
    assert (start / "exit-code").read_text() == "143\n"
    assert (start / "terminated").read_text().strip().isdigit()


def test_the_time_of_the_first_sigterm_stays(tmp_path: Path) -> None:
    """Slurm sends it again at the end of the walltime, however early somebody has cancelled the job."""
    done = with_library(f"attempt={tmp_path}; SECONDS=5; mark_terminated; SECONDS=900; mark_terminated")
    assert ((tmp_path / "terminated").read_text(), done.stderr) == ("5\n", "")


def test_a_script_that_fails_by_itself_leaves_no_such_marker(tmp_path: Path) -> None:
    text = "begin local\nrank() { bash -c 'kill -s TERM $$'; }\nlaunch\nfinish"
    done = with_library(text, HPCLAUNCH_RUN_DIR=str(tmp_path), SUBMITIT_LOCAL_JOB_ID="7")
    assert done.returncode == 143, done.stderr
    assert (tmp_path / "attempts/7.0/exit-code").read_text() == "143\n"
    assert not (tmp_path / "attempts/7.0/terminated").exists()


UNDER_A_LAUNCHER = """signal_to=ranks
begin local
(until [ -e ready ]; do sleep 0.05; done; kill -s TERM $$) &
starter() { "$@" & trap "kill -s KILL $!" TERM; wait "$!"; }
rank() { bash -c "trap 'echo saved; exit 75' TERM; : > ready; while :; do sleep 0.05; done"; }
launch starter
finish"""


def test_the_ranks_alone_get_a_signal_under_a_launcher_that_would_kill_them(tmp_path: Path) -> None:
    """As horovodrun would."""
    text = f"cd {tmp_path}\n{UNDER_A_LAUNCHER}"
    done = with_library(text, HPCLAUNCH_RUN_DIR=str(tmp_path), SUBMITIT_LOCAL_JOB_ID="7")
    assert (done.returncode, done.stdout) == (75, "saved\n"), done.stderr


# The rank that follows writes its code when its pause is over; here the pause lasts until the other has written.
TWO_RANKS = """sleep() { : > follows; until [ -s "$HPCLAUNCH_EXIT_FILE" ]; do command sleep 0.05; done; }
(rank() { return FOLLOWS; }; run_rank) &
(rank() { until [ -e follows ]; do command sleep 0.05; done; return 137; }; run_rank)
wait"""


@pytest.mark.parametrize("follows", [1, 14])
def test_a_rank_that_was_killed_counts_before_one_that_ended_because_of_it(tmp_path: Path, follows: int) -> None:
    file = tmp_path / "first-failure"
    text = f"cd {tmp_path}\n{TWO_RANKS.replace('FOLLOWS', str(follows))}"
    done = with_library(text, HPCLAUNCH_RUN_DIR=str(tmp_path), HPCLAUNCH_EXIT_FILE=str(file), HPCLAUNCH_WORLD_SIZE="2")
    assert (file.read_text(), done.stderr) == ("137\n", "")
