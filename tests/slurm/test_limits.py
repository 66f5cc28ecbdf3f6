"""What a real Slurm admits through a QOS with flags, and in a partition with blanks in its name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.slurm.conftest import Cluster
from tests.slurm.desk import Desk, until
from tests.slurm.users import TESTER, as_root

pytestmark = pytest.mark.timeout(300)
BLANKS = "GPU nodes (nvidia)"


@pytest.fixture(scope="module")
def narrow(desk: Desk, cluster: Cluster) -> Iterator[Desk]:
    """A desk at the cluster with a partition of one hour and two nodes, and a QOS that lifts both."""
    if not cluster.accounting:
        pytest.skip("group accounting: this cluster has none, and so no QOS")
    with as_root():
        desk.slurm("scontrol", "create", "PartitionName=narrow", "Nodes=node[1-4]", "MaxTime=60", "MaxNodes=2")
        desk.slurm("scontrol", "create", f"PartitionName={BLANKS}", "Nodes=node1", "MaxTime=60")
        flags = "Flags=PartitionTimeLimit,PartitionMaxNodes"
        desk.slurm("sacctmgr", "-i", "add", "qos", "lifting", "MaxWall=7-00:00:00", flags)
        desk.slurm("sacctmgr", "-i", "modify", "account", "where", "Account=research,physics", "set", "QOS+=lifting")
    desk.job("idle", "import time; time.sleep(120)\n", resources={"nodes": 1})
    desk.site("lab")
    until(lambda: "lifting" in desk.slurm("sacctmgr", "-n", "-P", "show", "associations", "format=QOS"), "QOS")
    yield desk
    with as_root():
        desk.slurm("scancel", "--partition=narrow")
        desk.slurm("scancel", f"--partition={BLANKS}")
        for name in ("narrow", BLANKS):
            until(lambda name=name: not desk.slurm("squeue", "--noheader", f"--partition={name}").strip(), name)
            desk.slurm("scontrol", "delete", f"PartitionName={name}")
        desk.slurm("sacctmgr", "-i", "delete", "qos", "lifting")


def asked(desk: Desk, *words: str) -> Any:
    return desk.run("submit", "idle", "--site", "lab", "--account", "research", "--partition", "narrow", *words)


@pytest.mark.parametrize("words", [("--nodes", "1", "--walltime", "3:00:00"), ("--nodes", "3", "--walltime", "10:00")])
def test_a_qos_with_flags_admits_what_the_partition_does_not(narrow: Desk, words: tuple[str, ...]) -> None:
    refused = asked(narrow, *words)
    assert refused.returncode == 1 and "Slurm's partition narrow: " in refused.stderr, refused.stderr
    run = narrow.submit(
        "idle", "--site", "lab", "--account", "research", "--partition", "narrow", "--qos", "lifting", *words
    )
    until(lambda: narrow.states(run).get(run.job_id) == "RUNNING", "running")
    assert narrow.run("cancel", run.path.name, "--yes").returncode == 0


def test_a_partition_with_blanks_in_its_name_runs_a_job(narrow: Desk) -> None:
    narrow.job("short", "print('done')\n", resources={"nodes": 1})
    run = narrow.submit("short", "--site", "lab", "--partition", BLANKS, "--nodes", "1", "--walltime", "10:00")
    narrow.wait(run)
    (told,) = json.loads(narrow.run("status", run.path.name, "--json").stdout)["runs"]
    assert told["state"] == "COMPLETED"
    assert narrow.ended(run) == "COMPLETED 0:0"
    asked = ("sacct", "-n", "-P", "-X", f"--jobs={run.job_id}", "--format=Partition")
    until(lambda: narrow.slurm(*asked).strip() == BLANKS, "the accounting of the job")  # slurmdbd hears of it later


def test_a_requeued_and_held_job_says_so(narrow: Desk) -> None:
    run = narrow.submit("idle", "--site", "lab", "--partition", "batch", "--nodes", "1", "--walltime", "10:00")
    until(lambda: narrow.states(run).get(run.job_id) == "RUNNING", "running")
    narrow.slurm("scontrol", "update", f"JobId={run.job_id}", "Requeue=1")
    narrow.slurm("scontrol", "requeuehold", "State=SpecialExit", run.job_id)
    until(lambda: narrow.states(run).get(run.job_id) == "SPECIAL_EXIT", "held")
    told = narrow.run("status", run.path.name).stdout
    assert "SPECIAL_EXIT" in told and f"scontrol release {run.job_id}" in told
    assert narrow.run("cancel", run.path.name, "--yes").returncode == 0


def test_names_that_only_slurm_knows_are_accepted_and_typing_errors_are_not(narrow: Desk) -> None:
    """The partition, the QOS and the account are new at the cluster; the site file lists others."""
    with as_root():
        narrow.slurm("sacctmgr", "-i", "add", "account", "newcomers")
        narrow.slurm("sacctmgr", "-i", "add", "user", TESTER, "Account=newcomers", "QOS=normal,lifting")
    try:
        folder = narrow.folder / "site_configs"
        content = json.loads((folder / "lab.yaml").read_text())
        content |= {"partitions": {"batch": {}, "debug": {}}, "qos": {"normal": {}}}
        (folder / "listed.yaml").write_text(json.dumps(content))
        words = ("--site", "listed", "--nodes", "1", "--walltime", "10:00", "--partition", "narrow", "--qos", "lifting")
        account = ("--account", "newcomers")
        run = narrow.submit("idle", *words, *account)
        until(lambda: narrow.states(run).get(run.job_id) == "RUNNING", "running")
        assert narrow.run("cancel", run.path.name, "--yes").returncode == 0
        assert narrow.run("submit", "idle", *words, *account, "--dry-run").returncode == 0
        for wrong, right in (("narow", "narrow"), ("liftin", "lifting"), ("newcomer", "newcomers")):
            typed = [wrong if word == right else word for word in (*words, *account)]
            refused = narrow.run("submit", "idle", *typed)
            assert refused.returncode == 1 and f"did you mean {right!r}?" in refused.stderr, refused.stderr
    finally:
        with as_root():
            narrow.slurm("sacctmgr", "-i", "delete", "account", "newcomers")
