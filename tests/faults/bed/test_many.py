"""Many submissions at once, and submissions that are killed at any moment: nothing lost, nothing queued twice."""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from hpclaunch.runs import leases
from tests.faults.bed.conftest import tell
from tests.faults.conftest import Faults, told
from tests.slurm.desk import HPCLAUNCH, until

pytestmark = pytest.mark.timeout(2400)
WAIT_S = 600
ONE = ("--tasks-per-node", "1")
QUEUED = 1000
ROUNDS = 3


def has(file: str, text: str = "") -> Callable[[Faults, Path], bool]:
    """Whether the run directory has the file, with that text in it."""

    def reached(_: Faults, run: Path) -> bool:
        try:
            return (run / file).is_dir() or text in (run / file).read_text()
        except OSError:
            return False

    return reached


# How far a submission has come, in its own order. None: it is killed before anything can be seen of it.
STEPS: dict[str, Callable[[Faults, Path], bool] | None] = {
    "at once": None,
    "a directory": lambda _, run: run.is_dir(),
    "a record": has("run.json"),
    "code": has("code"),
    "a script": has("job.sh"),
    "SUBMITTING": has("run.json", "SUBMITTING"),
    "sbatch is next": has("submitit"),
    "queued": lambda faults, run: bool(faults.jobs_of(run)),
}
# One process submits all of them, as a person's loop over `hpclaunch submit` does in a thousand.
SUBMIT_MANY = """
import sys
from hpclaunch.actions.queueing.start import start
from hpclaunch.actions.preparing.submit import prepare
from hpclaunch.actions.system import System
from hpclaunch.core.spec import Request
system = System()
for number in range(int(sys.argv[1])):
    start(system, prepare(system, Request(target="short", tasks_per_node=1, sbatch=("--hold",))))
"""
COUNTED = '#!/bin/bash\necho {name} >> {folder}/calls\nexec {real} "$@"\n'


def test_50_submissions_at_once(faults: Faults) -> None:
    desk, began = faults.desk, time.monotonic()
    command = [HPCLAUNCH, "submit", "short", *ONE, "--json"]
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen(command, cwd=desk.folder, env=desk.shell(), stdout=pipe, stderr=pipe, text=True)
        for _ in range(50)
    ]
    ended = [process.communicate(timeout=WAIT_S) for process in started]
    assert [process.returncode for process in started] == [0] * 50, [err for _, err in ended if err]
    records = [json.loads(out) for out, _ in ended]
    assert len({record["run_dir"] for record in records}) == len({record["job_id"] for record in records}) == 50
    names = [record["run_dir"] for record in records]
    assert desk.run("wait", *names, seconds=WAIT_S).returncode == 0
    assert all(len(faults.jobs_of(Path(name))) == 1 for name in names)
    tell("50 submissions at once", "50 runs in 50 directories, all COMPLETED", "50", began)


def test_submit_killed_at_each_step(faults: Faults) -> None:
    desk, began = faults.desk, time.monotonic()
    seen: Counter[str] = Counter()
    for step in [*STEPS] * ROUNDS:
        run = killed_at(faults, STEPS[step])
        if run is None or not (run / "run.json").exists():
            assert run is None or faults.jobs_of(run) == []
            seen["no record"] += 1
            continue
        jobs, record = faults.jobs_of(run), told(desk, run)
        if record["state"] == "SUBMITTING":  # ten minutes later
            age_submission(run, leases.PATIENCE_S)
            record = told(desk, run)
        assert record["state"] in (("PENDING",) if jobs else ("NOT_SUBMITTED", "INCOMPLETE", "RENDERED")), step
        assert [record["job_id"]] == (jobs or [""]), step
        seen[record["state"]] += 1
    assert len(seen) > 2 and seen["PENDING"] >= ROUNDS  # the last step has a job
    words = ", ".join(f"{number} {state}" for state, number in sorted(seen.items()))
    outcome = f"{len(STEPS) * ROUNDS} kills at {len(STEPS)} steps; their records: {words}; all as Slurm has it"
    tell("submit killed (SIGKILL) at each step", outcome, "at most 1 each", began)
    pending = [
        record["job_id"] for record in json.loads(desk.run("status", "--json").stdout)["runs"] if record["job_id"]
    ]
    desk.slurm("scancel", *pending)
    until(lambda: not desk.slurm("squeue", "-h", "--name=short", "-o", "%i").split(), "an empty queue")


