"""Which start holds a run directory: the claims that its script and hpclaunch write.

``claims/1``, ``claims/2``, … hold one line each: ``START HOST PROCESS BEGAN``, where START is JOB.RESTART. The newest
claim holds the directory. A claim is never changed: of two processes that see the same newest claim, only one can
write the next.
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
    """Return the ID of the job that holds the run directory; empty if none does."""
    return _job_of(_newest_claim(path / FOLDER)[1])


def began_by_hand(run: Run) -> str:
    """Return when the process of a start by hand began, in clock ticks, according to its claim; empty without one."""
    start, _, process, began, *_ = [*_newest_claim(run.path / FOLDER)[1].split(), "", "", "", ""]
    return began if start.rpartition(".")[0] == run.job_id == f"by-hand-{process}" else ""


def release(run: Run) -> None:
    """Free the directory for a further start if an ended job of this run holds it; another job's claim stays."""
    number, text = _newest_claim(run.path / FOLDER)
    if _job_of(text) in {run.job_id, *run.earlier} - {""}:
        _add_claim(run.path / FOLDER, number + 1, _FREE)


def reserve(run: Run, job_id: str) -> None:
    """Claim the directory for a job that is still in the queue, so that no other start takes it first."""
    folder = run.path / FOLDER
    number, text = _newest_claim(folder)
    if text.strip() in ("", _FREE):
        with contextlib.suppress(OSError):
            folder.mkdir(exist_ok=True)
        # Where a person has removed the claims: more than any start can have had (``claim`` in hpclaunch.sh).
        _add_claim(folder, (number or 3 * len(run.attempts())) + 1, f"{job_id}.0")


def _job_of(claim: str) -> str:
    """Return the job in a claim (START is JOB.RESTART); empty for one that frees the directory."""
    return claim.partition(" ")[0].rpartition(".")[0]


def _newest_claim(folder: Path) -> tuple[int, str]:
    """Return number and text of the newest claim; 0 and an empty text if there is none."""
    try:
        numbers = [int(name) for name in os.listdir(folder) if name.isascii() and name.isdigit()]
    except OSError:
        numbers = []
    newest = max(numbers, default=0)
    return newest, read_text(folder / str(newest)) if newest else ""


def _add_claim(folder: Path, number: int, text: str) -> None:
    """Add the claim of this number unless another process was faster: a later one would end the start that it made.

    If that fails, the script itself claims the directory later.
    """
    draft = folder / f".{os.urandom(8).hex()}"  # containers may repeat the names of hosts and process numbers
    with contextlib.suppress(OSError):
        draft.write_text(f"{text}\n", encoding="utf-8")
        try:
            os.link(draft, folder / str(number))
        finally:
            draft.unlink()
