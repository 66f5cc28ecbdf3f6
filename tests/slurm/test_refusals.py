"""What plain sbatch takes although it can never run as asked: refused with the reason and with what works instead."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.desk import PATIENCE_S, Desk, Submitted, until

pytestmark = pytest.mark.timeout(600)
# The second says nothing of limits, so that only Slurm itself can tell.
SITES = ("testcluster", "nolimits")
JOB = f"hopeless-{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is typed, the reason that must be told, and Slurm's reasons why a plain job waits (none: it does not)."""

    typed: tuple[str, ...]
    reason: str
    waits: tuple[str, ...] = ()


CASES = {
    "walltime": Case(
        typed=("--walltime", "99:00:00"),
        reason="walltime 4-03:00:00 requested; allowed: at most 04:00:00",
        waits=("PartitionTimeLimit",),
    ),
    "walltime-of-debug": Case(
        typed=("--partition", "debug", "--walltime", "1:00:00"),
        reason="walltime 01:00:00 requested; allowed: at most 00:30:00",
        waits=("PartitionTimeLimit",),
    ),
    "nodes": Case(
        typed=("--nodes", "9"),
        reason="9 nodes requested; allowed: at most 4 nodes",
        waits=("PartitionConfig", "PartitionNodeLimit"),  # the first at the submission, the second from the scheduler
    ),
    "account": Case(
        typed=("--account", "reserch"), reason="you have no account 'reserch'; did you mean 'research'?; allowed:"
    ),
    "qos": Case(typed=("--qos", "gold"), reason="you may not use QOS 'gold'; allowed: normal, short"),
    "partition": Case(typed=("--partition", "bach"), reason="no partition 'bach'; did you mean 'batch'?; allowed:"),
}
ALL = tuple((site, name) for site in SITES for name in CASES)


@dataclass(frozen=True, slots=True)
class Answer:
    """A refusal, and what was submitted as it proposed."""

    code: int
    faults: list[dict[str, str]]
    instead: Submitted

    def told(self) -> str:
        return "\n".join(f"{fault['what']}; allowed: {fault['allowed']}" for fault in self.faults)


@dataclass(frozen=True, slots=True)
class Answers:
    by_case: dict[tuple[str, str], Answer]
    written: list[Path]
    queued: str


def propose(faults: list[dict[str, str]]) -> list[str]:
    """All that the faults say to type, each word in its turn; for the same flag a later one counts."""
    proposed = [fault["next"].partition("; or use ")[0].removesuffix(" would be accepted") for fault in faults]
    return [word for flags in proposed for word in shlex.split(flags)]


@pytest.fixture(scope="module")
def answers(desk: Desk) -> Answers:
    desk.job(JOB)
    desk.site("nolimits", node_types__gpu__nodes=None)
    small = ("--tasks-per-node", "1")
    said: dict[tuple[str, str], tuple[int, list[dict[str, str]]]] = {}
    for site, name in ALL:
        done = desk.run("submit", JOB, "--json", "--site", site, *small, *CASES[name].typed)
        said[site, name] = done.returncode, json.loads(done.stdout)["faults"]
    written = sorted((desk.folder / "runs").rglob("*"))
    queued = desk.slurm("squeue", "--noheader", "--states=all", f"--name={JOB}")
    by_case = {
        (site, name): Answer(
            code, faults, desk.submit(JOB, "--site", site, *small, *CASES[name].typed, *propose(faults))
        )
        for (site, name), (code, faults) in said.items()
    }
    desk.wait(*(answer.instead for answer in by_case.values()), seconds=300)
    return Answers(by_case, written, queued)


@pytest.mark.parametrize(("site", "name"), ALL)
def test_it_is_refused_with_the_reason(answers: Answers, site: str, name: str) -> None:
    answer = answers.by_case[site, name]
    assert answer.code == 1
    assert CASES[name].reason in answer.told()


