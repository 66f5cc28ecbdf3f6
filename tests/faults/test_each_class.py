"""One real case of every class: a controller that is gone, that hangs, accounting that is gone, a node that fails."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.faults.conftest import Faults, told
from tests.slurm.desk import until
from tests.slurm.users import as_root

pytestmark = pytest.mark.timeout(900)
WAIT_S = 240  # the machine may be busy with other tests
NOT_ENDED = ("PENDING", "RUNNING", "UNKNOWN")  # accounting hears of a start a little later
ONE = ("--tasks-per-node", "1")


def test_slurmctld_down_during_submit_then_retry(faults: Faults) -> None:
    desk = faults.desk
    before = set(faults.runs())
    with faults.down("slurmctld"):
        done = desk.run("submit", "short", *ONE, env=faults.impatient())
        (run,) = set(faults.runs()) - before
        assert done.returncode == 1
        assert told(desk, run, faults.impatient())["state"] in ("NOT_SUBMITTED", "SUBMITTING"), done.stderr
    assert faults.jobs_of(run) == []
    if told(desk, run)["state"] == "NOT_SUBMITTED":
        assert desk.run("retry", str(run)).returncode == 0
        assert desk.run("wait", str(run), seconds=WAIT_S).returncode == 0
        assert len(faults.jobs_of(run)) == 1


def test_row_15_sbatch_times_out_and_the_controller_obeys_later(faults: Faults) -> None:
    desk = faults.desk
    before = set(faults.runs())
    with faults.submitting(["submit", "short", *ONE]) as (process,):
        _, said = process.communicate(timeout=WAIT_S)
        assert (process.returncode, b"it is unknown whether" in said) == (1, True), said
    (run,) = set(faults.runs()) - before
    until(lambda: told(desk, run)["job_id"] != "", "status finds the job")
    assert desk.run("wait", str(run), seconds=WAIT_S).returncode == 0
    (job,) = faults.jobs_of(run)
    assert told(desk, run)["job_id"] == job


def test_slurmctld_down_during_status_and_cancel(faults: Faults) -> None:
    desk = faults.desk
    run = desk.submit("long", *ONE)
    desk.wait_for_line(run, "begun")
    impatient = faults.impatient()
    with faults.down("slurmctld"):
        assert told(desk, run, impatient)["state"] in NOT_ENDED
        done = desk.run("cancel", str(run.path), env=impatient)
        assert done.returncode == 1
        assert "scancel" in done.stderr
        assert told(desk, run, impatient)["state"] in NOT_ENDED
    assert told(desk, run)["state"] == "RUNNING"
    assert desk.run("cancel", str(run.path)).returncode == 0
    until(lambda: told(desk, run)["state"] == "CANCELLED", "CANCELLED")


def test_slurmdbd_down_changes_nothing(faults: Faults) -> None:
    desk = faults.desk
    with faults.down("slurmdbd"):
        run = desk.submit("short", *ONE)
        assert desk.run("wait", str(run.path), seconds=WAIT_S).returncode == 0
        assert told(desk, run)["state"] == "COMPLETED"


def test_a_node_that_fails_is_left_out_of_the_next_start(faults: Faults) -> None:
    desk = faults.desk
    desk.job("twice", "import os, time\nif os.environ['SLURMD_NODENAME'] == 'node1': time.sleep(3600)\nprint('over')\n")
    run = desk.submit("twice", *ONE, "--sbatch=--nodelist=node1")
    desk.wait_for(run, "RUNNING")
    script = run.path / "job.sh"
    # A run that may go elsewhere, on a node that fails: the directive has done its part.
    script.write_text(
        "".join(line for line in script.read_text().splitlines(keepends=True) if "--nodelist" not in line)
    )
    with as_root():
        desk.slurm("scontrol", "update", "nodename=node1", "state=down", "reason=test")
    try:
        done = desk.run("wait", str(run.path), "--retries", "1", "--json", seconds=WAIT_S)
        (record,) = json.loads(done.stdout)["runs"]
        assert (done.returncode, record["state"], record["earlier"]) == (0, "COMPLETED", [run.job_id]), done.stderr
        assert record["excluded"] == "node1"
        assert record["nodes"] != "node1"
    finally:
        # The node may be back by itself (ReturnToService).
        with as_root():
            resume = ["scontrol", "update", "nodename=node1", "state=resume"]
            subprocess.run(resume, env=desk.shell(), capture_output=True)


def test_a_log_folder_that_is_gone_fails_the_run_or_is_made_by_slurm(faults: Faults) -> None:
    desk = faults.desk
    run = desk.submit("short", *ONE, "--sbatch=--hold")
    shutil.rmtree(run.path / "logs")
    desk.slurm("scontrol", "release", run.job_id)
    if desk.is_newer():  # which makes the folder
        assert desk.run("wait", str(run.path), seconds=WAIT_S).returncode == 0
        return
    assert desk.run("wait", str(run.path), seconds=WAIT_S).returncode != 0
    assert "log" in told(desk, run)["reason"]
    until(lambda: told(desk, run)["exit_code"] == "0:53", "accounting has heard of it", seconds=240)
    assert told(desk, run)["state"] == "FAILED"
    assert "log" in told(desk, run)["reason"]
