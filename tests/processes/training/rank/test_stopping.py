"""Which signals ask a rank to stop, and that it then goes on to the next place where it can save."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytest.importorskip("numpy", reason="group training: numpy is not installed")

ASKED = """
import os, signal
from hpclaunch.training.rank import stopping
stopping.watch()
before = stopping.is_asked()
os.kill(os.getpid(), signal.{name})
print(before, stopping.is_asked())
"""


def asked(name: str, named: str | None) -> subprocess.CompletedProcess[str]:
    """A rank that gets this signal, where HPCLAUNCH_SIGNAL names one."""
    environment = {"PYTHONPATH": ":".join(sys.path), **({} if named is None else {"HPCLAUNCH_SIGNAL": named})}
    command = [sys.executable, "-c", ASKED.format(name=name)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


@pytest.mark.parametrize(
    ("named", "notes"),
    [(None, {"SIGTERM"}), ("", {"SIGTERM"}), ("TERM", {"SIGTERM"}), ("USR2", {"SIGTERM", "SIGUSR2"})],
)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR2"])
def test_sigterm_always_asks_and_so_does_the_signal_that_the_script_names(
    name: str, named: str | None, notes: set[str]
) -> None:
    """Slurm sends SIGTERM alone when it takes the nodes away, whatever signal comes before the end of the walltime."""
    done = asked(name, named)
    if name in notes:
        assert (done.returncode, done.stdout) == (0, "False True\n"), done.stderr
    else:
        assert done.returncode == -signal.Signals[name]


def test_a_name_that_is_no_signal_is_said() -> None:
    done = asked("SIGTERM", "NOPE")
    assert done.returncode == 1
    assert "HPCLAUNCH_SIGNAL=NOPE is not the name of a signal" in done.stderr
