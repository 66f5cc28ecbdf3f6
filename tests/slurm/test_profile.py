"""``profile`` on the real cluster: three short runs, and the plan that rests on them and on the queue."""

from __future__ import annotations

import json

import pytest

from tests.slurm.desk import Desk

# No TensorFlow: a rank that tells how long it slept through its steps, not how long a busy machine let it sleep, has a
# known speed.
SLEEPER = """
import json, os, sys, time
said = dict(word[2:].split("=") for word in sys.argv[1:])
nodes, batch = int(os.environ["SLURM_JOB_NUM_NODES"]), int(said["batch"])
if os.environ["SLURM_PROCID"] != "0":
    sys.exit(0)
for epoch in range(int(said["epochs"])):
    steps = int(said["train-samples"]) // (nodes * batch)
    seconds = steps * (0.02 + 0.001 * batch)
    time.sleep(seconds)
    line = {"event": "epoch", "seconds": seconds, "samples_per_s": steps * nodes * batch / seconds}
    with open(os.environ["HPCLAUNCH_RUN_DIR"] + "/metrics.jsonl", "a") as file:
        file.write(json.dumps(line) + chr(10))
"""


@pytest.mark.timeout(900)
def test_a_job_is_measured_and_planned_by_what_was_measured(desk: Desk) -> None:
    desk.job(
        "sleeper",
        SLEEPER,
        parameters={"epochs": 30, "batch": 64, "train_samples": 0},
        resources={"tasks_per_node": 1, "cpus_per_task": 1, "gpus_per_node": 0, "exit_wait": 60},
        training={
            "samples": 50_000,
            "names": {"batch_size_per_rank": "batch"},
            "figures": {"parameters": 1e6, "flops_per_sample": 2e9, "saved_bytes_per_sample": 4e6},
        },
    )
    done = desk.run("profile", "sleeper", "--steps", "10", "--json", seconds=600)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [run["state"] for run in told["runs"]] == ["COMPLETED"] * 3
    assert len({run["job_id"] for run in told["runs"]}) == 3
    found = [(point["nodes"], point["per_rank"], point["samples_per_s"]) for point in told["calibration"]["points"]]
    expected = [(1, 64, 64 / 0.084), (1, 32, 32 / 0.052), (2, 64, 128 / 0.084)]
    assert [one[:2] for one in found] == [one[:2] for one in expected]
    assert [one[2] for one in found] == pytest.approx([one[2] for one in expected], rel=0.1)
    planned = json.loads(desk.run("plan", "sleeper", "--nodes", "4", "--json").stdout)
    assert planned["measured"].startswith("3 runs on 1 and 2 nodes, ")
    (four,) = [row for row in planned["rows"] if row["nodes"] == 4]
    assert four["throughput"]["samples_per_s"]["middle"] == pytest.approx(4 * 64 / 0.084, rel=0.15)
    # Slurm itself tells of the queue: its history where there is one, else its estimate.
    assert planned["queue"].startswith(("half of such jobs wait at most (", "sbatch's estimate (by nodes) "))
    assert four["candidate"]["wait_s"] >= 0
