"""Watching, following, cancelling, and what Slurm refuses."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.slurm.desk import HPCLAUNCH, PATIENCE_S, Desk, Submitted, until

pytestmark = pytest.mark.timeout(300)
ONE = ("--tasks-per-node", "1")
# For ever: what is looked at while it runs may come late on a busy machine.
TALKS = "import itertools, time\nfor number in itertools.count():\n    print('line', number, flush=True)\n"
TALKS += "    time.sleep(0.2)\n"


@pytest.fixture
def talking(desk: Desk) -> Iterator[Submitted]:
    desk.job("talks", TALKS)
    run = desk.submit("talks", *ONE)
    yield run
    subprocess.run(["scancel", run.job_id], env=desk.shell())


def test_the_live_screen_shows_a_waiting_jobs_place_and_cancels_it(desk: Desk) -> None:
    desk.job("probe")
    run = desk.submit("probe", *ONE, "--sbatch=--hold")
    screen = Terminal([HPCLAUNCH, "watch", run.path.name], desk.folder, desk.shell(TERM="xterm-256color"))
    try:
        screen.shows("reason   JobHeldUser")
        (place,) = [row for row in screen.shows("before it") if row.startswith("queue")]
        assert re.fullmatch(r"queue    [0-9]+ jobs? before it, (no expected start yet|expected start 20.*)", place)
        screen.type("cy")
        screen.shows("1 run: 1 CANCELLED")
        screen.type("q")
        assert screen.end() == 0
    finally:
        screen.close()
        subprocess.run(["scancel", run.job_id], env=desk.shell())
    assert json.loads(desk.run("status", run.job_id, "--json").stdout)["runs"][0]["state"] == "CANCELLED"


def start(desk: Desk, heard: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """hpclaunch ARGUMENTS; what it says is in the file ``heard`` as soon as it was said."""
    with heard.open("wb") as file:
        return subprocess.Popen(
            [HPCLAUNCH, *arguments], cwd=desk.folder, env=desk.shell(), stdout=file, stderr=subprocess.STDOUT
        )


def wait_until_heard(heard: Path, text: str) -> None:
    until(lambda: text in heard.read_text(errors="replace"), f"{text!r} in {heard}")


def test_status_logs_and_cancel(desk: Desk, talking: Submitted, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    desk.wait_for(talking, "RUNNING")
    desk.wait_for_line(talking, "line 3\n")
    (told,) = json.loads(desk.run("status", talking.job_id, "--json").stdout)["runs"]
    assert told["state"] == "RUNNING"
    assert desk.run("logs", talking.job_id).stdout.startswith("line 0\nline 1\n")

    following = start(desk, heard, "logs", "-f", talking.path.name)
    wait_until_heard(heard, "line 3\n")
    cancelled = desk.run("cancel", talking.path.name)
    assert cancelled.returncode == 0, cancelled.stderr
    assert following.wait(PATIENCE_S) == 0
    lines = heard.read_text(errors="replace").splitlines()
    assert lines[:3] == ["line 0", "line 1", "line 2"]
    told_lines = [line for line in lines if line.startswith("line ")]
    assert told_lines == [f"line {number}" for number in range(len(told_lines))]  # each once, and in order

    desk.wait(talking)
    assert desk.ended(talking).startswith("CANCELLED")
    until(lambda: "CANCELLED" in desk.run("status", talking.job_id).stdout, "CANCELLED in status")
    again = desk.run("cancel", talking.job_id)
    assert again.returncode == 0
    assert "CANCELLED" in again.stdout


def test_ctrl_c_while_following_a_log_ends_the_following_only(desk: Desk, talking: Submitted, tmp_path: Path) -> None:
    desk.wait_for_line(talking, "line 1\n")
    following = start(desk, tmp_path / "heard", "logs", "-f", talking.job_id)
    wait_until_heard(tmp_path / "heard", "line 1\n")
    following.send_signal(signal.SIGINT)
    assert following.wait(PATIENCE_S) == 130
    assert desk.states(talking) == {talking.job_id: "RUNNING"}


def test_ctrl_c_while_waiting_detaches_and_says_how_to_cancel(desk: Desk, tmp_path: Path) -> None:
    desk.job("watched", TALKS)
    waiting = start(desk, tmp_path / "heard", "submit", "watched", *ONE, "--wait")
    wait_until_heard(tmp_path / "heard", "line 5\n")  # it has recorded the job, and follows it
    run = desk.newest()
    try:
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(PATIENCE_S) == 130
        said = (tmp_path / "heard").read_text(errors="replace")
        assert f"hpclaunch cancel {run.path.name} (or: scancel {run.job_id})" in said
        assert "Traceback" not in said
        before = run.log().count("line")
        until(lambda: run.log().count("line") > before + 3, "more lines after detaching")
        assert desk.states(run) == {run.job_id: "RUNNING"}
    finally:
        desk.slurm("scancel", run.job_id)


def test_waiting_ends_with_0_when_the_run_completed(desk: Desk) -> None:
    desk.job("short", "print('one line')")
    done = desk.run("submit", "short", *ONE, "--wait", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["state"], told["exit_code"]) == ("COMPLETED", "0:0")
    assert done.stderr.count("one line") == 1


def test_what_slurm_refuses_is_said_in_its_words_and_the_run_directory_stays(desk: Desk) -> None:
    desk.job("probe")
    done = desk.run("submit", "probe", *ONE, "--sbatch=--constraint=nosuchfeature", "--json")
    assert done.returncode == 1
    (fault,) = json.loads(done.stdout)["faults"]
    assert "Invalid feature specification" in fault["what"]
    run = desk.newest()
    assert f"hpclaunch retry {run.path.name}" in fault["next"]
    assert run.path.joinpath("job.sh").is_file()
    record = json.loads((run.path / "run.json").read_text())
    assert (record["state"], record["job_id"]) == ("NOT_SUBMITTED", "")
    assert "Invalid feature specification" in record["reason"]


def test_a_job_that_waits_for_nodes_says_why(desk: Desk) -> None:
    desk.job("probe")
    holder = desk.slurm(
        "sbatch", "--parsable", "--exclusive", "--nodes=4", "--output=/dev/null", "--wrap=sleep 3600"
    ).strip()
    try:
        until(lambda: desk.slurm("squeue", "-h", "-j", holder, "-o", "%T").strip() == "RUNNING", "the holder")
        run = desk.submit("probe", *ONE)
        until(lambda: "Resources" in desk.run("status", run.job_id).stdout, "the reason in status")
        assert "PENDING" in desk.run("status", run.job_id).stdout
        desk.slurm("scancel", run.job_id)
    finally:
        desk.slurm("scancel", holder)
