"""A sweep that is larger than one array of a real Slurm: three arrays, one record, one limit, one cancel."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.slurm.desk import Desk, new_desk, until
from tests.slurm.second import second_cluster

pytestmark = pytest.mark.timeout(900)
LARGEST, RUNS, AT_ONCE = 1001, 3000, 4
# Says which run it is, and how many of the sweep run at that moment; then waits a little, so that others can begin.
TRIAL = """
import os, sys, time
run = os.environ["HPCLAUNCH_RUN_DIR"]
mark = os.path.join(os.path.dirname(run), "running-" + os.path.basename(run))
open(mark, "w").close()
time.sleep(0.5)
together = len([name for name in os.listdir(os.path.dirname(run)) if name.startswith("running-")])
os.unlink(mark)
print("run", os.path.basename(run), *sys.argv[1:], "beside", together, flush=True)
"""


@pytest.fixture(scope="module")
def small_arrays(cluster: Any) -> Iterator[Desk]:
    """A desk on a cluster whose arrays may have as many tasks as those of a Slurm that nobody has changed."""
    options = ("--max-array-size", str(LARGEST), "--nodes", "1", "--cpus", "8", "--no-accounting", "--no-preempt")
    with second_cluster(cluster, *options) as conf:
        desk = new_desk(conf.parents[1], conf, "large_sweeps")
        desk.job("trial", TRIAL, parameters={"seed": 1}, summary="tells which run it is")
        yield desk


def test_3000_runs_are_three_arrays_with_one_record_one_limit_and_one_cancel(small_arrays: Desk) -> None:
    desk, size = small_arrays, ("--nodes", "1", "--tasks-per-node", "1", "--walltime", "10m")
    began = time.monotonic()
    run = desk.submit("trial", *size, "--sweep", f"seed=1..{RUNS}", "--at-once", str(AT_ONCE))
    print(f"submitted in {time.monotonic() - began:.1f} s")
    record = json.loads((run.path / "run.json").read_text())
    jobs = [*record["earlier"], record["job_id"]]
    assert (len(jobs), record["tasks"], record["offsets"]) == (3, RUNS, [0, LARGEST, 2 * LARGEST])
    limits = desk.slurm("squeue", "--noheader", "--format=%i", "--states=PENDING").split()
    assert sum(int(text.partition("%")[2].rstrip("]")) for text in limits if "%" in text) == AT_ONCE, limits
    until(lambda: all(len(finished(run.path, job)) >= 2 for job in jobs), "two runs of each array have ended", 300)
    lines = [line.split() for job in jobs for line in finished(run.path, job)]
    assert all(int(line[1]) + 1 == int(line[2].removeprefix("--seed=")) for line in lines), lines
    assert max(int(line[-1]) for line in lines) <= AT_ONCE, lines
    assert f"{RUNS} runs: " in desk.run("status", run.path.name).stdout
    after = desk.submit(*size, "--name", "after", "--after-any", run.path.name, "--", "true")
    waits_for = desk.field(after, "Dependency")
    assert all(f"afterany:{job}_*" in waits_for for job in jobs), waits_for
    began = time.monotonic()
    cancelled = desk.run("cancel", run.path.name)
    print(f"cancelled in {time.monotonic() - began:.1f} s")
    assert cancelled.returncode == 0, cancelled.stderr
    until(lambda: not desk.slurm("squeue", "--noheader", "--format=%i").split(), "nothing is queued any more")
    assert desk.run("wait", "after").returncode == 0
    each = json.loads(desk.run("status", run.path.name, "--json").stdout)["runs"]
    assert len(each) == RUNS
    assert {one["state"] for one in each} <= {"COMPLETED", "CANCELLED"}, {one["state"] for one in each}


def finished(path: Any, job: str) -> list[str]:
    """The lines of the ended runs of one of the arrays."""
    logs = sorted((path / "logs").glob(f"slurm-{job}_*.out"))
    return [
        line for log in logs for line in log.read_text().splitlines() if line.startswith("run ") and "beside" in line
    ]
