"""A run that has saved its state while Slurm cannot be asked to start it again."""

from __future__ import annotations

import time

import pytest

from tests.faults.bed.conftest import tell
from tests.faults.conftest import Faults, told
from tests.slurm.desk import PROBE_JOB, until

pytestmark = pytest.mark.timeout(900)
# Ends as a program does that has saved its state, once it is told to, and completes at its second start.
SAVES = """
import os, sys, time
print("begun", flush=True)
while os.environ["HPCLAUNCH_RESTART_COUNT"] == "0":
    time.sleep(0.1)
    if os.path.exists(os.environ["HPCLAUNCH_RUN_DIR"] + "/saved"):
        sys.exit(75)
"""
# What the script waits with between two questions: whole seconds begin to count when the controller is back, which
# takes long on a busy machine.
SLEEP = """#!/bin/bash
if [[ "$1" != *.* ]]; then
  until [ -e "$HPCLAUNCH_RUN_DIR/back" ]; do /bin/sleep 0.1; done
fi
exec /bin/sleep "$@"
"""


def test_slurmctld_down_when_a_run_asks_for_its_requeue(faults: Faults) -> None:
    desk, began = faults.desk, time.monotonic()
    conf = faults.impatient()["SLURM_CONF"]
    setup = [desk.program("sleep", SLEEP)]
    environment = {**PROBE_JOB["environment"], "variables": {"SLURM_CONF": conf}, "setup": setup}
    desk.job("saves", SAVES, restarts=3, environment=environment)
    run = desk.submit("saves", "--tasks-per-node", "1")
    desk.wait_for_line(run, "begun")
    with faults.down("slurmctld"):
        (run.path / "saved").touch()
        until(lambda: "the call of the scheduler failed; trying again in" in run.log(), "the script asks again")
    (run.path / "back").touch()
    assert desk.run("wait", str(run.path), seconds=300).returncode == 0, run.log()
    assert "saved; requeueing the job" in run.log()
    assert told(desk, run)["job_id"] == run.job_id
    assert sorted(path.name for path in (run.path / "attempts").iterdir()) == [f"{run.job_id}.{n}" for n in (0, 1)]
    tell("slurmctld down when a run asks for its requeue", "the script tries again; requeued, completes", "1", began)
