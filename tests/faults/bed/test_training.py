"""A training that is disturbed, by every fault of the list that can meet one, ends as if nothing had been."""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.faults.bed.conftest import Bed
from tests.faults.conftest import told
from tests.slurm.desk import until
from tests.slurm.users import as_root

pytestmark = pytest.mark.timeout(2400)
KILLED = {2: "1:17:kill", 4: "1:9:kill"}
"""The rank and step at which a rank ends, by ranks: one step after a checkpoint that comes soon after another."""


def test_one_rank_killed_by_sigkill(bed: Bed) -> None:
    pair = bed.start(events=KILLED)
    # Open MPI 5 ends the ranks that have lost a peer with 14, and Slurm then kills the step: perhaps before the shell
    # of the killed rank has written its code.
    code = {} if bed.desk.is_newer() else {"exit_code": "137:0"}
    bed.resumed(pair, {"state": "FAILED", **code})
    bed.judge(
        "one rank killed by SIGKILL", "FAILED 137, not tried again by itself; `resume` completes it", pair, jobs=2
    )


def test_newest_checkpoint_truncated(bed: Bed) -> None:
    pair = bed.start(events=KILLED)
    for run in pair.values():
        assert bed.wait(run)[0] == 137
        newest = sorted((run.path / "checkpoints").glob("step-*"))[-1] / "rank-0001.npz"
        os.truncate(newest, newest.stat().st_size - 100)
        assert bed.desk.run("resume", str(run.path)).returncode == 0
    bed.judge("newest checkpoint truncated", "reported; the checkpoint before it is used", pair, jobs=2)
    assert all("is damaged (rank 1: rank-0001.npz has" in run.log() for run in pair.values())


def test_one_rank_hanging(bed: Bed) -> None:
    pair = bed.start("--stall-minutes=1", events={2: "1:17:hang", 4: "1:9:hang"})
    bed.resumed(pair, {"state": "FAILED", "exit_code": "1:0"})
    assert all("a rank hangs" in run.log() for run in pair.values())
    bed.judge("one rank hanging (SIGSTOP)", "FAILED 1 after `--stall-minutes`; `resume` completes it", pair, jobs=2)


def test_slurmd_killed_in_mid_run(bed: Bed) -> None:
    pair = bed.start_held(5)
    with bed.faults.node_daemon_down("node2"):
        bed.go(pair)
        bed.wait_for_step(pair, 9)
    bed.judge("slurmd killed in mid-run", "the run continues without it", pair)


def test_node_lost_in_mid_run(bed: Bed) -> None:
    pair = bed.start_held(5, typed=("--sbatch=--nodelist=node[1-2]",))
    with bed.faults.node_lost("node1"):
        pass
    # Slurm 22.05 starts the job under its old id, and on the same node slurmstepd finds the socket of the first start.
    outcome = "requeued by Slurm, which cannot launch there again; `wait --retries` starts it again, and it continues"
    bed.judge("node lost: slurmd and all its processes killed", outcome, pair, jobs=2, retries=2)


def test_node_killed_and_excluded_by_retry(bed: Bed) -> None:
    pair = bed.start_held(5, typed=("--restarts", "0", "--sbatch=--nodelist=node[1-2]"))
    with bed.faults.node_killed("node2"):
        with as_root():  # the site's monitor is quicker than SlurmdTimeout
            bed.desk.slurm("scontrol", "update", "nodename=node2", "state=down", "reason=no power")
        for run in pair.values():
            assert bed.wait(run)[1]["state"] == "NODE_FAIL", run.log()[-3000:]
            bed.without_directive(run, "--nodelist")
            done = bed.desk.run("retry", str(run.path), "--json")
            assert done.returncode == 0, done.stderr
            again = dataclasses.replace(run, job_id=told(bed.desk, run)["job_id"])
            assert (again.job_id != run.job_id, bed.desk.field(again, "ExcNodeList")) == (True, "node2")
        outcome = "NODE_FAIL; `retry` starts it again without that node (Slurm's ExcNodeList), and it continues"
        bed.judge("node killed, and marked DOWN", outcome, pair, jobs=2)


