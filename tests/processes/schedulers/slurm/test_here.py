"""Runs inside an allocation: known by their marks, by their processes on their host, else by the allocation."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.core.errors import SchedulerError
from hpclaunch.runs import Run, identity_of
from hpclaunch.runs.job_identity import CLOCKS_S, epoch_of
from hpclaunch.runs.markers import mark_cancelled
from hpclaunch.schedulers import UNPROVEN, Status
from hpclaunch.schedulers.slurm import here
from tests.builders import a_run, leave_proof

SUBMITTED = "2026-11-28T00:00:00Z"
BEGAN = epoch_of(SUBMITTED)
ME = str(os.getuid())


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a squeue that prints the file ``listed``."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "listed").touch()
    (folder / "squeue").write_text(
        f'#!/bin/sh\necho "$*" >> {folder}/calls\necho "$SLURM_TIME_FORMAT" > {folder}/times\ncat {folder}/listed\n'
    )
    (folder / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.fixture
def run(tmp_path: Path, slurm: Path) -> Run:
    """A run in allocation 40 of another host, whose script has begun."""
    made = a_run(tmp_path, "by-hand-77", "RUNNING")
    (made.path / "attempts/by-hand-77.0").mkdir(parents=True)
    (made.path / "attempts/by-hand-77.0/started").touch()
    return replace(made, allocation="40", host="elsewhere", submitted=SUBMITTED, nodes="n[1-2]")


def status(run: Run) -> Status:
    return here.states([run])[identity_of(run)]


def lists(slurm: Path, state: str, number: str = "40", uid: str = ME, submitted: int | str = BEGAN) -> None:
    (slurm / "listed").write_text(f"{number}|{state}|{uid}|{submitted}\n")


@pytest.mark.parametrize(
    ("code", "proof", "cancelled", "expected"),
    [
        (0, True, False, Status(state="COMPLETED", exit_code="0:0", nodes="n[1-2]")),
        (0, False, False, Status(state="FAILED", exit_code="0:0", reason=UNPROVEN, nodes="n[1-2]")),
        (0, True, True, Status(state="COMPLETED", exit_code="0:0", nodes="n[1-2]")),
        (7, False, False, Status(state="FAILED", exit_code="7:0", nodes="n[1-2]")),
        (143, False, True, Status(state="CANCELLED", exit_code="143:0", nodes="n[1-2]")),
    ],
)
def test_an_exit_code_is_the_end_and_nobody_is_asked(
    run: Run, slurm: Path, code: int, proof: bool, cancelled: bool, expected: Status
) -> None:
    if proof:
        leave_proof(run.path, "by-hand-77.0")
    if cancelled:
        mark_cancelled(run, "by-hand-77")
    (run.path / "attempts/by-hand-77.0/exit-code").write_text(f"{code}\n")
    assert status(run) == expected
    assert not (slurm / "calls").exists()


def test_the_proof_counts_although_the_exit_code_is_missing(run: Run, slurm: Path) -> None:
    leave_proof(run.path, "by-hand-77.0")
    (run.path / "attempts/by-hand-77.0/exit-code").unlink()
    lists(slurm, "RUNNING")
    assert status(run) == Status(state="COMPLETED", exit_code="0:0", nodes="n[1-2]")


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "SIGNALING"])
def test_on_another_host_a_run_lives_as_long_as_its_allocation(run: Run, slurm: Path, state: str) -> None:
    lists(slurm, state)
    assert status(run) == Status(state="RUNNING", nodes="n[1-2]")
    (call,) = (slurm / "calls").read_text().splitlines()
    assert call == "--noheader --states=all --jobs=40 --format=%A|%T|%U|%V"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        *((state, state) for state in ("TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "DEADLINE")),
        ("COMPLETED", "CANCELLED"),
        ("FAILED", "CANCELLED"),
        ("CANCELLED", "CANCELLED"),
        ("PENDING", "CANCELLED"),
    ],
)
def test_a_run_that_ended_with_its_allocation_did_not_fail(run: Run, slurm: Path, state: str, expected: str) -> None:
    lists(slurm, state)
    reason = "it ended with the allocation 40"
    for one in (run, replace(run, host=os.uname().nodename)):
        assert status(one) == Status(state=expected, reason=reason, nodes="n[1-2]")


def test_on_this_host_a_run_without_a_process_was_killed(run: Run, slurm: Path) -> None:
    lists(slurm, "RUNNING")
    mine = replace(run, host=os.uname().nodename)
    killed = "its script was killed before it could write its exit code"
    assert status(mine) == Status(state="FAILED", reason=killed, nodes="n[1-2]")
    mark_cancelled(mine, "by-hand-77")
    assert status(mine).state == "CANCELLED"


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ({"uid": "4711"}, "CANCELLED"),
        ({"number": "41"}, "CANCELLED"),
        ({"submitted": BEGAN + CLOCKS_S}, "RUNNING"),
        ({"submitted": BEGAN + CLOCKS_S + 1}, "CANCELLED"),
        ({"submitted": "Unknown"}, "CANCELLED"),
    ],
)
def test_an_allocation_of_another_user_or_of_a_later_numbering_is_none(
    run: Run, slurm: Path, line: dict[str, str], state: str
) -> None:
    lists(slurm, "RUNNING", **line)
    assert status(run).state == state
    assert status(replace(run, submitted="")).state == (state if {*line} & {"uid", "number"} else "RUNNING")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("slurm_load_jobs error: Invalid job id specified", "CANCELLED"),
        ("Unable to contact slurm controller", "UNKNOWN"),
    ],
)
def test_a_squeue_that_does_not_answer_leaves_the_state_unknown(
    run: Run, slurm: Path, words: str, expected: str
) -> None:
    (slurm / "squeue").write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
    found = status(run)
    assert found.state == expected
    assert (found.reason == f"squeue: {words}") is (expected == "UNKNOWN")


def test_of_several_runs_squeue_is_asked_once_about_each_allocation(run: Run, slurm: Path, tmp_path: Path) -> None:
    others = [
        replace(a_run(tmp_path, f"by-hand-{n}"), allocation=where, host="x") for n, where in ((1, "40"), (2, "41"))
    ]
    lists(slurm, "RUNNING")
    found = here.states([run, *others])
    assert [found[identity_of(it)].state for it in (run, *others)] == ["RUNNING", "RUNNING", "CANCELLED"]
    (call,) = (slurm / "calls").read_text().splitlines()
    assert "--jobs=40,41 " in call


@pytest.fixture
def script(run: Run) -> Iterator[tuple[Run, subprocess.Popen[bytes]]]:
    """The run as one of this host, with a script that lives and ends at SIGTERM; its rank ignores it."""
    run.script.write_text("trap 'exit 143' TERM\nwhile :; do sleep 0.05; done\n")
    with subprocess.Popen(["bash", run.script]) as process:
        mine = replace(run, host=os.uname().nodename, job_id=f"by-hand-{process.pid}")
        (run.path / "attempts/by-hand-77.0").rename(run.path / f"attempts/by-hand-{process.pid}.0")
        yield mine, process
        process.kill()


def test_the_processes_of_a_run_of_this_host_are_ended(
    script: tuple[Run, subprocess.Popen[bytes]], slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, process = script
    lists(slurm, "RUNNING")
    mark = {"HPCLAUNCH_EXIT_FILE": f"{run.path}/attempts/{run.job_id}.0/first-failure", "PATH": os.environ["PATH"]}
    monkeypatch.setattr(here, "_GRACE_S", 0.4)
    with subprocess.Popen(["bash", "-c", "trap '' TERM; while :; do sleep 0.05; done"], env=mark) as rank:
        assert status(run) == Status(state="RUNNING", nodes="n[1-2]")
        assert here.cancel([run]) == [identity_of(run)]
        assert (process.wait(60), rank.wait(60)) == (143, -signal.SIGKILL)
    assert (run.path / f"cancelled/{run.job_id}").exists()
    assert not (run.path / f"cancelled/{run.job_id}.asked").exists()
    assert here.cancel([run]) == [], "it has ended"


def test_a_run_of_another_host_is_asked_to_end_and_waited_for(
    run: Run, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists(slurm, "RUNNING")
    pauses: list[float] = []

    def end(seconds: float) -> None:
        if seconds >= 1:
            pauses.append(seconds)
            if len(pauses) == 3:
                (run.path / "attempts/by-hand-77.0/exit-code").write_text("143\n")

    monkeypatch.setattr(time, "sleep", end)
    assert here.cancel([run]) == [identity_of(run)]
    assert (len(pauses), (run.path / "cancelled/by-hand-77.asked").exists()) == (3, True)
    (run.path / "attempts/by-hand-77.0/exit-code").unlink()
    monkeypatch.setattr(here, "_PATIENCE_S", 0)
    with pytest.raises(SchedulerError):
        here.cancel([run])


def test_squeue_is_asked_for_times_in_seconds_of_the_epoch(
    run: Run, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_TIME_FORMAT", "%H")
    lists(slurm, "RUNNING")
    assert status(run).state == "RUNNING"
    assert (slurm / "times").read_text() == "%s\n"