def age_submission(run: Path, seconds: float) -> None:
    """Let the last sign of life of the newest submission be that much older."""
    lease = leases.newest(run)
    assert lease
    sign = lease.folder / f"{lease.number}.renewed"
    given = float(sign.read_text()) if sign.exists() else time.monotonic()
    sign.write_text(f"{given - seconds}\n")


def killed_at(faults: Faults, reached: Callable[[Faults, Path], bool] | None) -> Path | None:
    """Submit a run that waits, and kill hpclaunch as soon as it has got so far; its directory, if it has one."""
    desk, before = faults.desk, set(faults.runs())
    command = [HPCLAUNCH, "submit", "short", *ONE, "--sbatch=--hold"]
    silent = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=desk.folder, env=desk.shell(), stdout=silent, stderr=silent)
    while reached and process.poll() is None:
        if (new := set(faults.runs()) - before) and reached(faults, new.pop()):
            break
    process.kill()
    process.wait()
    (run,) = set(faults.runs()) - before or (None,)
    if run is not None:
        until(lambda: not named_by_a_process(run), "the end of sbatch, which outlives its caller")
    return run


def named_by_a_process(run: Path) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(run) in (process / "cmdline").read_text(errors="replace"):
                return True
    return False


def test_1000_queued_runs(faults: Faults) -> None:
    desk, began = faults.desk, time.monotonic()
    before = len(faults.runs())
    command = [sys.executable, "-c", SUBMIT_MANY, str(QUEUED)]
    subprocess.run(command, cwd=desk.folder, env=desk.shell(), check=True, capture_output=True, timeout=2 * WAIT_S)
    assert len(faults.runs()) == before + QUEUED
    desk.run("status", seconds=WAIT_S)  # the first one records what is new of every run
    records, calls, seconds = counted(faults, "status", "--json")
    mine = [record for record in records if record["state"] == "PENDING"]
    assert len({record["job_id"] for record in mine}) == len(mine) == QUEUED
    assert calls.count("squeue") == 1 and calls.count("sacct") <= 1
    cancelled, calls, _ = counted(faults, "cancel", *(record["run"] for record in mine), "--json")
    assert calls.count("scancel") == 1
    until(lambda: not desk.slurm("squeue", "-h", "--name=short", "-o", "%i").split(), "an empty queue", WAIT_S)
    ended = json.loads(desk.run("status", "--json", seconds=WAIT_S).stdout)["runs"]
    names = {record["run"] for record in mine}
    assert [record["state"] for record in ended if record["run"] in names] == ["CANCELLED"] * QUEUED
    assert len(cancelled) == QUEUED
    outcome = (
        f"`status`: one squeue, one sacct, {seconds:.2f} s of processor time; `cancel`: one scancel; all CANCELLED"
    )
    tell("1,000 queued runs", outcome, str(QUEUED), began)


def counted(faults: Faults, *arguments: str) -> tuple[list[dict[str, str]], list[str], float]:
    """hpclaunch ARGUMENTS: what it told, the scheduler's programs that it called, its own seconds with theirs."""
    desk = faults.desk
    folder = desk.folder / "counted"
    folder.mkdir(exist_ok=True)
    for name in ("squeue", "sacct", "scancel", "scontrol", "sinfo"):
        (folder / name).write_text(COUNTED.format(name=name, folder=folder, real=f"/usr/bin/{name}"))
        (folder / name).chmod(0o755)
    (folder / "calls").unlink(missing_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = desk.run(*arguments, env=desk.shell(PATH=f"{folder}:{desk.shell()['PATH']}"), seconds=WAIT_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return json.loads(done.stdout)["runs"], (folder / "calls").read_text().split(), seconds
