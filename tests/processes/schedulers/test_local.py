"""A script that the local site has started."""

from __future__ import annotations

import os
import time
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
