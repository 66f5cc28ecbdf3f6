"""A broadcast on a real Slurm: what 16 ranks open on the shared file system, counted by strace, and what is left."""

from __future__ import annotations

import compileall
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.slurm.desk import Desk, Submitted, until
from tests.tiers import LONG

pytestmark = pytest.mark.timeout(600)
MODULES = 300
MAIN = """
import os, sys
import beside, many
print("rank", os.environ["RANK"], sys.prefix, beside.__file__, flush=True)
"""
TRACE = ("strace", "-ff", "-qq", "-y", "-e", "trace=open,openat,creat")
OPEN = re.compile(r'^(?:open|creat|openat)\((?:\w+<(?P<folder>[^>]*)>, )?"(?P<path>[^"]*)"')
SMALL = ("--gpus-per-node", "0", "--cpus-per-task", "1", "--walltime", "10m", "--venv", "venv")


@pytest.fixture(scope="module")
def person(desk: Desk) -> Desk:
    """Who has a venv with a large package on the shared file system, and a script with a module beside it."""
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(desk.folder / "venv")], check=True)
    (library,) = desk.folder.glob("venv/lib/python3*/site-packages")
    package = library / "many"
    package.mkdir()
    for number in range(MODULES):
        (package / f"m{number}.py").write_text(f"x = {number}\n")
    (package / "__init__.py").write_text("".join(f"from many import m{number}\n" for number in range(MODULES)))
    compileall.compile_dir(package, quiet=2)
    (desk.folder / "main.py").write_text(MAIN)
    (desk.folder / "beside.py").write_text("")
    (desk.folder / "opens").mkdir()
    traced = {"mpi": "none", "extra": [*TRACE, "-o", str(desk.folder / "opens/rank")]}
    desk.site("traced", launchers__options__srun=traced)
    return desk


def opens_on_shared(desk: Desk) -> int:
    """How many files the ranks of the last run opened, or tried to, below the shared folder; forgets them then."""
    found = 0
    for file in (desk.folder / "opens").iterdir():
        for line in file.read_text(errors="replace").splitlines():
            opened = OPEN.match(line)
            path = Path(opened["folder"] or desk.folder, opened["path"]) if opened else Path("/")
            found += path.is_relative_to(desk.folder) and not path.is_relative_to(desk.folder / "opens")
        file.unlink()
    return found


def on_nodes(desk: Desk) -> list[str]:
    """What hpclaunch has left in the memory of the nodes."""
    listed = desk.slurm("srun", "--nodes=4", "--ntasks-per-node=1", "--mpi=none", "ls", "-A", "/dev/shm")
    return [name for name in listed.split() if name.startswith("hpclaunch-")]


def ranks_of(run: Submitted) -> dict[str, list[str]]:
    """Rank -> what it has said of itself."""
    lines = [line.split() for line in run.log().splitlines() if line.startswith("rank ")]
    return {rank: told for _, rank, *told in lines}


def test_16_ranks_open_hardly_more_files_on_the_shared_file_system_than_one(person: Desk) -> None:
    alone = person.submit(
        "./main.py", *SMALL, "--site", "traced", "--nodes", "1", "--tasks-per-node", "1", "--no-broadcast"
    )
    person.wait(alone)
    assert person.ended(alone) == "COMPLETED 0:0", alone.log()
    of_one = opens_on_shared(person)
    run = person.submit("./main.py", *SMALL, "--site", "traced", "--nodes", "4", "--tasks-per-node", "4", "--broadcast")
    person.wait(run)
    assert person.ended(run) == "COMPLETED 0:0", run.log()
    of_16 = opens_on_shared(person)
    print(f"opens on the shared file system: {of_one} by one rank, {of_16} by 16 with a broadcast")
    assert of_one > MODULES and of_16 <= 1.2 * of_one, (of_one, of_16)
    told = ranks_of(run)
    assert len(told) == 16 and all(path.startswith("/dev/shm/hpclaunch-") for paths in told.values() for path in paths)
    assert on_nodes(person) == []
    (start,) = run.path.glob("attempts/*/broadcast")
    assert f"{person.folder}/venv and {run.path}/code, " in start.read_text()
    assert start.read_text().strip() in person.run("runs", "show", run.path.name).stdout
    if LONG:
        run = person.submit("./main.py", *SMALL, "--launcher", "mpirun", "--nodes", "2", "--broadcast")
        person.wait(run)
        told = ranks_of(run)
        assert told and all(path.startswith("/dev/shm/hpclaunch-") for paths in told.values() for path in paths)
    shutil.rmtree(run.path.parent / f".broadcast-{Path(run.path).stat().st_uid}")


def test_a_cancelled_job_leaves_nothing_in_the_memory_of_its_nodes(person: Desk) -> None:
    (person.folder / "waits.py").write_text(MAIN + "import signal\nsignal.pause()\n")
    run = person.submit("./waits.py", *SMALL, "--nodes", "4", "--tasks-per-node", "2", "--broadcast")
    until(lambda: len(ranks_of(run)) == 8, f"8 ranks in {run.log()}")
    assert len(on_nodes(person)) == 4
    person.slurm("scancel", run.job_id)
    person.wait(run)
    until(lambda: on_nodes(person) == [], "empty nodes")
