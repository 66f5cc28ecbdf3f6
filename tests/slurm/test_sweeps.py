"""Job arrays on a real Slurm: each task its own run, folder, log, start and end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.desk import Desk, until

# Tells what it was given; with seed 2 it saves and asks to be started again, with seed 3 it fails.
TUNE = """
import json, os, signal, sys, time
words = dict(word[2:].split("=", 1) for word in sys.argv[1:])
start = os.environ["HPCLAUNCH_RESTART_COUNT"]
print("seed", words["seed"], "start", start, "in", os.getcwd(), flush=True)
if words["seed"] == "2" and start == "0":
    sys.exit(75)
if words["seed"] == "3":
    sys.exit(7)
with open(os.environ["HPCLAUNCH_RUN_DIR"] + "/metrics.jsonl", "a") as file:
    file.write(json.dumps({"event": "end", "note": words["note"], "start": start}) + "\\n")
"""
NOTE = "$(touch sneaked-in) 'a', \\n \"b\"\n%A"
pytestmark = pytest.mark.timeout(900)
WAIT_S = 300


def told(desk: Desk, *words: str) -> list[dict[str, Any]]:
    done = desk.run(*words, "--json")
    found = json.loads(done.stdout)["runs"]
    assert isinstance(found, list), done.stderr
    return found


@pytest.fixture(scope="module")
def tuning(desk: Desk) -> Desk:
    desk.job("tune", TUNE, parameters={"seed": 1, "note": ""}, restarts=3, summary="tunes")
    return desk


def test_three_tasks_of_one_array_each_with_its_own_values_folder_log_and_end(tuning: Desk) -> None:
    quoted = NOTE.replace('"', '""')
    size = ("--nodes", "1", "--tasks-per-node", "1", "--walltime", "10m")
    run = tuning.submit("tune", *size, "--sweep", "seed=1..3", "--sweep", f'note="{quoted}"', "--at-once", "2")
    waited = tuning.run("wait", run.path.name, seconds=WAIT_S)
    assert waited.returncode == 7, waited.stderr
    each = told(tuning, "status", run.path.name)
    assert [(one["job_id"], one["state"], one["exit_code"]) for one in each] == [
        (f"{run.job_id}_0", "COMPLETED", "0:0"),
        (f"{run.job_id}_1", "COMPLETED", "0:0"),
        (f"{run.job_id}_2", "FAILED", "7:0"),
    ]
    assert "3 runs: 2 COMPLETED, 1 FAILED" in tuning.run("status", run.path.name).stdout
    results = told(tuning, "results", run.path.name)
    assert [one["final"].get("note") for one in results] == [NOTE, NOTE, None]
    assert results[1]["final"]["start"] == "1", "Slurm requeued that one task, and no other"
    starts = [sorted(path.name for path in (run.path / name / "attempts").iterdir()) for name in ("0000", "0001")]
    assert starts == [[f"{run.job_id}_0.0"], [f"{run.job_id}_1.0", f"{run.job_id}_1.1"]]
    log = tuning.run("logs", f"{run.path.name}/0001").stdout
    assert f"seed 2 start 0 in {run.path}/0001" in log
    assert f"seed 2 start 1 in {run.path}/0001" in log
    assert "seed 1" not in log
    assert not list(run.path.rglob("sneaked-in"))
    again = tuning.run("resume", f"{run.path.name}/0002")
    assert again.returncode == 0, again.stderr
    assert tuning.run("wait", f"{run.path.name}/0002", seconds=WAIT_S).returncode == 7
    (third,) = told(tuning, "status", f"{run.path.name}/0002")
    assert (third["state"], third["earlier"]) == ("FAILED", [f"{run.job_id}_2"])
    assert Path(third["run_dir"], "attempts", f"{third['job_id']}.0").is_dir()


def test_a_waiting_array_is_one_line_and_ends_with_one_scancel(tuning: Desk) -> None:
    size = ("--nodes", "1", "--tasks-per-node", "1", "--walltime", "10m")
    run = tuning.submit("tune", *size, "--sweep", "seed=1..200", "--sbatch", "--hold")
    assert "200 runs: 200 PENDING (JobHeldUser)" in tuning.run("status", run.path.name).stdout
    assert len(told(tuning, "status", run.path.name)) == 200
    tuning.run("cancel", f"{run.path.name}/0007")
    assert "199 PENDING, 1 CANCELLED" in tuning.run("status", run.path.name).stdout
    tuning.slurm("scancel", f"{run.job_id}_8")
    # Slurm takes a waiting task out of its array without a word; accounting tells, a little later.
    until(lambda: "198 PENDING, 2 CANCELLED" in tuning.run("status", run.path.name).stdout, "that one is cancelled")
    assert tuning.run("cancel", run.path.name).returncode == 0
    assert tuning.run("wait", run.path.name).returncode == 1
    assert {one["state"] for one in told(tuning, "status", run.path.name)} == {"CANCELLED"}
