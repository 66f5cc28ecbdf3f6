"""The markers of a run's ends: what its script and ``hpclaunch cancel`` leave in the run directory.

``attempts/ID.N/completed`` proves that every rank of that start ended with 0: its script writes it, and nobody else.
Of a batch script that starts its ranks itself it proves no more than the script's own 0, and ends with ``script``.
``attempts/ID.N/not-recorded`` says why a success was not: output of a rank, or that mark, could not be written.
``attempts/ID.N/terminated`` holds the seconds after which the script of that start got SIGTERM, ``overdue`` those after
which it ended its ranks itself, at the walltime of a run without a scheduler. ``cancelled/ID`` says when, and by whom,
the job was cancelled; for a whole array it has the array's ID. ``cancelled/ID.asked`` asks the process that started a
run in an allocation to end it.
"""

from __future__ import annotations

import contextlib
import os
import re

from hpclaunch.core import inside
from hpclaunch.core.files import read_text, write_text
from hpclaunch.runs.record import JOB_ID, Run, utc_now

_CANCELLED = "cancelled"
_TERMINATED = "terminated"


def mark_cancelled(run: Run, job_id: str) -> None:
    """Write that this job of the run was cancelled. If that fails, the scheduler's accounting must tell later."""
    folder = f"{run.home}/{_CANCELLED}"
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        write_text(f"{folder}/{job_id}", f"{utc_now()} uid {os.getuid()} on {os.uname().nodename}\n")


def ask_to_end(run: Run, job_id: str) -> None:
    """Write that the process that started this job of the run, on another host, is to end it. Raises OSError."""
    folder = f"{run.home}/{_CANCELLED}"
    os.makedirs(folder, exist_ok=True)
    write_text(f"{folder}/{job_id}.asked", "")


def is_asked_to_end(run: Run) -> bool:
    """Whether hpclaunch on another host has asked for the end of the run's present job."""
    return os.path.isfile(f"{run.home}/{_CANCELLED}/{run.job_id}.asked")


def was_cancelled(run: Run) -> bool:
    """Whether hpclaunch cancelled the run's present job, or the array that it belongs to."""
    job_ids = {run.job_id, run.job_id.partition("_")[0]} - {""}
    return any(os.path.isfile(f"{run.home}/{_CANCELLED}/{job_id}") for job_id in job_ids)


def last_start(run: Run) -> str:
    """Return the name JOBID.RESTART of the last start of the run's present job; empty if it has not begun."""
    starts = starts_of(run)
    return starts[-1] if starts else ""


def starts_of(run: Run) -> list[str]:
    """Return the names of all starts of the run's present job, in order."""
    return _starts(run, run.job_id)


def _starts(run: Run, job_id: str) -> list[str]:
    return [name for name in run.attempts() if name.rpartition(".")[0] == job_id]


def successor_of(run: Run, job_id: str) -> str | None:
    """Return the job that the script of this job submitted as its successor; None if it submitted none.

    An empty text means that the script asked for one and got no job ID: the request may have been obeyed.
    """
    starts = _starts(run, job_id) if job_id else []
    file = f"{run.path}/attempts/{starts[-1]}/next-job" if starts else ""
    if not os.path.isfile(file):
        return None
    successor = read_text(file).strip().partition(";")[0]  # sbatch --parsable adds the cluster after a semicolon
    return successor if JOB_ID.fullmatch(successor) else ""


def is_complete(run: Run) -> bool:
    """Whether the last start of the run's present job has proven that it completed the run."""
    start = last_start(run)
    return bool(start) and run.has_completed(start)


def was_overdue(run: Run) -> bool:
    """Whether the script of the last start of the present job ended its ranks at the walltime."""
    start = last_start(run)
    return bool(start) and os.path.isfile(f"{run.path}/attempts/{start}/overdue")


def is_of_script_alone(run: Run) -> bool:
    """Whether the mark of a completed start only says that its batch script ended with 0 (``submit --as-is``)."""
    mark = inside.read_text(run.home, run.name_of(f"attempts/{last_start(run)}/completed"))
    return mark.split()[1:] == ["script"]


def why_not_recorded(run: Run) -> str:
    """Return why the last start of the present job ended with 74 although its ranks ended with 0; else nothing.

    Its script says so: the disk was full, for example, and output of a rank is lost.
    """
    start = last_start(run)
    text = inside.read_text(run.home, run.name_of(f"attempts/{start}/not-recorded")) if start else ""
    return text.partition("\n")[0].strip()


def seconds_until_term(run: Run) -> int | None:
    """Return the seconds after which the last start of the present job got SIGTERM; None if it got none."""
    start = last_start(run)
    text = inside.read_text(run.home, run.name_of(f"attempts/{start}/{_TERMINATED}")).strip() if start else ""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None
