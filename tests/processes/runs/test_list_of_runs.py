"""The list of runs while several processes write it: no entry is lost, and none that was removed comes back.

200 updates in `make test`; 10,000 with HPCLAUNCH_IO=all (`make io`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpclaunch import runs
from tests.forked.server import compiled

UPDATES = 10_000 if os.environ.get("HPCLAUNCH_IO") == "all" else 200
WRITERS = 4
# A writer adds runs; the cleaner removes the odd ones of those that it finds, until the writers have ended.
PROGRAM = """
import ctypes, sys
from pathlib import Path
from hpclaunch import runs
index, name, number, kind = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
if kind == "no flock":
    ctypes.CDLL(None).faulty_without_flock()
for count in range(number):
    problem = runs.remember(index, Path(f"/runs/{name}-{count}"))
    assert not problem, problem
while name == "cleaner":
    found = runs.indexed(index)
    runs.forget(index, [path for path in found if int(path.name.rpartition("-")[2]) % 2])
    if sum(path.name.endswith("-last-0") for path in found) == 4:
        break
if name != "cleaner":
    runs.remember(index, Path(f"/runs/{name}-last-0"))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = compiled(tmp_path_factory.mktemp("library"))
    if not found:
        pytest.skip("group compiler: no C compiler on this machine")
    return found


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ["flock", "no flock"])
def test_four_writers_and_a_cleaner_lose_nothing(tmp_path: Path, library: str, kind: str) -> None:
    index, environment = tmp_path / "state/runs.txt", {**os.environ, "LD_PRELOAD": library}
    writers = {str(name): UPDATES // WRITERS for name in range(WRITERS)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(index), name, str(number), kind],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, number in {**writers, "cleaner": 0}.items()
    ]
    words = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), words
    listed = [path.name for path in runs.indexed(index)]
    expected = [f"{name}-{count}" for name, number in writers.items() for count in range(0, number, 2)]
    assert sorted(listed) == sorted([*expected, *(f"{name}-last-0" for name in writers)])
    assert [path.name for path in index.parent.iterdir() if path.name.startswith(".hpclaunch-")] == []


def test_an_entry_survives_a_process_that_writes_the_list_without_the_lock(tmp_path: Path) -> None:
    """As after a stopped process: its turn is over, and another one adds a run while it writes the list again."""
    index = tmp_path / "runs.txt"
    for name in ("a", "b"):
        runs.remember(index, Path("/runs", name))
    from hpclaunch.runs.index import _rewrite

    def choose(now: list[Path]) -> list[Path]:
        with index.open("a") as file:  # by a process that has waited long enough for the lock
            file.write("/runs/late\n")
        return [path for path in now if path.name != "a"]

    assert _rewrite(index, choose) == [Path("/runs/b"), Path("/runs/late")]
    assert runs.indexed(index) == [Path("/runs/b"), Path("/runs/late")]
