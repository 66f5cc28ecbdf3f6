"""What belongs to another user: hpclaunch shows it as theirs, and Slurm lets nobody else touch it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.slurm.conftest import Cluster
from tests.slurm.desk import PATIENCE_S, Desk, Submitted, new_desk
from tests.slurm.users import OTHER, as_user

pytestmark = pytest.mark.timeout(300)
ONE = ("--tasks-per-node", "1")


@pytest.fixture(scope="module")
def theirs(cluster: Cluster) -> Iterator[tuple[Desk, Submitted]]:
    """Another user's desk, and a run of that user that goes on."""
    with as_user(OTHER):
        desk = new_desk(cluster.root, cluster.conf, "other")
        desk.job("long", "import time\nprint('begun', flush=True)\ntime.sleep(3600)\n")
        run = desk.submit("long", *ONE)
        desk.wait_for_line(run, "begun")
    yield desk, run
    with as_user(OTHER):
        desk.slurm("scancel", run.job_id)


def test_the_tests_themselves_are_no_operators_of_the_cluster(desk: Desk) -> None:
    assert os.getuid() != 0
    refused = subprocess.run(
        ["scontrol", "update", "partition=debug", "state=down"], env=desk.shell(), capture_output=True, text=True
    )
    assert refused.returncode != 0
    assert "Invalid user id" in refused.stderr


@pytest.mark.parametrize("named", ["by its directory", "by its job"])
@pytest.mark.parametrize("verb", ["status", "cancel", "retry", "resume"])
def test_a_run_of_another_user_is_never_acted_on(
    desk: Desk, theirs: tuple[Desk, Submitted], verb: str, named: str
) -> None:
    _, run = theirs
    done = desk.run(verb, str(run.path) if named == "by its directory" else run.job_id)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    assert done.stderr.strip(), "it says why"
    assert desk.states(run) == {run.job_id: "RUNNING"}


def test_slurm_refuses_to_cancel_it_as_well(desk: Desk, theirs: tuple[Desk, Submitted]) -> None:
    _, run = theirs
    refused = subprocess.run(
        ["scancel", run.job_id], env=desk.shell(), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert "denied" in refused.stderr
    assert desk.states(run) == {run.job_id: "RUNNING"}


def test_its_owner_sees_and_cancels_it(theirs: tuple[Desk, Submitted]) -> None:
    desk, run = theirs
    with as_user(OTHER):
        (told,) = json.loads(desk.run("status", run.job_id, "--json").stdout)["runs"]
        assert told["state"] == "RUNNING"
        short = desk.submit("long", *ONE)
        assert desk.run("cancel", str(short.path)).returncode == 0
