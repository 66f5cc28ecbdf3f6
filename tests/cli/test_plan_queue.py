"""How ``plan`` learns how long a job would wait: from sacct, else from sbatch, where they are the site's own."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from tests.cli.conftest import Desk

JOB = {
    "summary": "mine",
    "script": "train.py",
    "parameters": {"epochs": 30, "batch_size_per_rank": 64},
    "resources": {"tasks_per_node": 1},
    "training": {
        "samples": 1_000_000,
        "base_batch": 64,
        "critical_batch": 100_000,
        "figures": {"parameters": 1e6, "flops_per_sample": 2e9, "saved_bytes_per_sample": 4e6},
    },
}
POINTS = [{"nodes": nodes, "ranks_per_node": 1, "per_rank": 64, "samples_per_s": 99.0 * nodes} for nodes in (1, 2)]


@pytest.fixture
def site(cluster: Desk) -> Desk:
    cluster.write("jobs/mine/train.py", "")
    cluster.write("jobs/mine/job.yaml", json.dumps(JOB))
    cluster.write("c.json", json.dumps({"points": POINTS}))
    slurm_of(cluster, "slurmsite")
    return cluster


def slurm_of(desk: Desk, cluster: str) -> None:
    """Make the Slurm of this machine that of ``cluster``; an empty name: nothing tells whose it is."""
    desk.write(str(desk.root / "slurm.conf"), f"ClusterName={cluster}\n" if cluster else "")


def line(nodes: int, waited: int, partition: str = "batch") -> str:
    submit = datetime(2026, 1, 2, 3, 4, 5)
    start = submit + timedelta(seconds=waited)
    return f"{submit:%Y-%m-%dT%H:%M:%S}|Unknown|{start:%Y-%m-%dT%H:%M:%S}|{nodes}|00:10:00|{partition}|normal\n"


def plan(desk: Desk, *words: str) -> dict[str, object]:
    done = desk.type("plan", "mine", "--calibration", "c.json", "--json", *words)
    assert done.code == 0, done.err
    found: dict[str, object] = done.json
    return found


def waits(found: dict[str, object]) -> list[float]:
    rows: list[dict[str, object]] = found["rows"]  # type: ignore[assignment]
    return [row["candidate"]["wait_s"] for row in rows if row["candidate"]]  # type: ignore[index]


def assert_until(start: datetime, found: list[float], begun: datetime) -> None:
    """Three waits, each as long as from its question, some time between ``begun`` and now, to ``start``."""
    most, least = (start - begun).total_seconds(), (start - datetime.now()).total_seconds()
    assert len(found) == 3 and all(least - 1 <= wait <= most for wait in found), (least, found, most)  # whole seconds


def test_the_history_of_the_cluster_bounds_the_wait_and_may_change_the_choice(site: Desk) -> None:
    without = plan(site)
    assert (without["queue"], waits(without), without["nodes"]) == ("", [0.0] * 3, 4)
    history = line(1, 60) * 5 + line(2, 120) * 60 + line(4, 9_000_000) * 5
    site.fake("sacct", out=history + "2026-01-02T03:04:05|Unknown|Unknown|1|UNLIMITED|batch|normal\ndamaged\n")
    found = plan(site)
    assert waits(found) == [60.0, 120.0, 9_000_000.0]
    assert found["queue"] == (
        "half of such jobs wait at most (70 jobs of 14 days; by nodes) 1: 60 s, 2: 120 s, 4: 9000000 s"
    )
    assert found["nodes"] == 2
    assert "--starttime=now-14days" in site.given("sacct")
    out = site.type("plan", "mine", "--calibration", "c.json", "--explain").out
    assert "QUEUE" in out and "bound on the 95 % quantile = 120 s" in out and "PPoPP 2006" in out


def test_without_history_sbatch_is_asked_and_queues_nothing(site: Desk) -> None:
    start = datetime.now() + timedelta(days=1)
    site.fake("sbatch", err=f"sbatch: Job 7 to start at {start:%Y-%m-%dT%H:%M:%S} using 8 processors on nodes n1\n")
    site.fake("sacct", out=line(2, 120, "debug") * 60, err="", code=0)
    begun = datetime.now()
    found = plan(site)
    assert_until(start, waits(found), begun)
    assert str(found["queue"]).startswith("sbatch's estimate (by nodes) 1: ")
    assert "--test-only" in site.given("sbatch")
    assert "#SBATCH --nodes=4" in (site.spool / "script").read_text()
    assert not (site.project / "runs").exists()


def test_a_job_file_is_read_once_however_many_counts_are_asked_about(site: Desk) -> None:
    start = datetime.now() + timedelta(days=1)
    words = f"sbatch: Job 7 to start at {start:%Y-%m-%dT%H:%M:%S} using 8 processors on nodes n1"
    site.fake("sacct", out="")
    # The job file is gone after the first question: a plan that read it again would know nothing of the others.
    job = site.project / "jobs/mine/job.yaml"
    site.program("sbatch", f"#!/bin/bash\n/bin/cat > /dev/null\n/bin/rm -f {job}\necho '{words}' >&2\n")
    begun = datetime.now()
    found = plan(site)
    assert not job.exists()
    assert_until(start, waits(found), begun)
    assert str(found["queue"]).count(": ") == 3


def test_a_count_that_nobody_knows_of_gets_the_wait_of_the_next(site: Desk) -> None:
    site.fake("sbatch", err="sbatch: error: Batch job submission failed\n", code=1)
    site.fake("sacct", out=line(2, 120) * 5)
    assert waits(plan(site)) == [120.0] * 3


SLURM = ("sacct", "sacctmgr", "salloc", "sbatch", "scancel", "scontrol", "sdiag", "sinfo", "sprio", "squeue", "srun")
ELSEWHERE = "wait in the queue: not known ({}), and not counted"


@pytest.fixture
def recorded(site: Desk) -> Desk:
    """A desk where every call of a program of Slurm adds a line to ``calls``."""
    for name in (*SLURM, "sshare", "sstat"):
        site.program(name, f"#!/bin/bash\necho {name} >> {site.spool}/calls\n")
    with (site.project / "site_configs/slurmsite.yaml").open("a") as file:
        file.write("detect: {environment: {CENTRE: here}}\n")
    site.environment.pop("HPCLAUNCH_SITE")
    return site


def calls(desk: Desk) -> set[str]:
    record = desk.spool / "calls"
    return set(record.read_text().split()) if record.exists() else set()


@pytest.mark.parametrize(
    ("words", "named", "variables", "why"),
    [
        (["--site", "perlmutter"], "slurmsite", {"CENTRE": "here"}, "this machine is slurmsite's"),
        (["--site", "perlmutter"], "", {"CENTRE": "here"}, "this machine is slurmsite's"),
        (["--site", "perlmutter"], "", {}, "this machine is not known to be one of perlmutter's"),
        (["--site", "perlmutter"], "another", {}, "this machine is not known to be one of perlmutter's"),
        ([], "another", {"HPCLAUNCH_SITE": "perlmutter"}, "this machine is not known to be one of perlmutter's"),
        (["--site", "testcluster"], "perlmutter", {}, "this machine is not known to be one of testcluster's"),
        (["--site", "slurmsite"], "another", {}, "this machine is not known to be one of slurmsite's"),
        (["--site", "cori"], "", {"NERSC_HOST": "cori"}, "cori is retired"),
    ],
)
def test_the_slurm_of_another_site_is_never_called(
    recorded: Desk, words: list[str], named: str, variables: dict[str, str], why: str
) -> None:
    slurm_of(recorded, named)
    done = recorded.type("plan", "cifar", "--json", *words, **variables)
    assert done.code == 0, done.err
    assert (done.json["queue"], calls(recorded)) == ("", set())
    assert ELSEWHERE.format(why) in done.json["assumed"]
    assert "asking" not in done.err


@pytest.mark.parametrize(
    ("words", "named", "variables"),
    [
        ([], "another", {"CENTRE": "here"}),
        (["--site", "slurmsite"], "slurmsite", {}),
        (["--site", "perlmutter"], "perlmutter", {}),
        (["--site", "perlmutter"], "", {"NERSC_HOST": "perlmutter"}),
        (["--site", "testcluster"], "hpctest", {}),
    ],
)
def test_the_sites_own_slurm_is_called(recorded: Desk, words: list[str], named: str, variables: dict[str, str]) -> None:
    slurm_of(recorded, named)
    done = recorded.type("plan", "cifar", "--json", "--account", "m1", *words, SCRATCH="/scratch", **variables)
    assert done.code == 0, done.err
    assert "sacct" in calls(recorded) <= {"sacct", "sbatch"}
    assert ELSEWHERE.format("Slurm gives no estimate") in done.json["assumed"]
