"""Hostile repositories: every verb in each of them, with limits of processor time and memory.

``make hostile`` types every verb in every repository; ``make test`` types a few. What a repository tries is in
``repositories.py``. A verb may end as it likes, but no program of a repository starts, no process gets a signal, and no
job is cancelled or submitted from a record. The user's files stay, and nothing takes longer or needs more than the
limits.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hostile.forking import MEGABYTES, Outcome, Typist, type_in_a_process
from tests.hostile.repositories import ALL, Repository, modules_of_python, ordinary
from tests.reliability import PAGE, surroundings, table, write_part

FULL = os.environ.get("HPCLAUNCH_HOSTILE") == "all"
SECONDS = 1 if FULL else 5
"""Of the processor. In ``make test`` it only ends what would never end, as no outcome may depend on speed."""
SLOWEST = 12 if FULL else 1
"""So many of the slowest are typed again in processes of their own, whose time includes the start."""
SCHEDULER = ("sbatch", "scancel", "squeue", "sacct", "scontrol", "sinfo", "srun", "sacctmgr", "sshare")
FAKE = """#!/bin/sh
echo "{name} $*" >> {spool}/calls
{answer}
"""
SITE = """
title: fake
scheduler: slurm
defaults: {node_type: cpu, partition: batch, walltime: "00:10:00"}
node_types: {cpu: {title: x, nodes: 8, cores_per_node: 8}}
partitions: {batch: {max_nodes: 4}}
launchers: {default: srun, options: {srun: {mpi: pmix}}}
environment: {python: current}
"""
RUN, ELSEWHERE = "RUN", "ELSEWHERE"
VERBS = (
    ("submit", "mine", "--nodes", "1"),
    ("submit", "mine", "--nodes", "1", "--dry-run"),
    ("submit", "cifar", "--nodes", "1", "--synthetic", "--dry-run"),
    ("submit", "./train.py", "--nodes", "1", "--test-only"),
    ("submit", "./train.py", "--nodes", "1", "--after", RUN, "--dry-run"),
    ("submit", ELSEWHERE, "--site", "local", "--wait"),
    ("render", "mine", "--nodes", "2"),
    ("plan", "mine"),
    ("plan", "mine", "--site", "local"),
    ("plan", "cifar", "--site", "local"),
    ("profile", "mine", "--dry-run"),
    ("profile", "mine", "--from", RUN),
    ("doctor", "--from", RUN),
    ("status",),
    ("status", RUN, "--json"),
    ("logs", RUN),
    ("wait", RUN, "--timeout", "1s"),
    ("wait", RUN, "--retries", "3", "--timeout", "1s"),
    ("cancel", RUN),
    ("cancel", "--all", "--yes"),
    ("retry", RUN),
    ("resume", RUN),
    ("resume", RUN, "--nodes", "2"),
    ("rerun", RUN),
    ("rerun", RUN, "--dry-run"),
    ("efficiency", RUN),
    ("search", "status", RUN),
    ("search", "results", RUN),
    ("search", "resume", RUN),
    ("results",),
    ("runs", "list"),
    ("runs", "show", RUN),
    ("runs", "compare", RUN, RUN),
    ("runs", "export", RUN, "--to", "ro-crate", "--output", "crate"),
    ("runs", "clean", "--older-than", "1s", "--yes"),
    ("runs", "forget", RUN, "--yes"),
    ("runs", "adopt", RUN),
    ("runs", "rebuild"),
    ("jobs", "list"),
    ("jobs", "show", "mine"),
    ("sites", "list"),
    ("sites", "show"),
    ("sites", "detect"),
    ("trust", "--list"),
)
DRAWING = (("report", RUN), ("report", "--compare", RUN, RUN))
"""They import matplotlib, which takes a second: each is typed in a process of its own with another limit."""
DRAWING_SECONDS = 5
FEW = (
    ("submit", "mine", "--nodes", "1"),
    ("plan", "mine", "--site", "local"),
    ("status",),
    ("cancel", RUN),
    ("retry", RUN),
    ("resume", RUN, "--nodes", "2"),
    ("rerun", RUN),
)


@dataclass(frozen=True)
class Measured:
    """One verb in one repository."""

    repository: str
    words: tuple[str, ...]
    outcome: Outcome


@dataclass
class Place:
    """A home, programs and a project of one test; ``victim`` may not get a signal."""

    root: Path
    repository: Repository
    victim: subprocess.Popen[bytes]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.root}/bin:{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": f"{self.root}/home",
            "LANG": "C.UTF-8",
            "HPCLAUNCH_SITE": "slurmsite",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }

    def runs(self) -> list[str]:
        """The run directories of the project; those that a repository brought are not the user's own."""
        runs = self.repository.folder / "runs"
        is_folder = not runs.is_symlink() and runs.is_dir()
        return sorted(str(path) for path in runs.iterdir() if path.is_dir()) if is_folder else []

    def words(self, verb: tuple[str, ...]) -> tuple[str, ...]:
        own = {RUN: next(iter(self.runs()), "runs/x"), ELSEWHERE: f"{self.root}/home/own.sh"}
        return tuple(own.get(word, word) for word in verb)

    def check(self, verb: tuple[str, ...], outcome: Outcome, submits: bool = False) -> None:
        """``submits``: besides ``submit``, the verb may submit a job."""
        text = f"{verb} -> {outcome}"
        assert outcome.code in (0, 1, 2, 124), text
        assert "Traceback" not in outcome.err, text
        assert not list(self.repository.started.iterdir()), text
        assert self.victim.poll() is None, text
        calls = self.root / "spool/calls"
        names = {line.split()[0] for line in calls.read_text().splitlines()} if calls.exists() else set()
        assert not names & ({"scancel"} if submits or verb[0] == "submit" else {"scancel", "sbatch"}), text
        calls.unlink(missing_ok=True)
        assert (self.root / "home/.bashrc").read_text() == "# the user's own\n", text
        assert outcome.megabytes <= MEGABYTES, text


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    for name in ("home/.config/hpclaunch/site_configs", "project", "started", "bin", "spool"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home/.bashrc").write_text("# the user's own\n")
    (tmp_path / "home/own.sh").write_text("true\n")
    (tmp_path / "home/.config/hpclaunch/site_configs/slurmsite.yaml").write_text(SITE)
    for name in SCHEDULER:
        answer = "echo Submitted batch job 4711" if name == "sbatch" else ""
        program = tmp_path / "bin" / name
        program.write_text(FAKE.format(name=name, spool=tmp_path / "spool", answer=answer))
        program.chmod(0o755)
    # Every sign by which a local run's processes were known: a job ID in the environment, and bash.
    victim = subprocess.Popen(
        ["bash", "-c", "sleep 100000; true"],
        env={**os.environ, "SUBMITIT_LOCAL_JOB_ID": "4242"},
        start_new_session=True,
    )
    try:
        yield Place(tmp_path, ordinary(tmp_path / "project", tmp_path / "started", victim.pid), victim)
    finally:
        os.killpg(victim.pid, 9)
        victim.wait()


@pytest.fixture(scope="module")
def typist() -> Iterator[Typist]:
    with Typist(SECONDS) as typist:
        yield typist


@pytest.fixture(scope="module")
def measured() -> Iterator[list[Measured]]:
    found: list[Measured] = []
    yield found
    if FULL and {each.repository for each in found} >= {prepare.__name__ for prepare in ALL}:
        _write_figures(found)


@pytest.mark.parametrize("prepare", ALL, ids=lambda prepare: prepare.__name__)
def test_a_hostile_repository_starts_ends_and_submits_nothing(
    prepare: Callable[[Repository], None], place: Place, typist: Typist, measured: list[Measured]
) -> None:
    prepare(place.repository)
    for file in place.repository.started.iterdir():  # what git did while the repository was made
        file.unlink()
    foreign = place.runs()
    for verb in DRAWING if FULL else ():
        outcome = type_in_a_process(place.words(verb), place.repository.folder, place.environment, DRAWING_SECONDS)
        place.check(verb, outcome)
    for verb in VERBS if FULL else FEW:
        words = place.words(verb)
        outcome = typist.type(words, place.repository.folder, place.environment)
        place.check(verb, outcome, submits=verb[0] == "rerun" and words[1] not in foreign)
        measured.append(Measured(prepare.__name__, verb, outcome))


@pytest.mark.parametrize("verb", [("plan", "mine"), ("submit", ELSEWHERE, "--site", "local", "--wait")], ids=" ".join)
def test_no_module_of_the_folder_is_imported(place: Place, verb: tuple[str, ...]) -> None:
    """In a process of its own, which imports everything anew; and so does the controller of a local run."""
    modules_of_python(place.repository)
    # Where a test cluster runs beside it, this machine is a head node: whoever means it says so.
    here = {**place.environment, "HPCLAUNCH_SITE": "local"}
    outcome = type_in_a_process(place.words(verb), place.repository.folder, here, 20)
    place.check(verb, outcome)
    assert outcome.code == 0, outcome.err


def test_the_slowest_verbs_hold_the_limit_with_their_start(place: Place, measured: list[Measured]) -> None:
    by_name = {prepare.__name__: prepare for prepare in ALL}
    slowest = sorted(measured, key=lambda each: each.outcome.seconds)[-SLOWEST:]
    for number, each in enumerate(slowest):
        folder = place.root / f"again-{number}"
        again = Place(place.root, ordinary(folder, place.root / "started", place.victim.pid), place.victim)
        by_name[each.repository](again.repository)
        for file in again.repository.started.iterdir():
            file.unlink()
        outcome = type_in_a_process(again.words(each.words), folder, place.environment, SECONDS)
        again.check(each.words, outcome)
        measured.append(Measured(f"{each.repository} (process)", each.words, outcome))


def _write_figures(found: list[Measured]) -> None:
    forked = [each for each in found if not each.repository.endswith("(process)")]
    rows = []
    for verb in VERBS:
        own = [each for each in forked if each.words == verb]
        slow = max(own, key=lambda each: each.outcome.seconds)
        most = max(each.outcome.megabytes for each in own)
        rows.append([f"`{' '.join(verb)}`", f"{slow.outcome.seconds:.2f}", slow.repository, f"{most:.0f}"])
    processes = [each for each in found if each.repository.endswith("(process)")]
    lines = [
        f"Measured on {surroundings()}: {len(ALL)} repositories, {len(VERBS)} verbs, {len(forked)} commands.",
        "Programs of repositories started: 0. Signals: 0. Jobs cancelled or submitted from their records: 0.",
    ]
    if processes:
        seconds = max(each.outcome.seconds for each in processes)
        most = max(each.outcome.megabytes for each in processes)
        lines.append(
            f"The {len(processes)} slowest again as processes of their own, with their start: at most {seconds:.2f} s "
            f"of processor time and {most:.0f} MB."
        )
    header = ["verb", "most seconds (processor, without the start)", "in the repository", "most MB"]
    write_part("hostile", "\n".join(lines) + "\n\n" + table(header, rows), PAGE)
