"""A run on nodes of several types: one heterogeneous job, from the first line to the verbs that come after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Desk

TYPES = ("--node-type", "cpu:1,big:2")


@pytest.fixture
def mixed(cluster: Desk) -> Desk:
    """A desk at a site with two node types."""
    site = cluster.project / "site_configs/slurmsite.yaml"
    big = "big: {title: y, nodes: 4, cores_per_node: 16, default_tasks_per_node: 2, partition: debug}"
    site.write_text(site.read_text().replace("cores_per_node: 8}}", f"cores_per_node: 8}}, {big}}}"))
    return cluster


@pytest.fixture
def run(mixed: Desk) -> Path:
    """A submitted run; its job ID is 4711."""
    done = mixed.type("submit", "./train.py", *TYPES, "--walltime", "4m")
    assert done.code == 0, done.err
    assert "train: 1 cpu node x 1 task + 2 big nodes x 2 tasks = 5 ranks" in done.err
    return Path(done.out.strip())


def components(script: str) -> list[list[str]]:
    """The directives of each component."""
    lines = [line.removeprefix("#SBATCH ") for line in script.split("\n") if line.startswith("#SBATCH")]
    place = lines.index("hetjob")
    return [lines[:place], lines[place + 1 :]]


def test_one_job_is_queued(mixed: Desk, run: Path) -> None:
    script = (mixed.spool / "script").read_text()
    first, further = components(script)
    assert {"--partition=batch", "--nodes=1", "--time=00:04:00"} <= set(first)
    assert further == ["--partition=debug", "--nodes=2", "--ntasks-per-node=2", "--cpus-per-task=8"]
    assert json.loads((run / "run.json").read_text())["job_id"] == "4711"
    shown = mixed.type("runs", "show", run.name).out
    assert "nodes 1, tasks per node 1" in shown and "nodes 2, tasks per node 2" in shown


def test_every_verb_knows_the_state_of_its_job(mixed: Desk, run: Path) -> None:
    mixed.fake("squeue", out="4711+0|RUNNING|None|n1\n4711+1|RUNNING|None|n[5-6]\n")
    (record,) = mixed.type("status", "4711", "--json").runs
    assert (record["state"], record["nodes"]) == ("RUNNING", "n1,n[5-6]")
    assert mixed.type("cancel", run.name).code == 0
    assert mixed.given("scancel") == ["4711"]
    mixed.fake("squeue")
    mixed.fake("sacct", out="4711+0|FAILED|7:0|n1\n4711+1|FAILED|0:9|n[5-6]\n")
    assert mixed.type("wait", run.name).code == 7
    assert "has ranks 0 to 4" in mixed.type("logs", run.name, "--rank", "5").err


def test_it_starts_again_on_the_same_node_types(mixed: Desk, run: Path) -> None:
    written = components((run / "job.sh").read_text())
    mixed.fake("sacct", out="4711+0|NODE_FAIL|1:0|n1\n4711+1|NODE_FAIL|1:0|n5\n")
    mixed.fake("sbatch", out="Submitted batch job 4712\n")
    assert mixed.type("retry", run.name).code == 0
    assert components((mixed.spool / "script").read_text()) == written
    mixed.fake("sacct", out="4712+0|CANCELLED|0:0|n1\n4712+1|CANCELLED|0:0|n5\n")
    mixed.fake("sbatch", out="Submitted batch job 4713\n")
    refused = mixed.type("resume", run.name, "--nodes", "3")
    assert (refused.code, "has nodes of several types" in refused.err) == (1, True)
    done = mixed.type("resume", run.name, "--walltime", "3m")
    assert done.code == 0, done.err
    first, further = components((mixed.spool / "script").read_text())
    assert (further, "--time=00:03:00" in first) == (written[1], True)
    assert {line for line in first if "time" not in line} == {line for line in written[0] if "time" not in line}


def test_it_does_not_start_again_if_one_of_its_partitions_allows_less_time_now(mixed: Desk, run: Path) -> None:
    mixed.fake("sacct", out="4711+0|NODE_FAIL|1:0|n1\n4711+1|NODE_FAIL|1:0|n5\n")
    limits = "".join(
        f"PartitionName={name} MaxTime={most}\n" for name, most in (("batch", "1:00:00"), ("debug", "3:00"))
    )
    mixed.fake("scontrol", out=limits)
    (mixed.spool / "sbatch.args").unlink()
    done = mixed.type("retry", run.name)
    assert (done.code, "asks for 00:04:00, but Slurm allows 00:03:00 per job now" in done.err) == (1, True), done.err
    assert not (mixed.spool / "sbatch.args").exists()


@pytest.mark.parametrize(
    ("configuration", "why"),
    [
        (
            "SchedulerType           = sched/builtin\n",
            "only its backfill scheduler starts jobs with nodes of several types",
        ),
        ("SchedulerParameters     = a,disable_hetjob_steps\n", "starts no ranks on nodes of several types at once"),
        ("SLURM_VERSION           = 19.05.8\n", "is too old for nodes of several types"),
    ],
)
def test_a_slurm_that_would_never_start_it_is_not_asked_to(mixed: Desk, configuration: str, why: str) -> None:
    mixed.fake("scontrol", out=f"Configuration data as of 2026-01-02T03:04:05\n{configuration}")
    done = mixed.type("submit", "./train.py", *TYPES, "--walltime", "4m")
    assert (done.code, why in done.err, (mixed.spool / "sbatch.args").exists()) == (1, True, False)
    assert mixed.type("submit", "./train.py", "--nodes", "2").code == 0


def test_what_it_cannot_have_is_refused_before_anything_is_queued(mixed: Desk) -> None:
    for words, why in (
        (("--sweep", "lr=1,2"), "has no job arrays with nodes of several types"),
        (("--launcher", "mpirun"), "mpirun cannot start the ranks of several node types"),
        (("--nodes", "2"), "--node-type already says how many nodes of each type"),
        (("--partition", "debug", "--walltime", "6m"), "00:06:00 requested"),
    ):
        done = mixed.type("submit", "./train.py", *TYPES, *words)
        assert (done.code in (1, 2), why in done.err) == (True, True), done.err
    for verb in ("plan", "doctor"):
        target = ["cifar"] if verb == "plan" else []
        done = mixed.type(verb, *target, *TYPES)
        told = done.out + done.err
        assert (done.code, "only submit and render take NAME:NODES" in told) == (1, True), told
    assert not (mixed.spool / "sbatch.args").exists()
