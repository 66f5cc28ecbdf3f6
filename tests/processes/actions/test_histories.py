"""Random histories of two clusters with one home: an ended record never changes, and no run takes another's answer.

    HPCLAUNCH_TEST_HISTORIES=10000 pytest tests/processes/actions/test_histories.py

Both clusters count their jobs from 1, and begin anew now and then; jobs end, are queued again and are forgotten; the
clocks of the login nodes and of the controllers step. People start scripts by hand, touch and copy run directories,
and a purge removes some of the files. squeue, sacct and scontrol are simulated where hpclaunch starts
a program; all else is its own code, with records on disk.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.actions.following.states import refreshed
from hpclaunch.core.folders import state_folder
from hpclaunch.runs import Run
from hpclaunch.runs.ownership import new_token
from hpclaunch.schedulers.slurm import configuration, programs
from tests.builders import leave_proof

HISTORIES = int(os.environ.get("HPCLAUNCH_TEST_HISTORIES", "150"))
STEPS = 20
ELSEWHERE = "/elsewhere"
EPOCH = 1_800_000_000
ENDS = {"COMPLETED": "0:0", "FAILED": "7:0", "TIMEOUT": "0:0", "CANCELLED": "0:15", "NODE_FAIL": "1:0"}
STEP_S = 1500
"""The most by which a clock is wrong: that of a login node, and that of a controller, together an hour at most."""


@dataclass
class Job:
    number: int
    home: str
    submitted: int
    state: str = "PENDING"
    code: str = "0:0"
    in_queue: bool = True
    in_accounting: bool = True


@dataclass
class Cluster:
    """A controller: its jobs, and those of its earlier numberings, which only its accounting keeps."""

    name: str
    skew: int = 0
    next_number: int = 1
    jobs: list[Job] = field(default_factory=list)

    def submit(self, home: str, now: float) -> Job:
        self.jobs.append(Job(self.next_number, home, int(now) + self.skew))
        self.next_number += 1
        return self.jobs[-1]

    def begin_anew(self, lost_accounting: bool) -> None:
        self.next_number = 1
        for job in self.jobs:
            job.in_queue = False
            job.in_accounting = job.in_accounting and not lost_accounting and job.state in ENDS

    def answer(self, command: Sequence[str], environment: dict[str, str]) -> str:
        words = " ".join(command)
        if command[:3] == ["scontrol", "show", "config"]:
            return f"ClusterName = {self.name}\nSlurmctldHost[0] = {self.name}-1(10.0.0.1)\n"
        asked = next((word[7:].split(",") for word in command if word.startswith("--jobs=")), None)
        assert environment.get("SLURM_TIME_FORMAT") == "%s" or "%V" not in words
        lines = {}
        for job in self.jobs:
            if asked is not None and str(job.number) not in asked:
                continue
            if command[0] == "squeue" and job.in_queue:
                reason = "Priority" if job.state == "PENDING" else "None"
                row = [job.number, job.state, reason, "n1", *([job.submitted] if "%V" in words else []), job.home]
            elif command[0] == "sacct" and job.in_accounting:
                more = [self.name, job.submitted] if "Submit" in words else []
                row = [job.number, job.state, job.code, "n1", *more, job.home]
            else:
                continue
            lines[job.number] = "|".join(map(str, row))  # of several with a number sacct shows the last
        return "".join(f"{line}\n" for line in lines.values())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no machine stops in these histories
    return World(tmp_path, monkeypatch)


class World:
    """Two clusters, one home, and a person on the login node of either."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        self.applied = 0
        self.restarted = 0

    def begin(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.seed, self.now = seed, float(EPOCH)
        self.clusters = [Cluster("alpha"), Cluster("beta")]
        self.own: dict[Path, tuple[Cluster, Job]] = {}
        self.by_hand: dict[Path, list[Job]] = {}
        self.ended: dict[Path, tuple[str, str, str]] = {}
        self.story: list[str] = []

    def play(self, seed: int) -> None:
        self.begin(seed)
        for _ in range(STEPS):
            self.now += self.dice.uniform(1, 4000)
            weights = {"submit": 5, "change": 6, "requeue": 2, "forget": 2, "anew": 1, "clock": 2, "status": 8}
            weights |= {"start_by_hand": 10, "touch": 3, "copy": 1, "purge": 2}
            (step,) = self.dice.choices([*weights], [*weights.values()])
            getattr(self, step)()
        for here in self.clusters:
            self.status(here)

    # --- what happens

    def submit(self) -> None:
        here = self.dice.choice(self.clusters)
        path = self.folder / f"{self.seed}-{len(self.own)}"
        path.mkdir()
        clock = self.now + self.dice.uniform(-STEP_S, STEP_S)
        text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clock))
        job = here.submit(str(path), self.now)
        run = Run(path=path, name="train", site="x", scheduler="slurm", created=text, token=new_token())
        run = replace(run, uid=str(os.getuid()), submission="hpclaunch", cluster=here.name, controller=f"{here.name}-1")
        run = replace(run, submitted=text, state="PENDING", job_id=str(job.number))
        runs.list_own(state_folder(os.environ), runs.save(run, durable=False))
        self.own[path] = (here, job)
        self.story.append(f"{here.name} job {job.number} for {path.name}")

    def render(self) -> None:
        here = self.dice.choice(self.clusters)
        path = self.folder / f"{self.seed}-by-hand-{len(self.by_hand)}"
        for folder in ("attempts", "claims"):
            (path / folder).mkdir(parents=True)
        run = Run(path=path, name="train", site="x", scheduler="slurm", created="2026-01-02T03:04:05Z")
        run = replace(run, token=new_token(), uid=str(os.getuid()), cluster=here.name, controller=f"{here.name}-1")
        runs.list_own(state_folder(os.environ), runs.save(run, durable=False))
        self.by_hand[path] = []

    def start_by_hand(self) -> None:
        """The last start of a script ends; or a person starts it again, and it claims its directory as scripts do."""
        if not self.by_hand:
            self.render()
        path, jobs = self.dice.choice([*self.by_hand.items()])
        (here,) = (one for one in self.clusters if one.name == runs.load(path).cluster)
        if jobs and jobs[-1].state not in ENDS:
            self.end(here, jobs[-1], self.dice.choice([*ENDS]))
            return
        if here.next_number in {job.number for job in jobs}:
            return  # a start by hand is known by the number of its job
        job = here.submit(str(path), self.now)
        numbers = [int(file.name) for file in (path / "claims").iterdir()]
        claim = max(numbers, default=3 * len(os.listdir(path / "attempts"))) + 1
        (path / "claims" / str(claim)).write_text(f"{job.number}.0 n1 77 1234\n")
        (path / f"attempts/{job.number}.0").mkdir()
        (path / f"attempts/{job.number}.0/started").write_text("2026-01-02T03:04:05Z\n")
        job.state = "RUNNING"
        jobs.append(job)
        self.story.append(f"{here.name} job {job.number} for {path.name} is claim {claim}")

    def touch(self) -> None:
        """A person spares run directories from a purge: the times of their files are in any order then."""
        for path in self.by_hand:
            for file in path.rglob("*"):
                os.utime(file, (time.time() + self.dice.uniform(-900, 0),) * 2)

    def copy(self) -> None:
        """A person copies a run directory without the times of its files, and back."""
        for path in self.by_hand:
            shutil.copytree(path, self.folder / "copy", copy_function=shutil.copyfile)
            shutil.rmtree(path)
            (self.folder / "copy").rename(path)

    def purge(self) -> None:
        """A purge removes files that nobody has read for long: markers of starts, and claims."""
        for path in self.by_hand:
            for file in (*path.glob("attempts/*/started"), *path.glob("claims/*")):
                if self.dice.random() < 0.3:
                    file.unlink()
                    self.story.append(f"purged {file.relative_to(self.folder)}")

    def change(self) -> None:
        """A job, of hpclaunch or of somebody else, begins or ends."""
        here = self.dice.choice(self.clusters)
        if self.dice.random() < 0.3:
            here.submit(ELSEWHERE, self.now)
        alive = [job for job in here.jobs if job.in_queue and job.state not in ENDS]
        if alive:
            self.end(here, self.dice.choice(alive), self.dice.choice(["RUNNING", *ENDS]))

    def end(self, here: Cluster, job: Job, state: str) -> None:
        job.state, job.code = state, ENDS.get(state, "0:0")
        if state == "COMPLETED" and job.home != ELSEWHERE:
            leave_proof(Path(job.home), f"{job.number}.0")
        self.story.append(f"{here.name} job {job.number} is {state}")

    def requeue(self) -> None:
        here = self.dice.choice(self.clusters)
        alive = [job for job in here.jobs if job.in_queue and job.state == "RUNNING"]
        if alive:
            job = self.dice.choice(alive)
            job.state, job.submitted = "PENDING", int(self.now) + here.skew

    def forget(self) -> None:
        """MinJobAge is over, or accounting has lost a job."""
        for job in self.dice.choice(self.clusters).jobs:
            job.in_queue = job.in_queue and not (job.state in ENDS and self.dice.random() < 0.7)
            job.in_accounting = job.in_accounting and self.dice.random() < 0.9

    def anew(self) -> None:
        here = self.dice.choice(self.clusters)
        here.begin_anew(lost_accounting=self.dice.random() < 0.5)
        self.story.append(f"{here.name} counts from 1 again")

    def clock(self) -> None:
        self.dice.choice(self.clusters).skew = self.dice.randint(-STEP_S, STEP_S)

    def status(self, here: Cluster | None = None) -> None:
        """Ask from the login node of one cluster, and look at what became of the records."""
        here = here or self.dice.choice(self.clusters)
        if not self.own and not self.by_hand:
            return
        configuration._known.clear()

        def run(
            command: Sequence[str], content: bytes, seconds: float, environment: dict[str, str], *_: object
        ) -> tuple[int, bytes, bytes]:
            return 0, here.answer(list(command), environment).encode(), b""

        self.patch.setattr(programs, "_run", run)
        refreshed([runs.load(path) for path in (*self.own, *self.by_hand)])
        for path, jobs in self.by_hand.items():
            self.look_at_starts(here, path, jobs)
        for path, (there, job) in self.own.items():
            now = runs.load(path)
            record = (now.state, now.exit_code, now.job_id)
            story = (self.seed, self.story, here.name, path.name, record, self.ended.get(path))
            if path in self.ended:
                before = self.ended[path]
                assert record == before or (before[:2] == ("FAILED", "") and record[0] == "FAILED"), story
            if now.final:
                assert now.state == job.state, story
                assert now.exit_code in ("", job.code), story
                self.ended[path] = record
                self.applied += 1
            elif now.state not in ("PENDING", "UNKNOWN"):
                assert now.state == "RUNNING", story
            assert (now.job_id, now.cluster) == (str(job.number), there.name), story

    def look_at_starts(self, here: Cluster, path: Path, jobs: list[Job]) -> None:
        """A record goes from start to start in their order, never back; what it says of an ended one stays."""
        now = runs.load(path)
        record = (now.state, now.exit_code, now.job_id)
        before = self.ended.get(path)
        story = (self.seed, self.story, here.name, path.name, record, before)
        if not now.job_id:
            assert before is None and now.state == "RENDERED", story
            return
        numbers = [str(job.number) for job in jobs]
        job = jobs[numbers.index(now.job_id)]
        if before and before[2] == now.job_id:
            assert record == before or (before[:2] == ("FAILED", "") and record[0] == "FAILED"), story
        elif before:
            assert numbers.index(before[2]) < numbers.index(now.job_id), story
            del self.ended[path]
            self.restarted += 1
        if now.final:
            assert now.state == job.state and now.exit_code in ("", job.code), story
            self.ended[path] = record


@pytest.mark.timeout(3600 if HISTORIES > 1000 else 120)
def test_an_ended_record_never_changes_and_an_answer_is_applied_to_its_own_job_only(world: World) -> None:
    for seed in range(HISTORIES):
        world.play(seed)
    print(f"{HISTORIES} histories; {world.applied} times an ended record was looked at")
    assert world.applied > HISTORIES, "records end in these histories"
    assert world.restarted > HISTORIES // 10, "ended records are followed by a further start in these histories"
