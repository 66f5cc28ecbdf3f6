"""``scale`` on the real cluster: a small job of known steps, and in the long tier real CIFAR-10 on 1, 2 and 4 nodes."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.desk import Desk
from tests.tiers import LONG

# No TensorFlow: a rank that reports how long it slept, not how long a busy machine let it sleep, has a known speed. Its
# steps have a part that no batch shortens, and on several nodes a long exchange.
SLEEPER = """
import json, os, sys, time
said = dict(word[2:].split("=") for word in sys.argv[1:])
nodes, batch = int(os.environ["SLURM_JOB_NUM_NODES"]), int(said["batch"])
if os.environ["SLURM_PROCID"] != "0":
    sys.exit(0)
for epoch in range(int(said["epochs"])):
    steps = int(said["train-samples"]) // (nodes * batch)
    compute, communication = 0.005 + 0.001 * batch, 0.02 * (nodes > 1)
    seconds = steps * (compute + communication)
    time.sleep(seconds)
    parts = {"compute": compute, "communication": communication, "input": 0.0}
    line = {"event": "epoch", "seconds": seconds, "samples_per_s": steps * nodes * batch / seconds}
    line.update(step_seconds=parts, step_seconds_by_rank=[compute] * nodes)
    with open(os.environ["HPCLAUNCH_RUN_DIR"] + "/metrics.jsonl", "a") as file:
        file.write(json.dumps(line) + chr(10))
"""


@pytest.mark.timeout(900)
def test_a_tiny_batch_on_two_nodes_is_slower_than_one_process_because_of_its_communication(desk: Desk) -> None:
    desk.job(
        "sleeper",
        SLEEPER,
        parameters={"epochs": 30, "batch": 8, "train_samples": 0},
        resources={"tasks_per_node": 1, "cpus_per_task": 1, "gpus_per_node": 0, "exit_wait": 60},
        training={
            "samples": 40_000,
            "names": {"batch_size_per_rank": "batch"},
            "figures": {"parameters": 1e6, "flops_per_sample": 2e9, "saved_bytes_per_sample": 4e6},
        },
    )
    words = ("scale", "sleeper", "--nodes", "1,2", "--steps", "20", "--wait", "--json")
    done = desk.run(*words, seconds=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["step_s"] for row in found["rows"]] == pytest.approx([0.013, 0.029])
    assert found["rows"][1]["speed_up"] == pytest.approx(13 / 29) and found["complete"]
    (warning,) = found["warnings"]
    assert "2 ranks on 2 nodes x 4 samples are slower than one process with the same global batch of 8" in warning
    assert "what costs most is communication: 20 ms" in warning
    again = desk.run(*words)
    assert json.loads(again.stdout)["rows"] == found["rows"] and "submitted" not in again.stderr
    planned = json.loads(desk.run("plan", "sleeper", "--nodes", "2", "--json").stdout)
    assert planned["measured"].startswith("2 runs on 1 and 2 nodes, ")
    _check_costs(found)


def _check_costs(found: dict[str, Any]) -> None:
    """A cluster that charges by time has charged for both runs."""
    known = [row["cost_of_epoch"] for row in found["rows"] if row["cost_of_epoch"] is not None]
    assert (found["spent"] is not None) == bool(known) and all(cost > 0 for cost in known)


if LONG:

    @pytest.mark.timeout(3600)
    def test_a_study_of_real_images_divides_its_steps_and_names_what_a_tiny_batch_costs(desk: Desk) -> None:
        if importlib.util.find_spec("horovod") is None:
            pytest.skip("group horovod: needs TensorFlow and Horovod (the extra train)")
        folder = os.environ.get("HPCLAUNCH_TEST_DATA", "")
        if not (Path(folder) / "cifar10").is_dir():
            pytest.skip("group cifar10: set HPCLAUNCH_TEST_DATA to a folder that holds cifar10/")
        job = (
            "--tasks-per-node",
            "1",
            "--data-dir",
            str(Path(folder).resolve()),
            "--one-by-one",
            "--json",
            "--walltime",
            "1:00:00",
        )
        words = ("scale", "cifar", "--nodes", "1,2,4", "--steps", "20", "--global-batch", "128", *job)
        done = desk.run(*words, seconds=1800)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["complete"] and [row["ranks"] for row in found["rows"]] == [1, 2, 4]
        for row in found["rows"]:
            split = row["split"]
            assert 0 < sum(split.values()) <= 1.05 * row["step_s"] and split["compute_s"] > 0
            assert (split["communication_s"] > 0) == (row["ranks"] > 1)
        proposal = (Path(found["study"]["path"]) / "proposal.md").read_text()
        assert "The global batch of 128 samples was the same in all layouts." in proposal
        tiny = desk.run("scale", "cifar", "--nodes", "4", "--steps", "30", "--global-batch", "4", *job, seconds=1800)
        assert tiny.returncode == 0, tiny.stderr
        found = json.loads(tiny.stdout)
        (warning,) = [text for text in found["warnings"] if "one process" in text]
        # The first study has measured the job here, so a plan can predict the second.
        assert all(row["predicted"] > 0 and row["prediction_error"] is not None for row in found["rows"])
        assert "4 ranks on 4 nodes x 1 sample are slower than one process with the same global batch of 4" in warning
        assert "what costs most is " in warning and "the cause is not known" not in warning
