"""Clusters unlike the usual one: without accounting, or beside another one that has the same job numbers."""

from __future__ import annotations

import dataclasses
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.faults.bed.conftest import ROUNDS, tell
from tests.faults.conftest import Faults, told
from tests.slurm.conftest import Cluster
from tests.slurm.desk import Desk, Submitted, new_desk, until
from tests.slurm.second import second_cluster
from tests.slurm.users import as_root

pytestmark = pytest.mark.timeout(900 + 300 * ROUNDS)
ONE = ("--tasks-per-node", "1")
OTHER_NAME = "elsewhere"
SECONDS_KNOWN = 5
SKIPPED = "skipped"
HELD = ("sbatch", "--parsable", "--hold", f"--job-name={SKIPPED}", "--output=/dev/null", "--wrap=true")


@pytest.fixture(scope="module")
def elsewhere(cluster: Cluster) -> Iterator[Path]:
    """The slurm.conf of a second cluster, which has no accounting, and soon forgets a job that has ended."""
    with second_cluster(cluster, "--cluster-name", OTHER_NAME, "--no-accounting", "--no-preempt") as conf:
        text = conf.read_text()
        assert "MinJobAge=300\n" in text
        with as_root():
            conf.write_text(text.replace("MinJobAge=300\n", f"MinJobAge={SECONDS_KNOWN}\n"))
            other_desk(cluster, conf).slurm("scontrol", "reconfigure")
        yield conf


def other_desk(cluster: Cluster, conf: Path) -> Desk:
    return new_desk(cluster.root, conf, OTHER_NAME)


def known(desk: Desk, run: Submitted) -> bool:
    """Whether squeue still shows the run's job."""
    ids = desk.slurm("squeue", "--noheader", "--states=all", "--format=%i").split()
    return run.job_id in ids


def next_number(desk: Desk) -> int:
    """The number of the job that is queued next."""
    number = desk.slurm(*HELD).strip()
    desk.slurm("scancel", number)
    return int(number) + 1


def skip_to(desk: Desk, number: int) -> None:
    """Use up the cluster's job numbers below this one."""
    desk.slurm("bash", "-c", f'until [ "$({shlex.join(HELD)})" = {number - 1} ]; do :; done; scancel --name={SKIPPED}')


def test_accounting_off(cluster: Cluster, elsewhere: Path) -> None:
    desk, began = other_desk(cluster, elsewhere), time.monotonic()
    assert desk.run("sites", "detect", "--name", OTHER_NAME).returncode == 0
    desk.job("short", "print('one line')")
    desk.job("seven", "raise SystemExit(7)")
    desk.job("long", "import time\nprint('begun', flush=True)\ntime.sleep(3600)\n")
    runs = {
        "completed": desk.submit("short", *ONE),
        "failed": desk.submit("seven", *ONE),
        "cancelled": desk.submit("long", *ONE),
        "cancelled with scancel": desk.submit("long", *ONE),
        "cancelled while it waited": desk.submit("long", *ONE, "--sbatch=--hold"),
    }
    for name in ("cancelled", "cancelled with scancel"):
        desk.wait_for_line(runs[name], "begun")
    for name in ("cancelled", "cancelled while it waited"):
        assert desk.run("cancel", str(runs[name].path)).returncode == 0
    desk.slurm("scancel", runs["cancelled with scancel"].job_id)
    until(lambda: not any(known(desk, run) for run in runs.values()), "Slurm has forgotten all jobs", 600)
    ended = {name: told(desk, run) for name, run in runs.items()}
    assert {name: record["state"] for name, record in ended.items()} == {
        "completed": "COMPLETED",
        "failed": "FAILED",
        "cancelled": "CANCELLED",
        "cancelled with scancel": "CANCELLED",
        "cancelled while it waited": "CANCELLED",
    }
    assert ended["failed"]["exit_code"] == "7:0"
    outcome = "COMPLETED, FAILED 7 and three times CANCELLED, by the run's markers after Slurm has forgotten the jobs"
    tell("accounting off", outcome, str(len(runs)), began)


def test_two_clusters(faults: Faults, elsewhere: Path) -> None:
    here, began = faults.desk, time.monotonic()
    there = dataclasses.replace(here, conf=elsewhere)
    behind, ahead = sorted((here, there), key=next_number)
    skip_to(behind, next_number(ahead))
    run = here.submit("long", *ONE)
    here.wait_for_line(run, "begun")
    until(lambda: told(here, run)["state"] == "RUNNING", "RUNNING")
    assert there.slurm(*HELD).strip() == run.job_id
    refused = {verb: there.run(verb, str(run.path)) for verb in ("cancel", "retry", "resume")}
    assert {verb: done.returncode for verb, done in refused.items()} == dict.fromkeys(refused, 1), refused
    assert all("Traceback" not in done.stderr for done in refused.values())
    assert told(there, run)["state"] in ("RUNNING", "UNKNOWN")
    assert there.states(run) == {run.job_id: "PENDING"}
    assert here.states(run) == {run.job_id: "RUNNING"}
    assert here.run("cancel", str(run.path)).returncode == 0
    until(lambda: told(here, run)["state"] == "CANCELLED", "CANCELLED")
    assert there.states(run) == {run.job_id: "PENDING"}
    there.slurm("scancel", run.job_id)
    outcome = "the other cluster's job of the same number is not read, and not cancelled; `cancel` works where it runs"
    tell("two clusters with one home and equal job numbers", outcome, "2", began)