def test_preempted_with_grace(bed: Bed) -> None:
    pair = bed.start_held(3, typed=("--partition", "preempt", "--sbatch=--exclusive"))
    bed.desk.slurm("sbatch", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")
    bed.judge("preemption with 15 s of grace", "saved in the grace period, requeued; continues", pair)
    assert all("saved; requeueing the job" in run.log() for run in pair.values())


def test_walltime_reached(bed: Bed) -> None:
    # The walltime comes to an end when both have begun, however long that took.
    pair = bed.start_held(2, typed=("--signal", "USR2@40"))
    for run in pair.values():
        bed.limit(run, math.ceil(bed.seconds_since_start(run) / 60) + 1)
    longer: set[Path] = set()

    def all_longer() -> bool:  # each as soon as it has saved: the other may be slower
        for run in pair.values():
            if run.path not in longer and "saved; requeueing the job" in run.log():
                bed.limit(run, 20)
                longer.add(run.path)
        return len(longer) == len(pair)

    until(all_longer, "both saved at the signal", 300)
    bed.judge("walltime reached", "saved at the signal, requeued; continues", pair)
    assert all(run.log().count("saved; requeueing the job") == 1 for run in pair.values())


def test_disk_full_while_checkpointing(bed: Bed) -> None:
    held = {2: "1:5:hold", 4: "1:5:hold"}
    pair = bed.start(nodes=1, events=held, typed=("--sbatch=--hold", "--sbatch=--nodelist=node1"))
    folders = [run.path / "checkpoints" for run in pair.values()]
    with bed.faults.small_disks("node1", folders) as shell:
        for run in pair.values():
            bed.desk.slurm("scontrol", "release", run.job_id)
        full: set[Path] = set()

        def all_full() -> bool:  # each as soon as it has begun: the other may be slower
            for folder in folders:
                if folder not in full and 5 in bed.steps(folder.parent):
                    shell(f"cat /dev/zero > {folder}/filler", may_fail=True)
                    full.add(folder)
            return len(full) == len(folders)

        until(all_full, "step 5 of both", 600)
        bed.go(pair)
        for run in pair.values():
            code, record = bed.wait(run)
            assert (code, record["state"]) == (1, "FAILED"), run.log()[-3000:]
            assert "the disk is full or the quota is used up" in run.log()
            assert "The last good checkpoint is" in run.log()
            assert "Traceback" not in run.log()
            shell(f"rm {run.path}/checkpoints/filler")
            bed.without_directive(run, "--hold")
            assert bed.desk.run("resume", str(run.path)).returncode == 0
        bed.judge("disk full while checkpointing", "FAILED 1 with the reason; `resume` completes it", pair, jobs=2)


def test_log_folder_removed(bed: Bed) -> None:
    pair = bed.start_held(5)
    for run in pair.values():
        shutil.rmtree(run.path / "logs")
    bed.go(pair)
    bed.judge("log folder removed in mid-run", "the run continues; the earlier log is lost", pair)


def test_log_folder_removed_before_the_start(bed: Bed) -> None:
    pair = bed.start(typed=("--sbatch=--hold",))
    for run in pair.values():
        shutil.rmtree(run.path / "logs")
        bed.desk.slurm("scontrol", "release", run.job_id)
    if bed.desk.is_newer():
        outcome, jobs = "Slurm makes the folder again; the run completes", 1
    else:
        outcome, jobs = "FAILED with the reason; `resume` makes the folder again", 2
        for run in pair.values():
            code, record = bed.wait(run)
            assert (code != 0, record["state"]) == (True, "FAILED")
            assert "log" in record["reason"]
            bed.without_directive(run, "--hold")
            assert bed.desk.run("resume", str(run.path)).returncode == 0
    bed.judge("log folder removed before the start", outcome, pair, jobs=jobs)
    assert all(list((run.path / "logs").glob("slurm-*.out")) for run in pair.values())


def test_slurmctld_down_during_submit(bed: Bed) -> None:
    before = set(bed.faults.runs())
    impatient = bed.faults.impatient()
    bed.began = time.monotonic()
    with bed.faults.down("slurmctld"):
        for ranks in (2, 4):
            done = bed.desk.run(*bed.command(ranks), env=impatient)
            assert done.returncode == 1, done.stdout
    pair = {}
    for run in set(bed.faults.runs()) - before:
        record = told(bed.desk, run)
        assert (record["state"], record["job_id"], bed.faults.jobs_of(run)) == ("NOT_SUBMITTED", "", [])
        assert bed.desk.run("retry", str(run)).returncode == 0
        pair[bed.ranks_of(run)] = run
    assert sorted(pair) == [2, 4]
    bed.judge("slurmctld down during submit", "NOT_SUBMITTED; `retry` submits it", pair)


def test_sbatch_times_out_after_accepting(bed: Bed) -> None:
    before = set(bed.faults.runs())
    bed.began = time.monotonic()
    with bed.faults.submitting(*(bed.command(ranks) for ranks in (2, 4))) as started:
        # Nobody answers for longer than sbatch waits; the controller obeys all the same, afterwards.
        # Where the queue can be asked again at once, the job is found, and the exit code is 0.
        for process in started:
            _, said = process.communicate(timeout=300)
            assert process.returncode in (0, 1), said
    found = set(bed.faults.runs()) - before
    for run in found:
        until(lambda run=run: told(bed.desk, run)["job_id"] != "", "status finds the job")
    pair = {bed.ranks_of(run): run for run in found}
    assert sorted(pair) == [2, 4]
    bed.judge("sbatch times out after accepting", "found by its folder, submitted once", pair)


def test_slurmctld_down_during_status_and_cancel(bed: Bed) -> None:
    pair = bed.start_held(3)
    impatient = bed.faults.impatient()
    with bed.faults.down("slurmctld"):
        for run in pair.values():
            assert told(bed.desk, run, impatient)["state"] in ("RUNNING", "UNKNOWN")
            refused = bed.desk.run("cancel", str(run.path), env=impatient)
            assert (refused.returncode, "scancel" in refused.stderr) == (1, True)
    for run in pair.values():
        assert told(bed.desk, run)["state"] == "RUNNING"
        assert bed.desk.run("cancel", str(run.path)).returncode == 0
    # Slurm's SIGTERM lets the ranks save; a job that was cancelled is not started again.
    bed.resumed(pair, {"state": "CANCELLED"})
    outcome = (
        "status shows UNKNOWN or the last known state, cancel reports that it failed; CANCELLED later, "
        "`resume` completes it"
    )
    bed.judge("slurmctld down during status and cancel", outcome, pair, jobs=2)


def test_slurmdbd_down(bed: Bed) -> None:
    with bed.faults.down("slurmdbd"):
        pair = bed.start()
        bed.judge("slurmdbd down", "submitted, followed and completed by squeue and the run's markers", pair)
