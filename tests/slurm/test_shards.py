"""GPUs that Slurm divides into shards: found as a node type, asked for, and held by one rank of a node."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from tests.slurm.conftest import Cluster
from tests.slurm.desk import Desk
from tests.slurm.second import second_cluster

pytestmark = pytest.mark.timeout(600)
SEEN = 'echo "<$(hostname) $CUDA_VISIBLE_DEVICES $SLURM_SHARDS_ON_NODE>"'


@pytest.fixture(scope="module")
def parts(cluster: Cluster, desk: Desk) -> Iterator[Desk]:
    """A desk at a cluster with 4 GPUs and 16 shards on each node, whose site file was detected."""
    with second_cluster(cluster, "--nodes", "2", "--shards", "16", "--no-accounting") as conf:
        there = dataclasses.replace(desk, conf=conf)
        done = there.run("sites", "detect", "--name", "parts")
        assert done.returncode == 0, done.stderr
        yield there


def test_shards_are_found_and_the_file_has_no_difference(parts: Desk) -> None:
    done = parts.run("sites", "check", "parts")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    shown = parts.run("sites", "show", "parts").stdout
    assert "4 parts, a job gets one" in shown


def test_each_node_of_a_run_gives_its_rank_a_part_of_one_gpu(parts: Desk) -> None:
    one = ("--site", "parts", "--node-type", "shard", "--walltime", "10m")
    run = parts.submit(*one, "--nodes", "2", "--", "bash", "-c", SEEN)
    parts.wait(run)
    seen = sorted(line for line in run.log().splitlines() if line.startswith("<"))
    assert seen == ["<node1 0 1>", "<node2 0 1>"], run.log()
    refused = parts.run("submit", *one, "--tasks-per-node", "2", "--", "true")
    assert refused.returncode == 1 and "NCCL joins no two ranks on one GPU" in refused.stderr
