"""Environments that are built for real, in a job of the cluster, from downloaded packages, and then train on two nodes.

PyTorch takes minutes and 10 GB for a while; TensorFlow with Horovod compiles for a quarter of an hour.
"""

from __future__ import annotations

import json
import time

import pytest

from tests.slurm.desk import Desk

LONGEST_S = 2400
FEW = ("--set", "epochs=2", "--set", "batch_size_per_rank=64", "--set", "synthetic_samples=1280")
TRAINING = ("--nodes", "2", "--tasks-per-node", "1", "--walltime", "20m", "--synthetic", "--recipe", "job", *FEW)
PROBE = ("--nodes", "2", "--tasks-per-node", "1", "--gpus-per-node", "0")


@pytest.mark.long_tier
@pytest.mark.timeout(LONGEST_S)
@pytest.mark.parametrize(("framework", "job"), [("pytorch", "ddp"), ("tensorflow", "cifar")])
def test_an_environment_is_built_in_a_job_and_trains_on_two_nodes(desk: Desk, framework: str, job: str) -> None:
    began = time.monotonic()
    name = f"real-{framework}"
    done = desk.run(
        "environment", "make", name, "--framework", framework, "--as-job", "--walltime", "2h", seconds=LONGEST_S
    )
    assert done.returncode == 0, done.stderr
    try:
        build = desk.newest()
        ended = desk.run("wait", str(build.path), seconds=LONGEST_S)
        assert (ended.returncode, desk.ended(build)) == (0, "COMPLETED 0:0"), build.log()
        minutes = (time.monotonic() - began) / 60
        shown = json.loads(desk.run("environment", "show", name, "--json").stdout)
        built = shown["built"]
        assert (shown["state"], built["host"]) == ("complete", "node1")
        if framework == "tensorflow":
            assert built["horovod"]["mpi"] and built["horovod"]["gloo"], built
        print(f"{name}: {built['version']} on {built['finished']}, {minutes:.0f} minutes with the download")

        report = json.loads(
            desk.run("doctor", "--environment", name, "--json", *PROBE, seconds=LONGEST_S).stdout or "{}"
        )
        verdicts = {check["name"]: check["verdict"] for check in report.get("checks", ())}
        assert verdicts[{"pytorch": "PyTorch", "tensorflow": "Horovod"}[framework]] == "PASS", report
        run = desk.submit(job, *TRAINING, "--environment", name)
        ended = desk.run("wait", str(run.path), seconds=LONGEST_S)
        assert (ended.returncode, desk.ended(run)) == (0, "COMPLETED 0:0"), run.log()
        (start,) = run.metrics("start")
        losses = [line["loss"] for line in run.metrics("epoch")]
        assert (start["world_size"], start["hosts"]) == (2, ["node1", "node2"])
        assert losses[-1] < losses[0]
        print(f"{job} on 2 nodes: losses {', '.join(f'{loss:.3f}' for loss in losses)}")
    finally:
        desk.run("environment", "remove", name, "--yes")
