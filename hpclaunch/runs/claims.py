"""Which start has a run directory: the claims that its script leaves, and those that hpclaunch leaves for it.

``claims/1``, ``claims/2``, … hold one line each: ``START HOST PROCESS BEGAN``, where START is JOB.RESTART. The newest
has the directory. None is ever changed, so two processes that see the same newest claim cannot both follow it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from hpclaunch.core.files import read_text
from hpclaunch.runs.record import Run

FOLDER = "claims"
_FREE = "free"


def holder_of(path: Path) -> str:
    """Return the job that has the run directory; nothing where no job has it."""
    start = _newest_claim(path / FOLDER)[1].split(" ")[0].strip()
    return "" if start == _FREE else start.rpartition(".")[0]


def release(run: Run) -> None:
    """Let a further start take the directory from a job of the run, which has ended; another job's claim stays."""
    if holder_of(run.path) in {run.job_id, *run.earlier} - {""}:
        _add_claim(run.path / FOLDER, _FREE)


def reserve(run: Run, job_id: str) -> None:
    """Claim the directory for a job that waits in the queue, so that no other start takes it before."""
    folder = run.path / FOLDER
    if _newest_claim(folder)[1].strip() in ("", _FREE):
        with contextlib.suppress(OSError):
            folder.mkdir(exist_ok=True)
        _add_claim(folder, f"{job_id}.0")


def _newest_claim(folder: Path) -> tuple[int, str]:
    """Return number and text of the newest claim; 0 and nothing where there is none."""
    try:
        numbers = [int(name) for name in os.listdir(folder) if name.isascii() and name.isdigit()]
    except OSError:
        numbers = []
    newest = max(numbers, default=0)
    return newest, read_text(folder / str(newest)) if newest else ""


def _add_claim(folder: Path, text: str) -> None:
    """Add a claim unless somebody else is faster. One that cannot be written is left to the script, which asks more."""
    draft = folder / f".{os.uname().nodename}.{os.getpid()}"
    with contextlib.suppress(OSError):
        draft.write_text(f"{text}\n", encoding="utf-8")
        try:
            os.link(draft, folder / str(_newest_claim(folder)[0] + 1))
        finally:
            draft.unlink()
