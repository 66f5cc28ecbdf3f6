"""A script that the local site has started."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.runs import Run
from hpclaunch.schedulers import Status, local
from tests.builders import local_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return local_run(tmp_path)


def state(run: Run) -> Status:
    return local.states([run])[run.job_id]


def test_a_script_is_started_in_a_session_of_its_own(run: Run) -> None:
    attempt = f"{run.path}/attempts/$SUBMITIT_LOCAL_JOB_ID.0"
    line = f"ps -o sid= -p $$ > {run.path}/sid; until [ -e {run.path}/seen ]; do sleep 0.1; done\n"
    line += f"mkdir -p {attempt}; echo 5 > {attempt}/exit-code\n"
    run.script.write_text(line)
    started = replace(run, job_id=local.submit(run, "", 60))
    assert state(started) == Status(state="RUNNING")
    (run.path / "seen").touch()
    deadline = time.monotonic() + 100
    while state(started).state == "RUNNING" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert state(started) == Status(state="FAILED", exit_code="5:0")
    assert int((run.path / "sid").read_text()) != os.getsid(0)
    local.cancel([started])


Starts = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def starts() -> Iterator[Starts]:
    """Start a process that sleeps, with further arguments and variables; it ends with the test."""
    made: list[subprocess.Popen[bytes]] = []

    def begin(*words: str, **variables: str) -> subprocess.Popen[bytes]:
        command = ["bash", "-c", "while :; do sleep 0.1; done", *words]
        made.append(subprocess.Popen(command, env={"PATH": os.environ["PATH"], **variables}))
        return made[-1]

    yield begin
    for process in made:
        process.kill()
        process.wait()


def test_a_process_that_got_the_number_of_an_ended_run_is_neither_the_run_nor_ended(run: Run, starts: Starts) -> None:
    stranger = starts(str(run.path / "logs"))
    old = replace(run, job_id=str(stranger.pid))
    (run.path / "process").write_text(
        f"{stranger.pid} {Path('/proc/sys/kernel/random/boot_id').read_text().strip()} 1\n"
    )
    assert state(old) == Status(state="UNKNOWN")
    assert local.cancel([old]) == []
    assert stranger.poll() is None


def test_the_processes_of_another_run_with_the_same_number_are_left_alone(run: Run, starts: Starts) -> None:
    """Its ranks have the number in a variable, as those of the old run had."""
    other = run.path.parent / "other"
    mine = f"{run.path}/attempts/999999999.0/first-failure"
    theirs = f"{other}/attempts/999999999.0/first-failure"
    stranger = starts(SUBMITIT_LOCAL_JOB_ID="999999999", HPCLAUNCH_EXIT_FILE=theirs)
    old = replace(run, job_id="999999999")
    assert state(old) == Status(state="UNKNOWN")
    rank = starts(SUBMITIT_LOCAL_JOB_ID="999999999", HPCLAUNCH_EXIT_FILE=mine)
    assert state(old) == Status(state="RUNNING")
    assert local.cancel([old]) == ["999999999"]
    assert rank.wait(60) != 0
    assert stranger.poll() is None


def test_a_start_by_hand_is_known_by_the_beginning_in_its_claim(run: Run, starts: Starts) -> None:
    process = starts()
    by_hand = replace(run, job_id=f"by-hand-{process.pid}")
    began = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
    (run.path / "claims").mkdir()
    claim = run.path / "claims/1"
    claim.write_text(f"{by_hand.job_id}.0 {run.host} {process.pid} {int(began) - 1}\n")
    assert (state(by_hand), local.cancel([by_hand])) == (Status(state="UNKNOWN"), [])
    claim.write_text(f"{by_hand.job_id}.0 {run.host} {process.pid} {began}\n")
    assert (state(by_hand), local.cancel([by_hand])) == (Status(state="RUNNING"), [by_hand.job_id])
    assert process.wait(60) != 0
