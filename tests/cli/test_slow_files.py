"""How many calls a file system gets that is slow for each: counted, with no clock, in all processes of a command."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import Desk
from tests.forked.server import compiled

SOURCE = Path(__file__).parents[2] / "benchmarks" / "slow_files.c"
MOST_INODES, MOST_FSYNCS, MOST_CALLS = 60, 6, 160
SYNCS = ("fsync", "fdatasync", "syncfs")
SENT = "sync_file_range"
"""Sends a file to the disk, where the next fsync makes it safe."""
SBATCH = """#!/bin/sh
for last in "$@"; do :; done
cat "$last" > /dev/null
echo Submitted batch job 4711
"""


@dataclass(frozen=True)
class Calls:
    """What a command did below the desk, in order: (name, path), and the paths that it made."""

    all: list[tuple[str, str]]
    made: list[str]

    @property
    def by_path(self) -> list[tuple[str, str]]:
        return [call for call in self.all if call[0] not in (*SYNCS, SENT)]

    @property
    def synced(self) -> list[str]:
        return [path for name, path in self.all if name in SYNCS]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = compiled(tmp_path_factory.mktemp("library"), SOURCE)
    if not found:
        pytest.skip("group compiler: no C compiler on this machine")
    return found


@pytest.fixture
def quiet(cluster: Desk) -> Desk:
    """A site whose programs read and write nothing but the script that they are given."""
    cluster.program("sbatch", SBATCH)
    for name in ("squeue", "sacct", "scontrol", "sacctmgr", "sshare"):
        cluster.program(name, "#!/bin/sh\n")
    (cluster.project / "train.py").unlink()
    cluster.write("src/count.py", "print(1)\n")
    return cluster


def counted(desk: Desk, library: str, *words: str) -> Calls:
    log = desk.root / "calls"
    log.unlink(missing_ok=True)
    done = desk.type(*words, LD_PRELOAD=library, SLOW_FILES_ROOT=str(desk.root), SLOW_FILES_LOG=str(log))
    assert done.code == 0, done.err
    calls, made = [], []
    for line in log.read_text().splitlines():
        name, _, path = line.replace(str(desk.root), "").partition(" ")
        if path.startswith(("/project/", "/home/")):
            calls.append((name.lstrip("+"), re.sub(r"\.(hpclaunch-)?[0-9a-f]{16}$", "DRAFT", path)))
            made += [path] if name.startswith("+") else []
    return Calls(calls, made)


def run_of(desk: Desk) -> str:
    """The newest run directory, below the desk."""
    newest = max((desk.project / "runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    return f"/project/runs/{newest.name}"


def test_a_script_alone_makes_few_inodes_calls_and_waits(quiet: Desk, library: str) -> None:
    for is_first in (True, False):
        calls = counted(quiet, library, "submit", "src/count.py", "--nodes", "1")
        run, index = run_of(quiet), "/home/.local/state/hpclaunch/runs.txt"
        assert len(calls.made) <= MOST_INODES and len(calls.by_path) <= MOST_CALLS, calls
        assert not (quiet.project.parent / run.lstrip("/") / "code/hpclaunch").exists()
        first = [str(Path(index).parent)] if is_first else []
        before = ["/project/runs", index, *first, f"{run}/DRAFT", run]
        assert calls.synced == [*before, f"{run}/DRAFT"] and len(calls.synced) <= MOST_FSYNCS
        # All but the last before sbatch reads its script: list, directory, record; then the record with the job.
        asked = next(n for n, (_, path) in enumerate(calls.all) if "/submitit/" in path)
        assert sum(name in SYNCS for name, _ in calls.all[:asked]) == len(before)
        names = [path for name, path in calls.all[:asked] if name == "open"]
        assert {f"{run}/{name}" for name in ("job.sh", "hpclaunch.sh", "spec.json", "request.json")} <= {*names}


def test_everything_of_a_run_is_sent_to_the_disk_before_its_record_is_waited_for(quiet: Desk, library: str) -> None:
    calls = counted(quiet, library, "submit", "src/count.py", "--nodes", "1")
    run = run_of(quiet)
    waits = [call for call in calls.all if call[0] in (*SYNCS, SENT)]
    sent = [path.removeprefix(f"{run}/") for name, path in waits if name == SENT and path.startswith(f"{run}/")]
    files = ["run.json", "hpclaunch.sh", "job.sh", "spec.json", "request.json", "environment.json"]
    assert sent == [*files, "DRAFT", "submissions/DRAFT", "submissions/DRAFT"]
    record = waits.index(("fsync", run))
    assert record > waits.index((SENT, f"{run}/environment.json"))
    # The user's own runs and the list of all are in one folder; the second is waited for.
    own = waits.index((SENT, "/home/.local/state/hpclaunch/own-runs/DRAFT"))
    assert own < waits.index(("fsync", "/home/.local/state/hpclaunch/runs.txt")) < record


def test_a_job_that_uses_the_training_library_gets_it_as_one_file(quiet: Desk, library: str) -> None:
    quiet.write("src/count.py", "from hpclaunch import training\n")
    calls = counted(quiet, library, "submit", "src/count.py", "--nodes", "1")
    assert len(calls.made) <= MOST_INODES and len(calls.by_path) <= MOST_CALLS
    package = quiet.root / run_of(quiet).lstrip("/") / "code/hpclaunch"
    assert sorted(path.name for path in package.iterdir()) == ["__init__.py", "training.zip"]


@pytest.mark.parametrize(
    "words",
    [("submit",), ("submit", "--dry-run"), ("submit", "--test-only"), ("render", "-o", "job.sh"), ("render",)],
    ids=" ".join,
)
@pytest.mark.parametrize("in_git", [False, True])
def test_the_code_is_examined_once(quiet: Desk, library: str, words: tuple[str, ...], in_git: bool) -> None:
    names = ["count.py", "net/model.py", "net/a/deep.py", "data.csv"]
    for name in names:
        quiet.write(f"src/{name}", f"# {name}\n")
    if in_git:
        commands = "git init -q . && git add . && git -c user.name=x -c user.email=x@example.org commit -qm x"
        subprocess.run(["bash", "-c", commands], cwd=quiet.project, env=quiet.environment, check=True)
    calls = counted(quiet, library, words[0], "src/count.py", "--nodes", "1", *words[1:])
    opened = Counter(path for name, path in calls.by_path if name in ("open", "opendir"))
    assert {f"/project/src/{name}": opened[f"/project/src/{name}"] for name in names} == {
        f"/project/src/{name}": 1 for name in names
    }
    assert [opened[f"/project/{folder}"] for folder in ("src", "src/net", "src/net/a")] == [1, 1, 1]


def test_a_job_with_measurements_is_hashed_compared_and_copied_from_one_reading(quiet: Desk, library: str) -> None:
    parameters = {"epochs": 3, "batch_size_per_rank": 64}
    job = {"summary": "mine", "script": "train.py", "parameters": parameters, "training": {"samples": 50_000}}
    quiet.write("jobs/mine/job.yaml", json.dumps(job))
    quiet.write("jobs/mine/train.py", "import model\n")
    quiet.write("jobs/mine/model.py", "# from hpclaunch import training\n")
    calls = counted(quiet, library, "submit", "mine", "--nodes", "1")
    opened = Counter(path for name, path in calls.by_path if name in ("open", "opendir"))
    assert [opened[f"/project/jobs/mine{name}"] for name in ("", "/train.py", "/model.py")] == [1, 1, 1]
    assert (quiet.root / run_of(quiet).lstrip("/") / "code/hpclaunch/training.zip").is_file()


def test_each_run_of_a_list_costs_few_calls(quiet: Desk, library: str) -> None:
    def calls_of_status() -> int:
        return len(counted(quiet, library, "status").by_path)

    for _ in range(2):
        assert quiet.type("submit", "src/count.py", "--nodes", "1").code == 0
    calls_of_status()  # records what has become of the jobs
    two = calls_of_status()
    for _ in range(2):
        assert quiet.type("submit", "src/count.py", "--nodes", "1").code == 0
    calls_of_status()
    assert calls_of_status() - two <= 2 * 30