@pytest.mark.parametrize(("site", "name"), ALL)
def test_the_proposed_alternative_runs(desk: Desk, answers: Answers, site: str, name: str) -> None:
    answer = answers.by_case[site, name]
    assert propose(answer.faults)
    assert desk.ended(answer.instead) == "COMPLETED 0:0", answer.instead.log()


def test_a_refusal_queues_and_writes_nothing(answers: Answers) -> None:
    assert answers.queued == ""
    assert answers.written == []


def plain(desk: Desk, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Give the script that hpclaunch would not submit to sbatch by hand."""
    done = desk.run("submit", JOB, "--site", "nolimits", "--tasks-per-node", "1", *CASES[name].typed, "--dry-run")
    assert done.returncode == 0, done.stderr
    return subprocess.run(
        ["sbatch", "--parsable", *options],
        input=done.stdout,
        cwd=desk.folder,
        env=desk.shell(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.waits])
def test_plain_sbatch_takes_it_and_it_waits_for_ever(desk: Desk, answers: Answers, name: str) -> None:
    done = plain(desk, name)
    if name == "nodes" and desk.is_newer():
        assert "Requested node configuration is not available" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    job = done.stdout.strip()

    def reason() -> str:
        return desk.slurm("squeue", "--noheader", "--format=%T %r", f"--jobs={job}").strip()

    try:
        expected = CASES[name].waits
        reasons = {f"PENDING {one}" for one in expected}
        until(lambda: reason() in reasons, f"job {job} waits because of {' or '.join(expected)}")
    finally:
        desk.slurm("scancel", job)


@pytest.mark.parametrize(("name", "field", "value"), [("account", "Account", "research"), ("qos", "QOS", "")])
def test_plain_sbatch_takes_an_unknown_name_without_a_word(
    desk: Desk, answers: Answers, name: str, field: str, value: str
) -> None:
    """Where nothing is enforced the default account pays for an unknown one, and an unknown QOS has no effect."""
    done = plain(desk, name, "--hold")
    assert done.returncode == 0, done.stderr
    job = Submitted(path=desk.folder, job_id=done.stdout.strip())
    try:
        assert done.stderr == ""
        assert desk.field(job, field) == ("gold" if name == "qos" and desk.is_newer() else value)
    finally:
        desk.slurm("scancel", job.job_id)


def test_plain_sbatch_refuses_an_unknown_partition_itself(desk: Desk, answers: Answers) -> None:
    done = plain(desk, "partition")
    assert done.returncode == 1
    assert "invalid partition specified: bach" in done.stderr


def test_all_reasons_of_slurm_are_told_at_once(desk: Desk, answers: Answers) -> None:
    typed = [word for name in ("walltime", "nodes", "account", "qos") for word in CASES[name].typed]
    done = desk.run("submit", JOB, "--json", "--site", "nolimits", *typed)
    assert done.returncode == 1
    faults: list[dict[str, Any]] = json.loads(done.stdout)["faults"]
    assert [fault["what"].split("; ")[0] for fault in faults] == [
        "9 nodes requested",
        "walltime 4-03:00:00 requested",
        "you have no account 'reserch'",
        "you may not use QOS 'gold'",
    ]
    again = desk.run("submit", JOB, "--site", "nolimits", *typed, *propose(faults), "--test-only")
    assert again.returncode == 0, again.stderr


def test_test_only_gives_slurms_own_estimate_and_queues_nothing(desk: Desk, answers: Answers) -> None:
    name = f"estimated-{os.getpid()}"
    desk.job(name)
    before = sorted((desk.folder / "runs").iterdir())
    done = desk.run("submit", name, "--site", "testcluster", "--nodes", "2", "--tasks-per-node", "4", "--test-only")
    assert done.returncode == 0, done.stderr
    estimate = (
        r"Job \d+ to start at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d using 8 processors on nodes \S+ in partition batch\n"
    )
    assert re.fullmatch(estimate, done.stdout)
    assert sorted((desk.folder / "runs").iterdir()) == before
    assert desk.slurm("squeue", "--noheader", "--states=all", f"--name={name}") == ""
