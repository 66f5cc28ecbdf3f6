"""All jobs without published data at once on the real cluster, each on four ranks on as many hosts."""

from __future__ import annotations

import importlib.util

import pytest

from tests.horovod.test_jobs import SMALL
from tests.slurm.desk import Desk, Submitted

HOSTS = ["node1", "node2", "node3", "node4"]
FOUR = ("--nodes", "4", "--tasks-per-node", "1", "--walltime", "20m", "--synthetic", "--recipe", "job")


@pytest.mark.long_tier  # test_cifar.py and test_frameworks.py train one job on four hosts
@pytest.mark.timeout(900)
def test_jobs_train_on_four_hosts(desk: Desk) -> None:
    if importlib.util.find_spec("horovod") is None:
        pytest.skip("group horovod: needs TensorFlow and Horovod (the extra train)")
    submitted: dict[str, Submitted] = {}
    for job in SMALL:
        typed = [option.removeprefix("--").replace("-", "_") for option in SMALL[job]]
        submitted[job] = desk.submit(job, *FOUR, *(word for text in typed for word in ("--set", text)))
    for job, run in submitted.items():
        desk.wait(run, seconds=800)
        assert desk.ended(run) == "COMPLETED 0:0", run.log()
        (start,) = run.metrics("start")
        assert (start["job"], start["world_size"], start["hosts"]) == (job, 4, HOSTS)
        losses = [line["loss"] for line in run.metrics("epoch")]
        assert losses[-1] < losses[0], job
        assert run.metrics("end")[0]["test_samples"] == start["data"]["samples"]["test"]
