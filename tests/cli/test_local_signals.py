"""Without a scheduler, too: a signal to the script reaches every rank, and nothing that a run started is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Desk, wait_for

# Notes each signal that it gets and ends with 5 at SIGTERM; or ends as any signal has it. Its child has a session of
# its own.
PATIENT = """\
import os, signal, subprocess, sys, time
rank = os.environ["RANK"]
notes = os.open(os.environ["HPCLAUNCH_RUN_DIR"] + "/notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
got = []
def note(text):
    os.write(notes, f"rank {rank} {text}\\n".encode())
def catch(number, frame):
    note("got " + signal.Signals(number).name)
    got.append(number)
if sys.argv[1] == "catches":
    for name in ("SIGUSR1", "SIGUSR2", "SIGTERM"):
        signal.signal(getattr(signal, name), catch)
subprocess.Popen(["sleep", "1000"], start_new_session=True)
note("is ready")
while signal.SIGTERM not in got:
    time.sleep(0.05)
sys.exit(5)
"""
RANKS = {"direct": 1, "local": 2, "mpirun": 2, "horovodrun": 2}


@pytest.fixture(params=RANKS)
def launcher(request: pytest.FixtureRequest, desk: Desk) -> str:
    name: str = request.param
    beside = Path(sys.executable).parent
    if name not in ("direct", "local") and shutil.which(name, path=f"{beside}:/usr/bin") is None:
        pytest.skip(f"group {name}: it is not on this machine")
    desk.environment |= {
        "HPCLAUNCH_SITE": "local",
        "PATH": f"{beside}:/usr/bin:/bin",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    return name


class Started:
    """A script that was started by hand, in a session of its own, and its run directory."""

    def __init__(self, desk: Desk, launcher: str, *words: str) -> None:
        desk.write("patient.py", PATIENT)
        tasks = ("--tasks-per-node", str(RANKS[launcher]), "--nodes", "1", "--cpus-per-task", "1")
        done = desk.type("render", "./patient.py", *tasks, "--launcher", launcher, "-o", "job.sh", "--", *words)
        assert done.code == 0, done.err
        self.run = Path(done.out.strip())
        self.process = subprocess.Popen(
            ["bash", "job.sh"],
            cwd=desk.project,
            env=desk.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def notes(self, text: str) -> int:
        file = self.run / "notes"
        return file.read_text().count(text) if file.exists() else 0

    def left(self) -> list[str]:
        """The processes of the run that live."""
        mark, found = f"HPCLAUNCH_RUN_DIR={self.run}".encode(), []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "cmdline").read_text(errors="replace"))
            except OSError:
                continue
        return found


@pytest.fixture
def started(desk: Desk, launcher: str, words: tuple[str, ...]) -> Iterator[Started]:
    one = Started(desk, launcher, *words)
    wait_for(lambda: one.notes("is ready\n") == RANKS[launcher], "all ranks are ready")
    yield one
    one.process.kill()
    one.process.wait()


@pytest.mark.parametrize("words", [("catches",)], ids=["catches"])
def test_row_25_every_rank_gets_every_signal_and_nothing_is_left(started: Started, launcher: str) -> None:
    assert started.left()
    for sent in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
        started.process.send_signal(sent)
        for rank in range(RANKS[launcher]):
            wait_for(lambda text=f"rank {rank} got {sent.name}\n": started.notes(text) == 1, f"{sent} at rank {rank}")
    assert started.process.wait() == 5
    assert started.left() == []


@pytest.mark.parametrize("words", [("ends",)], ids=["ends"])
def test_row_25_a_signal_that_the_program_does_not_catch_ends_it_and_nothing_is_left(started: Started) -> None:
    started.process.send_signal(signal.SIGUSR1)
    assert started.process.wait() == 128 + signal.SIGUSR1
    assert started.left() == []


@pytest.mark.parametrize("words", [("catches",)], ids=["catches"])
@pytest.mark.parametrize(
    ("launcher", "sent"),
    [("direct", signal.SIGINT), ("local", signal.SIGINT), ("mpirun", signal.SIGHUP)],
    indirect=["launcher"],
)
def test_who_types_control_c_or_closes_the_terminal_ends_the_ranks(started: Started, sent: signal.Signals) -> None:
    os.killpg(started.process.pid, sent)
    assert started.process.wait() == 5
    assert started.notes("got SIGTERM\n") >= 1
    assert started.left() == []