ENDED_VERBS = (
    *("status", "status RUN", "status --json", "logs RUN", "wait RUN", "cancel RUN", "cancel --all --yes", "results"),
    *("runs list", "runs show RUN", "efficiency RUN", "runs rebuild", "report RUN", "status --watch", "watch"),
    "runs clean --older-than 30d --yes",
)
STARTING_AGAIN = ("retry RUN", "resume RUN")
"""Refused on another cluster; on the run's own they do what they say."""
WAYS = {"fine": "raise SystemExit(0)", "crashed": "raise SystemExit(139)", "seven": "raise SystemExit(7)"}
ENDS = {"fine": ("COMPLETED", "0:0"), "crashed": ("FAILED", "139:0"), "seven": ("FAILED", "7:0")}
OTHERS = {"fine": "seven", "crashed": "fine"}
"""Job of a run -> job of the other run of the same number, which ends otherwise."""


def test_ended_runs_of_two_clusters(faults: Faults, elsewhere: Path) -> None:
    here, began = faults.desk, time.monotonic()
    there = dataclasses.replace(here, conf=elsewhere)
    assert there.run("sites", "detect", "--name", OTHER_NAME).returncode == 0
    for name, code in WAYS.items():
        here.job(name, code)
    verbs = 0
    for _ in range(ROUNDS):
        behind, ahead = sorted((here, there), key=next_number)
        skip_to(behind, next_number(ahead))
        own = ended(here, OTHERS)
        foreign = ended(there, OTHERS.values())
        runs = own + foreign
        verbs += verbs_on_ended_runs(there, own, runs, (*ENDED_VERBS, *STARTING_AGAIN))
        verbs += verbs_on_ended_runs(here, foreign, runs, (*ENDED_VERBS, *STARTING_AGAIN))
    outcome = f"{verbs:,} verbs on either cluster: no answer about the other's job of the same number is applied"
    outcome = f"{outcome}; {ROUNDS} of {ROUNDS} rounds"
    tell("ended runs of two clusters with one home and equal job numbers", outcome, str(4 * ROUNDS), began)


def test_runs_of_a_cluster_that_counts_from_the_start_again(faults: Faults) -> None:
    """Every round has two pairs of runs, and all pairs have the same two numbers."""
    desk, began = faults.desk, time.monotonic()
    for name, code in WAYS.items():
        desk.job(name, code)
    verbs, runs = 0, list[Submitted]()
    for _ in range(ROUNDS):
        for jobs in (OTHERS, OTHERS.values()):
            faults.counts_from_the_start()
            runs += ended(desk, jobs)
        assert [run.job_id for run in runs] == [run.job_id for run in runs[:2]] * (len(runs) // 2)
        verbs += verbs_on_ended_runs(desk, runs[-4:], runs, ENDED_VERBS)
    outcome = f"{verbs:,} verbs about ended runs of equal numbers: no answer about another's job is applied"
    outcome = f"{outcome}; {ROUNDS} of {ROUNDS} rounds"
    tell("ended runs of a cluster that counts its jobs from the start again", outcome, str(4 * ROUNDS), began)


def ended(desk: Desk, jobs: Iterable[str]) -> list[Submitted]:
    """Submit a run of each job; return them when they have ended as they are to end."""
    runs = {name: desk.submit(name, *ONE) for name in jobs}

    def ends() -> dict[str, tuple[str, str]]:
        found = {name: told(desk, run) for name, run in runs.items()}
        return {name: (record["state"], record["exit_code"]) for name, record in found.items()}

    until(lambda: ends() == {name: ENDS[name] for name in runs}, "the ends of the runs")
    return list(runs.values())


def verbs_on_ended_runs(desk: Desk, named: Sequence[Submitted], runs: Sequence[Submitted], verbs: Sequence[str]) -> int:
    """Type verbs about ``named``, of which no record of ``runs`` may change; return how many."""

    def records() -> dict[Path, bytes]:
        paths = [run.path for run in runs]
        return {path: (path / "run.json").read_bytes() + (path / "states.jsonl").read_bytes() for path in paths}

    before = records()
    for verb in verbs:
        for run in named:
            done = desk.run(*(str(run.path) if word == "RUN" else word for word in verb.split()))
            assert "Traceback" not in done.stderr, (verb, done.stderr)
            assert records() == before, verb
    codes = [int(told(desk, run)["exit_code"].partition(":")[0]) for run in named]
    assert [desk.run("wait", str(run.path)).returncode for run in named] == codes
    return len(verbs) * len(named)
