"""A search of 24 trials on four nodes: two trials are killed, a node is, and a command is; the table is right.

It takes minutes, so it belongs to the long tier; tests/slurm/test_search.py has a search with killed trials.
"""

from __future__ import annotations

import subprocess

import pytest

from tests.faults.conftest import Faults
from tests.slurm.desk import HPCLAUNCH, Desk, Submitted, until
from tests.slurm.searches import checked, hosts, results, searched, with_bowl
from tests.slurm.users import as_root
from tests.tiers import LONG

pytestmark = pytest.mark.timeout(1800)
WAIT_S = 900
KILLED = ({"x": 1, "y": 1}, {"x": 3, "y": 0})


def finished(desk: Desk, run: Submitted) -> set[int]:
    return {one["trial"] for one in results(desk, run)["trials"] if one["state"] == "COMPLETED"}


if LONG:

    def test_a_search_survives_a_killed_node_and_a_killed_command(faults: Faults) -> None:
        desk = with_bowl(faults.desk)
        gate = desk.folder / "open"
        run = searched(desk, "--nodes", "4", "--trials-at-once", "16", "--set", f"gate={gate}")
        following = subprocess.Popen([HPCLAUNCH, "wait", run.path.name], cwd=desk.folder, env=desk.shell())
        until(lambda: len(finished(desk, run)) == 4, "all but those at the gate have ended", WAIT_S)
        until(lambda: len(hosts(run)) == 4, "every node has trials", WAIT_S)
        following.kill()
        following.wait()
        with faults.node_killed("node3"):
            before = finished(desk, run)
            with as_root():  # Slurm itself would miss it after SlurmdTimeout, five minutes
                desk.slurm("scontrol", "update", "nodename=node3", "state=down", "reason=killed by a test")
            until(lambda: desk.states(run).get(run.job_id) != "RUNNING", "Slurm misses the node", WAIT_S)
        gate.touch()
        if desk.run("wait", run.path.name, seconds=WAIT_S).returncode:
            resumed = desk.run("search", "resume", run.path.name)
            assert resumed.returncode == 0, resumed.stderr
            assert desk.run("wait", run.path.name, seconds=WAIT_S).returncode == 0, run.log()
        found = checked(desk, run, nodes=4)
        again = {one["trial"]: one["values"] for one in found["trials"] if one["attempts"] > 1}
        assert {one for one in before if one in again and again[one] not in KILLED} == set(), "made twice"
        assert len(again) > len(KILLED), "no trial ran on the node that was killed"
