"""Reads the end of a job's log."""

from __future__ import annotations

from hpclaunch.core import inside
from hpclaunch.runs.record import Run

_MOST_BYTES = 64 * 2**10


def end_of_log(run: Run) -> str:
    """Return the last 64 KiB of the log of the run's present job; empty if there is none.

    The log of a job holds the output of all its starts.
    """
    logs = [path for path in run.logs() if run.job_id and run.job_id in path.name] or run.logs()
    if not logs:
        return ""
    name = logs[-1].relative_to(run.home).as_posix()
    return inside.read_end(run.home, name, _MOST_BYTES).decode("utf-8", errors="replace")
