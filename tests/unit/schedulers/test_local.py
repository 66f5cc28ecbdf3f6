from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.runs import Run
from hpclaunch.schedulers import Status, local


@pytest.fixture
def run(tmp_path: Path) -> Run:
    for folder in ("logs", "attempts"):
        (tmp_path / folder).mkdir()
    return Run(
        path=tmp_path, name="x", site="local", scheduler="local", created="", state="RUNNING", host=socket.gethostname()
    )


def state(run: Run) -> Status:
    return local.states([run])[run.job_id]


@pytest.mark.parametrize(
    ("code", "recorded", "expected"),
    [
        ("0", "RUNNING", Status(state="COMPLETED", exit_code="0:0")),
        ("7", "RUNNING", Status(state="FAILED", exit_code="7:0")),
        ("124", "RUNNING", Status(state="TIMEOUT", exit_code="124:0")),
        ("143", "CANCELLED", Status(state="CANCELLED", exit_code="143:0")),
        ("", "RUNNING", Status(state="UNKNOWN")),
    ],
)
def test_an_ended_run_is_known_by_its_mark(run: Run, code: str, recorded: str, expected: Status) -> None:
    ended = replace(run, job_id="999999999", state=recorded)
    (run.path / "attempts/999999999.0").mkdir()
    (run.path / "attempts/999999999.0/exit-code").write_text(code)
    assert state(ended) == expected


def test_a_number_that_belongs_to_another_process_by_now_is_not_the_run(run: Run) -> None:
    assert state(replace(run, job_id=str(os.getpid()))) == Status(state="UNKNOWN")


def test_a_run_of_another_machine_is_unknown_here(run: Run) -> None:
    assert state(replace(run, job_id="1", host="elsewhere")) == Status(state="UNKNOWN", reason="it runs on elsewhere")


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


def test_what_to_type_to_cancel(run: Run) -> None:
    assert local.cancel_command(run) == f"hpclaunch cancel {run.path.name}"
