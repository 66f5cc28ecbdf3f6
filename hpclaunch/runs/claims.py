"""Which start holds a run directory: the claims that its script and hpclaunch write.

``claims/1``, ``claims/2``, … hold one line each: ``START HOST PROCESS BEGAN``, where START is JOB.RESTART. The newest
claim holds the directory. A claim is never changed: of two processes that see the same newest claim, only one can
write the next. So the numbers are the order of the starts. Times of files are not: people touch and copy files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from hpclaunch.core.files import read_text
from hpclaunch.runs.record import JOB_ID, Run

FOLDER = "claims"
_FREE = "free"


def holder_of(path: Path) -> str:
    """Return the ID of the job that holds the run directory; empty if none does."""
    return _job_of(_newest_claim(path / FOLDER)[1])


def began_by_hand(run: Run) -> str:
    """Return when the process of a start by hand began, in clock ticks, according to its claim; empty without one."""
    start, _, process, began, *_ = [*_newest_claim(run.path / FOLDER)[1].split(), "", "", "", ""]
    return began if start.rpartition(".")[0] == run.job_id == f"by-hand-{process}" else ""


def start_after(run: Run) -> tuple[str, int] | None:
    """Return the newest start that came after the recorded one, as (job, number of its claim); None if there is none.

    The claim of the recorded start may have been removed, and its number may not be recorded. Then nothing proves that
    another start came after it, and the answer is None. The tasks of an array have claims of their own, so for an array
    the number is 0.
    """
    if not run.tasks:
        return _claim_after(run, run.path / FOLDER)
    folders = [name for name in _names_in(run.path) if name.isascii() and name.isdigit()]
    later = (_claim_after(run, run.path / name / FOLDER) for name in folders)
    jobs = {found[0] for found in later if found}
    # Of several arrays, of which no task has two claims, the scheduler's numbers tell the last.
    return (max(jobs, key=lambda job: (len(job), job)), 0) if jobs else None


def _claim_after(run: Run, folder: Path) -> tuple[str, int] | None:
    """Return the newest claim of a start as (job, number) if it came after those of the recorded jobs, else None."""
    claims = _starts_in(folder, is_array=run.tasks > 0)
    newest = next(claims, None)
    if newest is None or newest[0] in (run.job_id, *run.earlier):
        return None
    known = run.claim or next((number for job, number in claims if job == run.job_id), 0)
    return newest if not run.job_id or 0 < known < newest[1] else None


def _starts_in(folder: Path, is_array: bool) -> Iterator[tuple[str, int]]:
    """Yield (job, number) of every claim of a start, newest first; the job of a task is its array."""
    for number in sorted(_numbers_in(folder), reverse=True):
        job = _job_of(read_text(folder / str(number)))
        if JOB_ID.fullmatch(job):
            yield job.partition("_")[0] if is_array else job, number


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
            folder.mkdir()
        # Where a person has removed the claims: more than any start can have had (``claim`` in hpclaunch.sh).
        _add_claim(folder, (number or 3 * len(run.attempts())) + 1, f"{job_id}.0")


def _job_of(claim: str) -> str:
    """Return the job in a claim (START is JOB.RESTART); empty for one that frees the directory."""
    return claim.partition(" ")[0].rpartition(".")[0]


def _newest_claim(folder: Path) -> tuple[int, str]:
    """Return number and text of the newest claim; 0 and an empty text if there is none."""
    newest = max(_numbers_in(folder), default=0)
    return newest, read_text(folder / str(newest)) if newest else ""


def _numbers_in(folder: Path) -> list[int]:
    return [int(name) for name in _names_in(folder) if name.isascii() and name.isdigit()]


def _names_in(folder: Path) -> list[str]:
    """Return the names in a folder; none if there is no such folder, or this user may not read it."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


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
