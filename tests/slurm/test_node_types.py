"""Nodes of two types in one heterogeneous job on a real Slurm: one world of ranks, exit codes, every verb."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.slurm.desk import PROBE, Desk, until
from tests.tiers import LONG

pytestmark = pytest.mark.timeout(600)
WORLD = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")
TYPES = ("--node-type", "plain:1,twin:2", "--walltime", "10m", "--site")
# What each rank sees, and then the exit code of the last one.
PROBED = PROBE + "sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 and rank == '4' else 0)\n"


@pytest.fixture(scope="module")
def mixed(desk: Desk) -> Desk:
    """A desk at the test cluster as if it had two node types, each with a partition of its own."""
    bundled = Path(__file__).resolve().parents[2] / "site_configs" / "testcluster.yaml"
    node = yaml.safe_load(bundled.read_text())["node_types"]["gpu"]
    plain = {**node, "title": "no GPUs", "gpus_per_node": 0, "partition": "debug", "default_tasks_per_node": 1}
    twin = {**node, "title": "two GPUs", "gpus_per_node": 2, "default_cpus_per_task": 3}
    types = {"node_types": {"plain": plain, "twin": twin}, "defaults__node_type": "twin"}
    # With PMIx, srun of 22.05 hangs at the end of one heterogeneous step in 70: its script then takes two minutes.
    desk.site("mixed", **types, launchers__options__srun__mpi="none")
    desk.site("mixed_pmix", **types)
    desk.job("probe", PROBED, resources={})
    return desk


def record(desk: Desk, name: str) -> dict[str, Any]:
    (found,) = json.loads(desk.run("status", name, "--json").stdout)["runs"]
    assert isinstance(found, dict)
    return found


def test_the_ranks_of_both_node_types_see_one_world(mixed: Desk) -> None:
    run = mixed.submit("probe", *TYPES, "mixed_pmix", "--name", "world")
    assert mixed.run("wait", "world", seconds=400).returncode == 0, run.log()
    ranks = run.ranks()
    seen = [tuple(int(rank["env"][name]) for name in WORLD) for rank in ranks]
    assert seen == [(0, 5, 0, 1, 0), (1, 5, 0, 2, 1), (2, 5, 1, 2, 1), (3, 5, 0, 2, 2), (4, 5, 1, 2, 2)]
    hosts = [rank["host"] for rank in ranks]
    assert hosts[1] == hosts[2] != hosts[3] == hosts[4] and len(set(hosts)) == 3
    assert {(rank["env"]["MASTER_ADDR"], rank["env"]["MASTER_PORT"]) for rank in ranks} == {
        (hosts[0], ranks[0]["env"]["MASTER_PORT"])
    }
    own = [tuple(rank["env"][name] for name in ("HPCLAUNCH_COMPONENT", "OMP_NUM_THREADS")) for rank in ranks]
    assert own == [("0", "8"), *[("1", "3")] * 4]
    assert [rank["env"].get("CUDA_VISIBLE_DEVICES", "").count(",") for rank in ranks[1:]] == [1] * 4
    assert record(mixed, "world")["state"] == "COMPLETED"


def test_the_exit_code_is_that_of_the_rank_that_failed(mixed: Desk) -> None:
    run = mixed.submit("probe", *TYPES, "mixed", "--name", "fails", "--", "7")
    assert mixed.run("wait", "fails").returncode == 7, run.log()
    found = record(mixed, "fails")
    assert (found["state"], found["exit_code"]) == ("FAILED", "7:0")


if LONG:  # Slurm lets a requeued heterogeneous job wait for about 100 s (seen with 22.05)

    def test_the_script_requeues_all_its_nodes_and_the_ranks_start_once_more(mixed: Desk) -> None:
        again = "import os, sys\nprint('start', os.environ['HPCLAUNCH_RESTART_COUNT'], flush=True)\n"
        again += "sys.exit(0 if os.environ['HPCLAUNCH_RESTART_COUNT'] == '1' else 75)\n"
        mixed.job("again", again, resources={}, restarts=2)
        run = mixed.submit("again", *TYPES, "mixed", "--name", "requeued")
        assert mixed.run("wait", "requeued").returncode == 0, run.log()
        log = run.log()
        assert ("saved; requeueing the job" in log, log.count("start 1")) == (True, 5), log


def test_it_is_cancelled_as_one_and_resumed_on_the_same_node_types(mixed: Desk) -> None:
    mixed.job("sleeper", "import time\nprint('up', flush=True)\ntime.sleep(3600)\n", resources={})
    run = mixed.submit("sleeper", *TYPES, "mixed", "--name", "stopped")
    mixed.wait_for_line(run, "up", times=5)
    found = record(mixed, "stopped")
    assert (found["state"], found["nodes"].count(",")) == ("RUNNING", 1)
    assert mixed.run("cancel", "stopped").returncode == 0
    mixed.wait(run)
    again = mixed.run("resume", "stopped", "--walltime", "5m")
    assert again.returncode == 0, again.stderr
    mixed.wait_for_line(run, "up", times=10)  # of both starts
    assert mixed.run("cancel", "stopped").returncode == 0
    until(lambda: mixed.slurm("squeue", "--noheader", "--name=stopped") == "", "the end of all components")
