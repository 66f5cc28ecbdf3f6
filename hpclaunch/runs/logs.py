"""Reads the ends of a run's logs: of the job, and of the rank that failed first."""

from __future__ import annotations

import re

from hpclaunch.core import inside
from hpclaunch.runs.markers import last_start
from hpclaunch.runs.record import Run

_MOST_BYTES = 64 * 2**10
_LONGEST = 160
_FIRST_TO_FAIL = re.compile(r"rank(?: ([0-9]{1,9}))? on [\w.-]{1,64}")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Failure)(?::.*)?")
"""The last line of Python's traceback."""
_OF_LAUNCHERS = re.compile(r"(?:srun|slurmstepd|mpirun|prterun): ")
"""They say that a rank has ended, and with which code, which is known."""


def end_of_log(run: Run) -> str:
    """Return the last 64 KiB of the log of the run's present job; empty if there is none.

    The log of a job holds the output of all its starts.
    """
    logs = [path for path in run.logs() if run.job_id and run.job_id in path.name] or run.logs()
    return _end_of(run, logs[-1].relative_to(run.home).as_posix()) if logs else ""


def last_words(run: Run) -> str:
    """Return who failed first in a failed run, and the line with which it ended: ``rank 3 on n2: ValueError: ...``.

    That is the last exception in its log, else its last line. Where ranks have no log of their own, it is that of the
    job. Empty if the log says nothing.
    """
    start = last_start(run)
    mark = inside.read_text(run.home, run.name_of(f"attempts/{start}/first-failure.rank")).strip() if start else ""
    who = _FIRST_TO_FAIL.fullmatch(mark)
    own = _end_of(run, run.name_of(f"logs/rank-{who[1]}.out")) if who and who[1] else ""
    line = _telling_line(own or end_of_log(run))
    return f"{who[0]}: {line}" if who and line else line


def _end_of(run: Run, name: str) -> str:
    return inside.read_end(run.home, name, _MOST_BYTES).decode("utf-8", errors="replace")


def _telling_line(log: str) -> str:
    """Return the last exception, else the last line that is not a launcher's; only printable, and not long."""
    lines = [line.strip() for line in log.replace("\r", "\n").splitlines()]
    lines = [line for line in lines if line and not _OF_LAUNCHERS.match(line)]
    exceptions = [line for line in lines if _EXCEPTION.fullmatch(line)]
    found = (exceptions or lines or [""])[-1]
    shown = "".join(letter if letter.isprintable() else " " for letter in found)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
