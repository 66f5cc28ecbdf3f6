"""Signals reach the ranks, at once and under both launchers, and the exit code outlives them (rows 8, 25, 26)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import pytest

from tests.slurm.desk import Desk, Submitted, until

# Waits for a signal as long as its job may, notes it, continues until every rank has noted one, and ends with 5: a rank
# that ended earlier would end the others before the signal has reached them.
PATIENT = """
import os, signal, sys, time
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("SLURM_PROCID")
notes = os.environ["HPCLAUNCH_RUN_DIR"] + "/notes"
note_file = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def say(text):  # into a file: mpirun drops what its ranks print while it ends
    os.write(note_file, f"rank {rank} {text}\\n".encode())
got = []
def note(number, frame):
    got.append(number)
    say("got " + signal.Signals(number).name)
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
    signal.signal(number, note)
say("is ready")
while not got:
    time.sleep(0.1)
say("continues")
while len({line.split()[1] for line in open(notes) if " got " in line}) < int(os.environ["HPCLAUNCH_WORLD_SIZE"]):
    time.sleep(0.1)
sys.exit(5)
"""
pytestmark = pytest.mark.timeout(600)
LAUNCHERS = ("srun", "mpirun")
RANKS = range(4)


def notes(run: Submitted) -> str:
    file = run.path / "notes"
    return file.read_text() if file.exists() else ""


def wait_for_note(run: Submitted, text: str, times: int) -> None:
    until(lambda: notes(run).count(text) >= times, f"{text!r} {times} times from {run.path.name}: {notes(run)}")


@dataclass(frozen=True, slots=True)
class Jobs:
    """Submitted all at once: they wait for signals at the same time."""

    asked: dict[str, Submitted]
    ended: Submitted
    cancelled: dict[str, Submitted]
    warned: dict[str, Submitted]
    timed_out: Submitted


@pytest.fixture(scope="module")
def jobs(desk: Desk) -> Jobs:
    desk.job("patient", PATIENT)
    two = ("patient", "--nodes", "2", "--tasks-per-node", "2")
    small = ("patient", "--nodes", "1", "--tasks-per-node", "1", "--launcher")
    made = Jobs(
        timed_out=desk.submit(*two, "--walltime", "30m"),
        ended=desk.submit("patient", "--nodes", "2", "--tasks-per-node", "1"),  # with more, one job would have to wait
        asked={name: desk.submit(*two, "--launcher", name) for name in LAUNCHERS},
        cancelled={name: desk.submit(*two, "--launcher", name) for name in LAUNCHERS},
        warned={
            "srun": desk.submit(*two, "--walltime", "30m", "--sbatch", "--signal=USR1@300"),
            "srun, batch shell": desk.submit(*small, "srun", "--walltime", "30m", "--sbatch", "--signal=B:USR1@300"),
            "mpirun, batch shell": desk.submit(
                *two, "--launcher", "mpirun", "--walltime", "30m", "--sbatch", "--signal=B:USR1@300"
            ),
        },
    )
    wait_for_note(made.ended, "is ready", 2)
    for run in (*made.asked.values(), *made.cancelled.values(), *made.warned.values(), made.timed_out):
        wait_for_note(run, "is ready", 1 if run is made.warned["srun, batch shell"] else len(RANKS))
    # Only now do the walltimes come near, however long it took until all were ready. Slurm counts in minutes, looks
    # every half minute, and sends what falls due before its next look: the signals come within a minute and a half.
    limit(desk, made.timed_out, 1)
    for run in made.warned.values():
        limit(desk, run, 6)
    return made


def limit(desk: Desk, run: Submitted, minutes: int) -> None:
    """Let the run's walltime end before so many minutes are over."""
    began = (run.path / "attempts" / f"{run.job_id}.0" / "started").stat().st_mtime
    whole = math.floor((time.time() - began) / 60) + minutes
    desk.slurm("scontrol", "update", f"jobid={run.job_id}", f"timelimit={whole}")


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_row_25_a_signal_to_the_batch_shell_reaches_every_rank_at_once(desk: Desk, jobs: Jobs, launcher: str) -> None:
    run = jobs.asked[launcher]
    desk.slurm("scancel", "--batch", "--signal=USR2", run.job_id)
    # At once: a shell that passed it on when the launcher has ended would do so never, as the ranks wait for it.
    wait_for_note(run, "got SIGUSR2", len(RANKS))


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_row_25_the_exit_code_is_kept_after_a_forwarded_signal(desk: Desk, jobs: Jobs, launcher: str) -> None:
    run = jobs.asked[launcher]
    desk.wait(run)
    assert "continues" in notes(run)
    assert desk.ended(run) == "FAILED 5:0"


def test_row_26_sigterm_to_the_batch_shell_lets_sruns_ranks_end_by_themselves(desk: Desk, jobs: Jobs) -> None:
    desk.slurm("scancel", "--batch", "--signal=TERM", jobs.ended.job_id)
    desk.wait(jobs.ended)
    # srun kills its ranks when it gets SIGTERM itself: no rank would note it, and none would end with 5.
    assert all(f"rank {rank} got SIGTERM" in notes(jobs.ended) for rank in range(2)), notes(jobs.ended)
    assert desk.ended(jobs.ended) == "FAILED 5:0"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_row_26_cancelling_asks_every_rank_to_end(desk: Desk, jobs: Jobs, launcher: str) -> None:
    run = jobs.cancelled[launcher]
    done = desk.run("cancel", run.job_id)
    assert done.returncode == 0, done.stderr
    desk.wait(run)
    assert all(f"rank {rank} got SIGTERM" in notes(run) for rank in RANKS), notes(run)
    assert desk.ended(run).startswith("CANCELLED")


@pytest.mark.parametrize("way", ["srun", "srun, batch shell", "mpirun, batch shell"])
def test_row_26_the_signal_before_the_walltime_reaches_every_rank(desk: Desk, jobs: Jobs, way: str) -> None:
    run = jobs.warned[way]
    desk.wait(run, seconds=300)
    ranks = RANKS if way != "srun, batch shell" else range(1)
    assert all(f"rank {rank} got SIGUSR1" in notes(run) for rank in ranks), notes(run)
    assert desk.ended(run) == "FAILED 5:0"


def test_row_26_a_signal_to_the_steps_alone_is_refused_under_mpirun(desk: Desk, jobs: Jobs) -> None:
    done = desk.run("submit", "patient", "--nodes", "2", "--launcher", "mpirun", "--sbatch", "--signal=USR1@60")
    assert done.returncode == 1
    assert "--signal=B:" in done.stderr  # Slurm's own would miss the ranks on the first node


def test_row_08_the_ranks_are_asked_to_end_at_the_walltime(desk: Desk, jobs: Jobs) -> None:
    run = jobs.timed_out
    desk.wait(run, seconds=300)
    assert all(f"rank {rank} got SIGTERM" in notes(run) for rank in RANKS), notes(run)
    assert desk.ended(run).startswith("TIMEOUT")
