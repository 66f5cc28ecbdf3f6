"""What the studies see of running ranks: their memory, and the processor time since the look before."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

STUDY = Path(__file__).parents[3] / "benchmarks" / "large_batch"
if not STUDY.is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)

# Takes memory, works for 0.3 s of processor time, says so, and waits.
PROGRAM = """
import sys, time
held = bytearray(b"x") * 40_000_000
while time.process_time() < 0.3:
    pass
print("worked", flush=True)
sys.stdin.read()
"""


class Waited(subprocess.Popen[bytes]):
    """A program that is looked at before its work and after it, however long that takes, and then ends."""

    worked = False

    def wait(self, timeout: float | None = None) -> int:
        if not self.worked:
            assert self.stdout is not None and self.stdout.readline() == b"worked\n"
            self.worked = True
            raise subprocess.TimeoutExpired(self.args, 0.0)
        self.kill()
        return super().wait()


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(STUDY))
    monkeypatch.delitem(sys.modules, "ranks", raising=False)
    found = importlib.import_module("ranks")
    monkeypatch.delitem(sys.modules, "ranks")
    return found


# bash gives a program in the background no stdin unless it is told to.
LAUNCHER = ("bash", "-c", '"$@" <&0 & wait', "launcher")


@pytest.mark.parametrize("launcher", [(), LAUNCHER], ids=["alone", "launched"])
def test_memory_and_processor_time_are_seen_while_a_program_runs(ranks: ModuleType, launcher: tuple[str, ...]) -> None:
    command = [*launcher, sys.executable, "-c", PROGRAM]
    with Waited(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        first, second = ranks.watch(process, alone=not launcher)
    assert (first.cores, first.at < second.at) == (0.0, True)
    assert second.pss > 40_000_000
    assert second.cores * (second.at - first.at) >= 0.25  # the clock of the processor counts hundredths of a second


def test_a_process_that_has_ended_uses_nothing(ranks: ModuleType) -> None:
    gone = Path("/proc/0")
    assert (ranks.pss(gone), ranks.processor_seconds(gone), ranks.after_name(gone)) == (0, 0.0, [])
