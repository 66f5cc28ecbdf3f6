"""``resume_rounds.py FOLDER ROUNDS PROCESSES``: many processes resume one run at once, on a file system without flock.

Each round makes a failed run in FOLDER and starts the processes together; each types ``hpclaunch resume``. flock fails
in all of them, with ENOSYS in one round and with ENOLCK in the next. sbatch is a fake on PATH that counts in
FOLDER/queued. One line is printed for each round: the jobs queued, and the processes that ended with 0.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpclaunch import runs
from hpclaunch.cli import runs as runs_of_cli
from hpclaunch.cli import submit as submit_of_cli
from hpclaunch.core.folders import state_folder
from hpclaunch.runs.ownership import new_token
from tests.builders import a_run

__all__ = ["runs_of_cli", "submit_of_cli"]  # imported before the processes are forked


def failed_run(folder: Path) -> runs.Run:
    """Return a run of the user's own that failed as job 4700."""
    folder.mkdir()
    ended = replace(a_run(folder, job_id="4700", state="FAILED"), exit_code="1:0", created="2026-01-02T03:04:05Z")
    run = runs.save(replace(ended, token=new_token()), durable=False)
    (run.path / "job.sh").write_text(f"#!/bin/bash\n#SBATCH --chdir={run.path}\n")
    (run.path / "spec.json").write_text(json.dumps({"walltime": 60}))
    runs.list_own(state_folder(os.environ), run)
    return run


def resume_alone(run: runs.Run, number: int, gate: int) -> None:
    """Wait until the gate is opened, and resume the run. It ends this process."""
    from hpclaunch.cli import main

    def flock(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    fcntl.flock = flock  # type: ignore[assignment]
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    os.read(gate, 1)
    code = 0
    try:
        main(["resume", str(run.path)])
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        code = 70
    os._exit(code)


def play(folder: Path, number: int, processes: int) -> tuple[int, list[int]]:
    """Play one round; return the jobs that were queued for the run, and the exit codes of the processes."""
    run = failed_run(folder / str(number))
    gate, opened = os.pipe()
    started = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            os.close(opened)
            resume_alone(run, errno.ENOSYS if number % 2 else errno.ENOLCK, gate)
        started.append(child)
    os.close(gate)
    os.close(opened)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in started]
    queued = (folder / "queued").read_text().splitlines() if (folder / "queued").exists() else []
    recorded = runs.load(run.path)
    jobs = [line for line in queued if line.partition("|")[2] == str(run.path)]
    named = [f"{recorded.job_id}|{run.path}"]
    assert jobs == named or len(jobs) != 1, (jobs, recorded)
    return len(jobs), codes


def main(folder: Path, rounds: int, processes: int) -> None:
    for number in range(rounds):
        jobs, codes = play(folder, number, processes)
        print(jobs, codes.count(0), codes.count(1), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
