"""A script that is given to sbatch twice, by whomever, runs once; what fails may be started again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.slurm.desk import Desk, Submitted, until

pytestmark = pytest.mark.timeout(600)

# Waits for a file GO in its run directory, and ends with the code that stands there.
WAITS = """
import os, sys, time
here = os.environ["HPCLAUNCH_RUN_DIR"]
with open(here + "/starts", "a") as file:
    print(os.environ["SLURM_JOB_ID"], file=file)
while not os.path.exists(here + "/go"):
    time.sleep(0.1)
sys.exit(int(open(here + "/go").read()))
"""
ONE = ("--nodes", "1", "--tasks-per-node", "1")


@pytest.fixture(scope="module", autouse=True)
def job(desk: Desk) -> None:
    desk.job("waits", WAITS, parameters={"seed": 1}, script="probe.py")


def starts(run: Submitted) -> list[str]:
    file = run.path / "starts"
    return file.read_text().split() if file.exists() else []


def go(run: Submitted, code: int) -> None:
    (run.path / ".go").write_text(str(code))
    (run.path / ".go").rename(run.path / "go")


def by_hand(desk: Desk, run: Submitted, *options: str) -> Submitted:
    """The same script, given to sbatch."""
    return replace(run, job_id=desk.slurm("sbatch", "--parsable", *options, str(run.path / "job.sh")).strip())


def log_of(run: Submitted) -> str:
    return (run.path / "logs" / f"slurm-{run.job_id}.out").read_text()


def refused(desk: Desk, run: Submitted, words: str) -> None:
    """It ended with 78 and said why."""
    desk.wait(run)
    assert desk.ended(run) == "FAILED 78:0"
    assert words in log_of(run), log_of(run)


@pytest.mark.parametrize("standalone", [False, True], ids=["with its library", "standalone"])
def test_a_script_given_to_sbatch_twice_during_and_after_the_first_runs_once(desk: Desk, standalone: bool) -> None:
    words = ("--standalone",) if standalone else ()
    made = desk.run("render", "waits", *ONE, "-o", "twice.sh", "--json", *words)
    assert made.returncode == 0, made.stderr
    path = Path(json.loads(made.stdout)["run_dir"])
    if standalone:
        (path / "hpclaunch.sh").unlink()
    first = Submitted(path=path, job_id=desk.slurm("sbatch", "--parsable", "twice.sh").strip())
    until(lambda: starts(first) == [first.job_id], "the first start")
    during = Submitted(path=path, job_id=desk.slurm("sbatch", "--parsable", "twice.sh").strip())
    refused(desk, during, f"nothing was started: job {first.job_id} has this run directory and is RUNNING")
    (told,) = json.loads(desk.run("status", str(path), "--json").stdout)["runs"]
    assert (told["job_id"], told["state"]) == (first.job_id, "RUNNING")
    go(first, 0)
    desk.wait(first)
    after = Submitted(path=path, job_id=desk.slurm("sbatch", "--parsable", "twice.sh").strip())
    refused(desk, after, f"job {first.job_id} has completed this run. See hpclaunch results {path}")
    assert starts(first) == [first.job_id]
    (told,) = json.loads(desk.run("status", str(path), "--json").stdout)["runs"]
    assert (told["job_id"], told["state"]) == (first.job_id, "COMPLETED")


def test_what_hpclaunch_has_queued_is_the_run_and_a_start_by_hand_before_it_is_refused(desk: Desk) -> None:
    run = desk.submit("waits", *ONE, "--sbatch", "--begin=now+1hour")
    desk.wait_for(run, "PENDING")
    script = run.path / "job.sh"
    script.write_text("".join(x for x in script.read_text().splitlines(keepends=True) if "--begin" not in x))
    refused(desk, by_hand(desk, run), f"job {run.job_id} has this run directory and is PENDING")
    assert starts(run) == []
    assert desk.run("cancel", str(run.path)).returncode == 0
    again = by_hand(desk, run)
    until(lambda: starts(run) == [again.job_id], "the job that waited was cancelled")
    go(run, 0)
    desk.wait(again)
    assert desk.ended(again) == "COMPLETED 0:0"


def test_after_a_failure_the_next_start_by_hand_takes_the_run_and_so_does_resume(desk: Desk) -> None:
    run = desk.submit("waits", *ONE)
    go(run, 3)
    desk.wait(run)
    assert desk.ended(run) == "FAILED 3:0"
    second = by_hand(desk, run)
    desk.wait(second)
    assert (desk.ended(second), starts(run)) == ("FAILED 3:0", [run.job_id, second.job_id])
    go(run, 0)
    done = desk.run("resume", str(run.path), "--json")
    assert done.returncode == 0, done.stderr
    third = replace(run, job_id=json.loads(done.stdout)["job_id"])
    desk.wait(third)
    assert (desk.ended(third), starts(run)[2:]) == ("COMPLETED 0:0", [third.job_id])


def test_a_killed_script_leaves_a_claim_that_does_not_outlive_its_job(desk: Desk) -> None:
    run = desk.submit("waits", *ONE)
    until(lambda: starts(run) == [run.job_id], "the first start")
    desk.slurm("scancel", "--batch", "--signal=KILL", run.job_id)
    desk.wait(run)
    assert not list(run.path.glob("attempts/*/exit-code"))
    second = by_hand(desk, run)
    go(run, 0)
    desk.wait(second)
    assert (desk.ended(second), starts(run)) == ("COMPLETED 0:0", [run.job_id, second.job_id])


def test_each_task_of_an_array_is_run_once(desk: Desk) -> None:
    run = desk.submit("waits", *ONE, "--sweep", "seed=1,2", "--at-once", "2")
    tasks = [replace(run, path=run.path / name, job_id=f"{run.job_id}_{n}") for n, name in enumerate(("0000", "0001"))]
    until(lambda: all(starts(task) for task in tasks), "both tasks")
    twice = desk.slurm("sbatch", "--parsable", "--array=0-1", str(run.path / "job.sh")).strip()
    for number, task in enumerate(tasks):
        second = replace(run, job_id=f"{twice}_{number}")
        until(lambda log=run.path / f"logs/slurm-{twice}_{number}.out": log.exists(), "its log")
        refused(desk, second, f"job {task.job_id} has this run directory and is RUNNING")
        go(task, 0)
    desk.wait(run)
    assert [len(starts(task)) for task in tasks] == [1, 1]
