"""Every I/O call of submit, resume, cancel and status fails once, and from then on: nothing is lost, nothing is hidden.

A share of the calls in `make test`; all of them with HPCLAUNCH_IO=all (`make io`).
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import Desk
from tests.forked.server import Outcome, Server, Trial, compiled
from tests.reliability import read_part, surroundings, table, with_rows, write_part

ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EBADF)
ALL = os.environ.get("HPCLAUNCH_IO") == "all"
SHARE = 1 if ALL else 211
"""Every 211th of the calls, errors and kinds: prime, so that the share has some of each."""
KEPT = ("home", "project", "spool")
# A controller that keeps its jobs in SPOOL/jobs as ID|STATE|WORKING FOLDER.
SBATCH = """#!/bin/bash
while IFS= read -r line; do
  case $line in '#SBATCH --chdir='*) folder=${{line#*=}} ;; esac
done < "${{@: -1}}"
jobs=(); [ -e {spool}/jobs ] && mapfile -t jobs < {spool}/jobs
id=$((4711 + ${{#jobs[@]}})); echo "$id|PENDING|$folder" >> {spool}/jobs
echo "Submitted batch job $id"
"""
SQUEUE = """#!/bin/bash
[ -e {spool}/jobs ] || exit 0
while IFS='|' read -r id state folder; do
  [ "$state" = PENDING ] || continue
  case "$*" in
    *%T*%V*) echo "$id|PENDING|Priority||$EPOCHSECONDS|$folder" ;;
    *%T*) echo "$id|PENDING|Priority||$folder" ;;
    *) echo "$id|$EPOCHSECONDS|$folder" ;;
  esac
done < {spool}/jobs
"""
SACCT = """#!/bin/bash
[ -e {spool}/jobs ] || exit 0
while IFS='|' read -r id state folder; do
  [ "$state" = PENDING ] && continue
  case "$*" in
    *State*Submit*) echo "$id|$state|0:0|n1||$EPOCHSECONDS|$folder" ;;
    *State*) echo "$id|$state|0:0|n1|$folder" ;;
  esac
done < {spool}/jobs
"""
SCANCEL = """#!/bin/bash
mapfile -t jobs < {spool}/jobs
for id; do jobs=("${{jobs[@]/#$id|PENDING/$id|CANCELLED}}"); done
printf '%s\\n' "${{jobs[@]}}" > {spool}/jobs
"""
VERBS = {
    "submit": ("submit", "./train.py"),
    "resume": ("resume", "4711"),
    "cancel": ("cancel", "4711", "4712"),
    "status": ("status",),
}


@dataclass
class Bed:
    """A desk whose state can be put back, and a server that types there."""

    desk: Desk
    server: Server

    @property
    def template(self) -> Path:
        return self.desk.root / "template"

    def keep(self) -> None:
        """Remember the present state as the one to begin with."""
        for name in KEPT:
            shutil.copytree(self.desk.root / name, self.template / name, symlinks=True)

    def begin(self) -> None:
        for name in KEPT:
            restore(self.template / name, self.desk.root / name)

    def type(self, *words: str, **fault: object) -> Outcome:
        trial = Trial(words=words, cwd=str(self.desk.project), environment=self.desk.environment, **fault)  # type: ignore[arg-type]
        return self.server.run(trial)

    def jobs(self) -> dict[str, str]:
        """Job ID -> state, as the controller has it."""
        path = self.desk.spool / "jobs"
        lines = path.read_text().splitlines() if path.exists() else []
        return {line.split("|")[0]: line.split("|")[1] for line in lines}

    def end(self, job_id: str, state: str) -> None:
        path = self.desk.spool / "jobs"
        path.write_text(path.read_text().replace(f"{job_id}|PENDING", f"{job_id}|{state}"))


def restore(template: Path, folder: Path) -> None:
    """Put a folder back as it was. Folders stay the same ones: a run is known by its directory's number."""
    wanted = {entry.name: entry for entry in os.scandir(template)}
    for entry in os.scandir(folder):
        kept = wanted.get(entry.name)
        if kept is None and entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif kept is None or (not entry.is_dir(follow_symlinks=False) and not same(kept, entry)):
            os.unlink(entry.path)
    for name, kept in wanted.items():
        place = folder / name
        if kept.is_dir(follow_symlinks=False):
            place.mkdir(mode=kept.stat().st_mode, exist_ok=True)
            restore(Path(kept.path), place)
        elif not os.path.lexists(place):
            shutil.copy2(kept.path, place, follow_symlinks=False)


def same(one: os.DirEntry[str], other: os.DirEntry[str]) -> bool:
    about, there = one.stat(follow_symlinks=False), other.stat(follow_symlinks=False)
    return (about.st_size, about.st_mtime_ns) == (there.st_size, there.st_mtime_ns)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = compiled(tmp_path_factory.mktemp("library"))
    if not found:
        pytest.skip("group compiler: no C compiler on this machine")
    return found


@pytest.fixture
def bed(cluster: Desk, library: str) -> Iterator[Bed]:
    for name, text in {"sbatch": SBATCH, "squeue": SQUEUE, "sacct": SACCT, "scancel": SCANCEL}.items():
        cluster.program(name, text.format(spool=cluster.spool))
    with Server(library) as server:
        yield Bed(cluster, server)


COUNTED = """
import ctypes, os, sys, threading
library, root, threads = ctypes.CDLL(None), sys.argv[1], int(sys.argv[2])

def look(first):
    for number in range(first, 40, threads):
        folder = os.open(f"{root}/{number}", os.O_RDONLY)
        with os.scandir(folder) as entries:  # readdir: the folder itself, its parent, the file, the end
            assert [entry.name for entry in entries] == ["file"]
        file = os.open("file", os.O_RDONLY, dir_fd=folder)
        os.read(file, 9)
        os.close(file)
        os.close(folder)
        assert os.listdir(f"{root}/{number}") == ["file"]  # opendir, readdir as above
        for end in os.pipe():  # it gets the numbers of what was closed, and is no file of the folder
            os.close(end)

library.faulty_begin(root.encode(), ctypes.c_long(0), 0, 0, 0)
workers = [threading.Thread(target=look, args=[first]) for first in range(threads)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(library.faulty_calls())
"""


@pytest.mark.parametrize("threads", [1, 8])
def test_the_calls_of_threads_are_all_counted(tmp_path: Path, library: str, threads: int) -> None:
    for number in range(40):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "file").write_text("text")
    command = [sys.executable, "-c", COUNTED, str(tmp_path), str(threads)]
    done = subprocess.run(command, env={**os.environ, "LD_PRELOAD": library}, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (str(40 * (1 + 4 + 1 + 1 + 1 + 1 + 1 + 4)), "")


def prepare(bed: Bed, verb: str) -> None:
    """The state in which the verb begins; templates are compiled, as for everybody who has typed submit before."""
    assert bed.type("render", "./train.py").code == 0
    if verb != "submit":
        for job_id in ("4711", "4712"):
            assert job_id in bed.type("submit", "./train.py").text
    if verb == "resume":
        bed.end("4711", "TIMEOUT")
        assert bed.type("status", "4711").code == 0
    bed.keep()


def faults_of(bed: Bed, verb: str, before: dict[str, str], done: Outcome, lasting: bool) -> list[str]:
    """What must not happen, and has; ``lasting``: nothing could be read or written any more."""
    found = []
    if "Traceback" in done.text or "Exception ignored" in done.text or done.code not in (0, 1):
        found.append(f"traceback, or code {done.code}")
    now = bed.jobs()
    fresh = [job_id for job_id in now if job_id not in before]
    if len(fresh) > 1:
        found.append("queued twice")
    if verb in ("submit", "resume"):
        found += [f"{job_id} is not in the output" for job_id in fresh if job_id not in done.text]
        found += ["nothing is queued, and the code is 0"] if not fresh and done.code == 0 else []
    if verb == "cancel" and done.code == 0:
        found += [f"{job_id} was not cancelled, and the code is 0" for job_id in now if now[job_id] == "PENDING"]
    shown = all(job_id in done.text for job_id in now)
    warned = lasting and ("cannot be read" in done.err or "may not read" in done.err)
    if verb in ("cancel", "status") and done.code == 0 and not shown and not warned:
        found.append("a job is not in the output, and the code is 0")
    if verb == "status" and not lasting and not shown and "error: stdout: " not in done.err:
        found.append("a job is not in the output")
    afterwards = bed.type("status", "--json")
    found += [f"{job_id} is lost" for job_id in now if f'"{job_id}"' not in afterwards.out]
    return [f"{text}: {done.text[-300:]!r}" for text in found]


@pytest.mark.timeout(7200 if ALL else 300)
@pytest.mark.parametrize("verb", VERBS)
def test_a_failing_call_loses_no_job_and_hides_none(bed: Bed, verb: str) -> None:
    prepare(bed, verb)
    before = bed.jobs()
    root = str(bed.desk.root)
    whole = bed.type(*VERBS[verb], root=root)
    assert whole.code == 0, whole.err
    bed.begin()
    again = bed.type(*VERBS[verb], root=root)
    assert (again.code, abs(again.calls - whole.calls) < 5) == (0, True), "the state was not put back"
    trials = list(itertools.product(range(1, whole.calls + 1), ERRORS, (False, True)))
    found: list[str] = []
    failed: Counter[str] = Counter()
    for number, error, stays in trials[::SHARE]:
        bed.begin()
        done = bed.type(*VERBS[verb], root=root, number=number, error=error, stays=stays, streams=not stays)
        failed[done.failed] += 1
        name = f"{verb}, call {number} ({done.failed}), {errno.errorcode[error]}{', and all later' if stays else ''}"
        found += [f"{name}: {fault}" for fault in faults_of(bed, verb, before, done, stays)]
    print(f"{verb}: {whole.calls} calls, {sum(failed.values())} trials, {len(found)} faults; {dict(failed)}")
    if ALL and os.environ.get("HPCLAUNCH_RELIABILITY") == "write":
        write_row((verb, str(whole.calls), f"{sum(failed.values()):,}", str(len(found))))
    assert not found, f"{len(found)} of {sum(failed.values())}:\n" + "\n".join(found[:40])


def write_row(row: tuple[str, ...]) -> None:
    """Write the verb's row of docs/reliability.md."""
    header = ("verb", "I/O calls", "trials", "tracebacks, lost or hidden jobs", "measured")
    rows = with_rows(read_part("failing I/O"), header, [(*row, surroundings("submitit"))])
    write_part("failing I/O", table(header, rows))
