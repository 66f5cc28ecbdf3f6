"""Every rank of any program has a log of its own beside the job's: what `logs --rank` reads."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Desk, Done, wait_for

# Starts as many ranks as it is asked to, at once; each learns its number as Open MPI's ranks do.
MPIRUN = """#!/bin/bash
while [ "$1" != bash ]; do
  [ "$1" != -np ] || ranks=$2
  shift
done
started=()
for ((rank = 0; rank < ranks; rank++)); do
  {told}="$rank" "$@" &
  started+=("$!")
done
code=0
for one in "${{started[@]}}"; do
  wait "$one" || code=$?
done
exit "$code"
"""
NUMBER = "rank=$OMPI_COMM_WORLD_RANK\n"
THREE = ("--nodes", "1", "--tasks-per-node", "3", "--launcher", "mpirun")


@pytest.fixture
def local(desk: Desk) -> Desk:
    desk.environment["HPCLAUNCH_SITE"] = "local"
    desk.program("mpirun", MPIRUN.format(told="OMPI_COMM_WORLD_RANK"))
    return desk


def ran(desk: Desk, program: str, *words: str) -> tuple[Path, Done]:
    """Submit a program of three ranks and wait for its end: its run directory, and what was said."""
    desk.write("run.sh", NUMBER + program)
    done = desk.type("submit", "./run.sh", *THREE, "--wait", "--json", *words)
    return Path(done.json["run_dir"]), done


def test_a_rank_has_its_output_and_errors_in_order_and_the_jobs_log_has_all(local: Desk) -> None:
    run, done = ran(local, 'for i in {1..100}; do echo "$rank out $i"; echo "$rank err $i" >&2; done\n')
    assert done.code == 0
    for rank in range(3):
        mine = [f"{rank} {stream} {i}" for i in range(1, 101) for stream in ("out", "err")]
        assert local.type("logs", "--rank", str(rank)).out.splitlines() == mine
        in_all = [line for line in local.type("logs").out.splitlines() if line.startswith(f"{rank} ")]
        assert in_all == mine
    assert sorted(path.name for path in (run / "logs").glob("rank-*")) == ["rank-0.out", "rank-1.out", "rank-2.out"]


def test_the_last_lines_of_a_run_and_of_a_rank(local: Desk) -> None:
    run, _ = ran(local, 'for i in {1..30}; do echo "$rank line $i"; done\n')
    assert local.type("logs", "--rank", "1", "--tail", "2").out.splitlines() == ["1 line 29", "1 line 30"]
    whole = local.type("logs").out
    assert local.type("logs", "-n", "5").out == "".join(whole.splitlines(keepends=True)[-5:])
    assert local.type("logs", "--tail", "5", "--json").json["text"] == "".join(whole.splitlines(keepends=True)[-5:])
    none = local.type("logs", "--tail", "0")
    assert (none.code, none.out, none.err) == (0, "", "")
    with next((run / "logs").glob("*_log.out")).open("a") as more:
        more.write("x" * 2**20 + "\nlast\n")
    followed = local.type("logs", "-f")
    assert followed.out.endswith("x\nlast\n") and "are left out" not in followed.err  # few lines, though long ones
    with next((run / "logs").glob("*_log.out")).open("a") as more:
        more.write("line\n" * 2000)
    assert "are left out" in local.type("logs", "-f").err
    whole, followed = local.type("logs", "--json"), local.type("logs", "-f", "--json")
    assert followed.json["text"] == whole.json["text"] and "are left out" not in followed.err


def test_a_failed_run_says_which_rank_failed_first_and_how(local: Desk) -> None:
    words = '[ "$rank" = 1 ] || exit 0\necho "KeyError: \'lr\'" >&2\nexit 5\n'
    run, done = ran(local, words)
    host = Path("/proc/sys/kernel/hostname").read_text().strip()
    assert done.json["state"] == "FAILED"
    (row,) = local.type("status", run.name, "--json").runs
    assert row["reason"] == f"rank 1 on {host}: KeyError: 'lr'"
    assert f"rank 1 on {host}: KeyError: 'lr'" in local.type("status", run.name).out


def test_nothing_is_lost_of_a_rank_that_is_killed_and_its_code_is_the_runs(local: Desk) -> None:
    words = '[ "$rank" = 1 ] || exit 0\nfor i in {1..20000}; do echo "line $i"; done\nprintf "no newline"\nkill -9 $$\n'
    _, done = ran(local, words)
    assert (done.code, done.json["exit_code"]) == (1, "137:0")
    said = local.type("logs", "--rank", "1").out
    assert said.startswith("".join(f"line {i}\n" for i in range(1, 20001)) + "no newline")
    assert "no newline" in local.type("logs").out


def test_a_process_that_a_rank_leaves_behind_does_not_keep_it_from_ending(local: Desk) -> None:
    _, done = ran(local, "sleep 300 &\necho begun\nexit 3\n")
    assert (done.json["state"], done.json["exit_code"]) == ("FAILED", "3:0")
    assert local.type("logs", "--rank", "2").out == "begun\n"


def test_a_signal_ends_the_program_and_not_what_copies_its_last_words(local: Desk) -> None:
    local.write(
        "run.sh", NUMBER + "trap 'echo \"rank $rank ends\"; exit 75' TERM\necho up\nwhile :; do sleep 0.1; done\n"
    )
    run = Path(local.type("submit", "./run.sh", *THREE).out.strip())
    wait_for(lambda: local.type("logs").out.count("up\n") == 3, "three ranks")
    local.type("cancel", run.name)
    for rank in range(3):
        said = local.type("logs", "--rank", str(rank)).out.splitlines()
        assert (said[0], said[-1]) == ("up", f"rank {rank} ends"), said  # bash tells the end of sleep between them


def test_a_rank_says_more_at_a_further_start_in_the_same_file(local: Desk) -> None:
    run, _ = ran(local, 'echo "rank $rank start $HPCLAUNCH_RESTART_COUNT"\nexit 75\n')
    assert local.type("resume", run.name).code == 0
    assert local.type("wait", run.name).code == 75
    assert local.type("logs", "-f", "--rank", "2").out == "rank 2 start 0\nrank 2 start 1\n"
    assert len(re.findall(r"rank \d start 1", local.type("logs").out)) == 3


def test_a_log_that_cannot_be_written_costs_the_program_nothing(local: Desk) -> None:
    local.write("run.sh", NUMBER + 'echo "$rank is here"\n')
    run = Path(local.type("render", "./run.sh", *THREE, "-o", "job.sh", "--json").json["run_dir"])
    (run / "logs" / "rank-1.out").mkdir()
    done = subprocess.run(["bash", "job.sh"], cwd=local.project, env=local.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 is here", "1 is here", "2 is here"]
    assert "rank-1.out: Is a directory" in done.stderr


def test_where_the_launcher_tells_no_number_that_is_said(local: Desk) -> None:
    local.program("mpirun", MPIRUN.format(told="ANOTHER_LIBRARYS_RANK"))
    run, done = ran(local, "echo nameless\n")
    assert done.json["state"] == "COMPLETED"
    assert local.type("logs").out == "nameless\n" * 3
    for follow in ((), ("-f",)):
        refused = local.type("logs", "--rank", "0", *follow)
        assert (refused.code, "mpirun gave it no rank number" in refused.err) == (1, True)
    assert not list((run / "logs").glob("rank-*"))


def test_ranks_above_the_limit_share_the_jobs_log_and_the_limit_can_be_changed(local: Desk) -> None:
    local.write("hpclaunch.yaml", "rank_logs: 2\n")
    run, _ = ran(local, "echo hello\n")
    assert not list((run / "logs").glob("rank-*"))
    refused = local.type("logs", "--rank", "0")
    assert (refused.code, "rank_logs: 3" in refused.err) == (1, True)
    local.write("hpclaunch.yaml", "rank_logs: 3\n")
    ran(local, "echo hello\n")
    assert local.type("logs", "--rank", "0").out == "hello\n"


def test_one_rank_has_the_jobs_log_and_a_rank_that_is_not_there_is_refused(local: Desk) -> None:
    local.write("run.sh", "echo alone\n")
    local.type("submit", "./run.sh", "--wait")
    assert local.type("logs", "--rank", "0").out == "alone\n"
    refused = local.type("logs", "--rank", "1")
    assert (refused.code, "has one rank, 0" in refused.err) == (1, True)


def test_before_its_start_a_run_says_that_it_has_not_started(local: Desk) -> None:
    local.write("run.sh", "echo hello\n")
    run = Path(local.type("render", "./run.sh", *THREE, "-o", "job.sh", "--json").json["run_dir"])
    refused = local.type("logs", run.name, "--rank", "0")
    assert (refused.code, "has not started" in refused.err) == (1, True)
