"""The lock of a folder between processes, with the kernel's flock and without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked.server import compiled

# Each process adds one to a number in a file, again and again, and reads and writes it in two steps.
COUNT = """
import ctypes, sys
from pathlib import Path
from hpclaunch.core.locks import locked
folder, times, flock = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "flock"
if not flock:
    ctypes.CDLL(None).faulty_without_flock()
for _ in range(times):
    with locked(folder) as held:
        assert held
        number = int((folder / "number").read_text())
        (folder / "number").write_text(str(number + 1))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = compiled(tmp_path_factory.mktemp("library"))
    if not found:
        pytest.skip("group compiler: no C compiler on this machine")
    return found


@pytest.mark.parametrize("kind", ["flock", "no flock"])
def test_of_four_processes_one_at_a_time_holds_the_lock(tmp_path: Path, library: str, kind: str) -> None:
    (tmp_path / "number").write_text("0")
    command = [sys.executable, "-c", COUNT, str(tmp_path), "100", kind]
    environment = {**os.environ, "LD_PRELOAD": library}
    counters = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    words = [counter.communicate()[1] for counter in counters]
    assert [counter.returncode for counter in counters] == [0] * 4, words
    assert (tmp_path / "number").read_text() == "400"
    assert len(list(tmp_path.glob(".turns/*"))) == (kind != "flock"), "only the newest turn is kept"
