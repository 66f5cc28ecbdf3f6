"""Trainings on two and four ranks that are disturbed, held against undisturbed ones; the table of outcomes."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.conftest import Faults, cluster, desk, faults, ordinary_user, told  # noqa: F401
from tests.reliability import read_part, surroundings, table, with_rows, write_part
from tests.slurm.desk import Desk, Submitted, until
from tests.slurm.users import as_root

PROGRAM = Path(__file__).resolve().parents[2] / "horovod" / "programs" / "resumable.py"
INTERVAL = 4
"""Steps between two checkpoints; there is one at the end of every epoch as well."""
EPOCHS = 3
ROUNDS = int(os.environ.get("HPCLAUNCH_ROUNDS", "1"))
"""How often lost nodes, and clusters with equal job numbers, meet their runs."""
RANKS = (2, 4)
OPTIONS = {
    2: ("--scale-learning-rate=adascale", "--optimizer=adam", "--learning-rate=0.01", "--decay=cosine"),
    # Four ranks add in any order, and Adam divides by what is nearly zero: it would enlarge the last bit of a sum.
    4: ("--scale-learning-rate=linear", "--optimizer=sgd", "--learning-rate=0.01", "--decay=cosine"),
}
CLOSE = 1e-5
JOB: dict[str, Any] = {
    "summary": "trains a small model with much state",
    "restarts": 9,
    "resources": {"cpus_per_task": 1, "gpus_per_node": 0},
    "environment": {
        "python": "current",
        "variables": {"TF_DETERMINISTIC_OPS": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1"},
    },
}
HEADER = ("fault", "outcome", "jobs", "steps repeated", "2 ranks", "4 ranks", "seconds", "measured")
ROWS: list[tuple[str, ...]] = []
"""Of the test that runs."""
Pair = dict[int, Submitted]


@dataclasses.dataclass
class Bed:
    """Pairs of trainings, one on two ranks and one on four; ``undisturbed`` are what they are held against."""

    faults: Faults
    desk: Desk
    undisturbed: Pair = dataclasses.field(default_factory=dict)
    began: float = 0.0

    def start(
        self,
        *options: str,
        events: Mapping[int, str] | None = None,
        nodes: int = 2,
        typed: tuple[str, ...] = (),
    ) -> Pair:
        """Submit both. ``events``: by ranks, what the program does to itself."""
        self.began = time.monotonic()
        pair = {}
        for ranks in RANKS:
            event = [f"--event={events[ranks]}"] if events else []
            command = self.command(ranks, *typed, nodes=nodes, own=("--step-seconds=0.1", *event, *options))
            pair[ranks] = self.desk.submit(*command[1:])
        return pair

    def start_held(self, step: int, *options: str, nodes: int = 2, typed: tuple[str, ...] = ()) -> Pair:
        """Submit both; after that step they wait for `go`, or until they are asked to stop: once, at the first start.

        So what is done to them meets them, however slow this machine is and whichever of the two is the faster one.
        """
        events = dict.fromkeys(RANKS, f"1:{step}:hold")
        pair = self.start(*options, events=events, nodes=nodes, typed=typed)
        self.wait_for_step(pair, step)
        for run in pair.values():  # the rank that waits may be slower than rank 0, whose steps are counted
            until(lambda run=run: (run.path / "event").exists(), f"{run.path} waits: {run.log()[-2000:]}", 600)
        return pair

    def go(self, pair: Pair) -> None:
        """Let held trainings go on."""
        for run in pair.values():
            (run.path / "go").touch()

    def command(self, ranks: int, *typed: str, nodes: int = 2, own: tuple[str, ...] = ()) -> list[str]:
        """What is typed to submit a training: ``typed`` for hpclaunch, ``own`` for the program."""
        shape = ["training", "--nodes", str(nodes), "--tasks-per-node", str(ranks // nodes)]
        usual = (*OPTIONS[ranks], f"--checkpoint-steps={INTERVAL}", f"--epochs={EPOCHS}")
        return ["submit", *shape, "--walltime", "20m", *typed, "--", *usual, *own]

    def ranks_of(self, run: Path) -> int:
        """How many ranks a run was submitted with."""
        layout = json.loads((run / "spec.json").read_text())["layout"]
        return int(layout["nodes"] * layout["tasks_per_node"])

    def steps(self, run: Submitted | Path) -> list[int]:
        """All steps that rank 0 made, in all starts, by their numbers."""
        file = (run if isinstance(run, Path) else run.path) / "steps-0"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def wait_for_step(self, pair: Pair, step: int) -> None:
        for run in pair.values():
            until(lambda run=run: step in self.steps(run), f"step {step} of {run.path}: {run.log()[-2000:]}", 600)

    def wait(self, run: Submitted | Path, *options: str) -> tuple[int, dict[str, Any]]:
        """``hpclaunch wait``: its exit code, and the record."""
        path = run if isinstance(run, Path) else run.path
        done = self.desk.run("wait", str(path), "--timeout", "9m", "--json", *options, seconds=600)
        (record,) = json.loads(done.stdout)["runs"]
        return done.returncode, record

    def resumed(self, pair: Pair, ended: Mapping[str, Any]) -> None:
        """Both have ended as ``ended`` says; a person resumes them."""
        for ranks, run in pair.items():
            code, record = self.wait(run)
            assert {name: record[name] for name in ended} == dict(ended), (ranks, record, run.log()[-3000:])
            assert code != 0
            done = self.desk.run("resume", str(run.path))
            assert done.returncode == 0, done.stderr

    def limit(self, run: Submitted, minutes: int) -> None:
        """Change the walltime of the run's job. Slurm lets only the operator make it longer."""
        with as_root():
            self.desk.slurm("scontrol", "update", f"jobid={run.job_id}", f"timelimit={minutes}")

    def seconds_since_start(self, run: Submitted) -> float:
        """How long the run's first start has been running."""
        return time.time() - (run.path / "attempts" / f"{run.job_id}.0" / "started").stat().st_mtime

    def without_directive(self, run: Submitted, option: str) -> None:
        """Take a directive out of the script, before a further start: it has done its part."""
        script = run.path / "job.sh"
        script.write_text("".join(x for x in script.read_text().splitlines(keepends=True) if option not in x))

    def judge(
        self,
        fault: str,
        outcome: str,
        pair: Mapping[int, Submitted | Path],
        jobs: int = 1,
        retries: int = 0,
        by_old_ranks: int = 0,
    ) -> None:
        """Wait for both; each completed, in ``jobs`` jobs, none unknown to its record, with the undisturbed weights.

        by_old_ranks: so many steps may ranks have made that lived beside a further start.
        """
        repeated, differences = [], []
        for ranks, one in pair.items():
            path = one if isinstance(one, Path) else one.path
            code, record = self.wait(path, "--retries", str(retries))
            log = Submitted(path=path, job_id="").log()[-3000:]
            assert (code, record["state"]) == (0, "COMPLETED"), (record, log)
            recorded = {record["job_id"], *record["earlier"]}
            assert len(recorded) == jobs, record
            assert set(self.faults.jobs_of(path)) - self.cancelled(path) <= recorded
            listed = json.loads(self.desk.run("runs", "list", "--json").stdout)["runs"]
            assert [entry["job_id"] for entry in listed if entry["run_dir"] == str(path)] == [record["job_id"]]
            made = self.steps(path)
            assert sorted(set(made)) == list(range(1, max(made) + 1))
            repeated.append(len(made) - len(set(made)))
            assert repeated[-1] <= INTERVAL + by_old_ranks, made
            differences.append(self.difference(ranks, path))
            assert differences[-1] <= (0.0 if ranks == 2 else CLOSE), (ranks, differences)
        seconds = f"{time.monotonic() - self.began:.0f}"
        again = " and ".join(str(steps) for steps in repeated)
        ROWS.append((fault, outcome, str(jobs), again, "identical", f"{differences[1]:.1e}", seconds))

    def cancelled(self, path: Path) -> set[str]:
        """Jobs of a run that were cancelled before they began: the second of a submission whose answer was lost."""
        jobs = ",".join(self.faults.jobs_of(path))
        lines = self.desk.slurm("squeue", "-h", "--states=all", "-j", jobs, "-o", "%i %T %M").splitlines()
        return {line.split()[0] for line in lines if line.endswith("CANCELLED 0:00")}

    def difference(self, ranks: int, path: Path) -> float:
        """The largest difference of a final array from the undisturbed run's, as a part of its largest value."""
        worst = 0.0
        for rank in range(ranks):
            name = f"final-{rank}.npz"
            with np.load(path / name) as mine, np.load(self.undisturbed[ranks].path / name) as other:
                assert mine.files == other.files and len(mine.files) > 10
                for key in mine.files:
                    if np.array_equal(mine[key], other[key]):
                        continue
                    assert np.issubdtype(mine[key].dtype, np.floating), key
                    gap = np.max(np.abs(mine[key].astype(float) - other[key].astype(float)))
                    worst = max(worst, float(gap / (np.max(np.abs(other[key])) or 1.0)))
        return worst


@pytest.fixture(scope="session")
def undisturbed() -> Pair:
    """Filled by the first test of the bed that trains."""
    return {}


@pytest.fixture
def bed(faults: Faults, undisturbed: Pair) -> Bed:  # noqa: F811
    faults.desk.job("training", PROGRAM.read_text(), **JOB)
    made = Bed(faults=faults, desk=faults.desk, undisturbed=undisturbed)
    if not undisturbed:
        started = made.start()
        for run in started.values():
            code, record = made.wait(run)
            assert code == 0, (record, run.log())
        undisturbed.update(started)
    return made


def tell(fault: str, outcome: str, jobs: str, began: float) -> None:
    """Add a row of a fault without training."""
    ROWS.append((fault, outcome, jobs, "-", "-", "-", f"{time.monotonic() - began:.0f}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Write the rows of a test when all of it held: whoever runs the bed in pieces gets the same table."""
    report = yield
    if call.when == "call":
        if ROWS and call.excinfo is None and os.environ.get("HPCLAUNCH_RELIABILITY") == "write":
            with as_root():
                write_rows()
        ROWS.clear()
    return report


def write_rows() -> None:
    around = surroundings("tensorflow", "horovod")
    measured = ", ".join(around.split(", ")[:2])  # the day and the version
    rows: list[Sequence[str]] = [(*row, measured) for row in ROWS]
    rows = with_rows(read_part("faults"), HEADER, rows)
    minutes = round(sum(int(row[HEADER.index("seconds")]) for row in rows) / 60)
    head = f"Last run: {around}. All rows together: {minutes} minutes.\n"
    about = "\nRuns lost: 0. Submitted twice: 0. The figure under 4 ranks is the largest relative difference.\n"
    write_part("faults", f"{head}\n{table(HEADER, rows)}{about}")
