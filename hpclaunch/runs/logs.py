"""Reads the ends of a run's logs: of the job, and of the rank that failed first."""

from __future__ import annotations

import itertools
import re

from hpclaunch.core import inside
from hpclaunch.runs.markers import last_start
from hpclaunch.runs.record import Run

_MOST_BYTES = 64 * 2**10
_LONGEST = 160
_FIRST_TO_FAIL = re.compile(r"rank(?: ([0-9]{1,9}))? on [\w.-]{1,64}")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Failure)(?::.*)?")
"""The last line of Python's traceback, which stands behind indented ones."""
_UNCAUGHT = "1:0"
"""The exit code of a program of Python that an exception has ended."""
_OF_LAUNCHERS = re.compile(r"(?:srun|slurmstepd|mpirun|prterun): ")
"""They say that a rank has ended, and with which code, which is known."""


def end_of_log(run: Run) -> str:
    """Return the last 64 KiB of the log of the run's present job; empty if there is none.

    The log of a job holds the output of all its starts.
    """
    logs = [path for path in run.logs() if run.job_id and run.job_id in path.name] or run.logs()
    if not logs:
        return ""
    name = logs[-1].relative_to(run.home).as_posix()
    return inside.read_end(run.home, name, _MOST_BYTES).decode("utf-8", errors="replace")


def last_words(run: Run, exit_code: str) -> str:
    """Return which rank failed first in a failed run, and the line with which it ended.

    An example is ``rank 3 on n2: ValueError: no such layer``. ``exit_code``: as in a record, ``1:0``. The line is of
    this rank in the last start: nothing is taken from the output of others, or of an earlier start. Empty if neither is
    known.
    """
    start = last_start(run)
    if not start:
        return ""
    folder = f"attempts/{start}"
    mark = inside.read_text(run.home, run.name_of(f"{folder}/first-failure.rank")).strip()
    who = _FIRST_TO_FAIL.fullmatch(mark)
    is_one_start = len(run.attempts()) == 1
    log = ""
    if who and who[1]:
        begin = inside.read_text(run.home, run.name_of(f"{folder}/first-failure.from")).strip()
        log = _since(run, run.name_of(f"logs/rank-{who[1]}.out"), int(begin)) if begin.isdecimal() else ""
    if not log and is_one_start and (who is None or _has_one_rank(run)):
        log = end_of_log(run)  # with one rank its own; else nobody is named for it
    line = _telling_line(log, is_exception=exit_code == _UNCAUGHT)
    if who is None:
        return line
    line = line.removeprefix("error: ").removeprefix(f"{who[0]}: ")
    return f"{who[0]}: {line}" if line else who[0]


def _has_one_rank(run: Run) -> bool:
    layout = run.spec().get("layout")
    if not isinstance(layout, dict):
        return False
    return layout.get("nodes") == layout.get("tasks_per_node") == 1 and not layout.get("further")


def _since(run: Run, name: str, begin: int) -> str:
    """Return what a log has from byte ``begin`` on, at most its last 64 KiB."""
    most = min(_MOST_BYTES, max(0, (inside.size_of(run.home, name) or 0) - begin))
    return inside.read_end(run.home, name, most).decode("utf-8", errors="replace") if most else ""


def _telling_line(log: str, *, is_exception: bool) -> str:
    """Return the last line that is not a launcher's; with ``is_exception`` the last of a traceback, if there is one.

    It is printable, and not long.
    """
    lines = [line for line in log.replace("\r", "\n").splitlines() if line.strip()]
    found = [line.strip() for line in lines if not _OF_LAUNCHERS.match(line.strip())][-1:]
    if is_exception:
        pairs = itertools.pairwise(lines)
        raised = [line for before, line in pairs if before.startswith("  ") and _EXCEPTION.fullmatch(line)]
        found = raised[-1:] or found
    shown = "".join(letter if letter.isprintable() else " " for letter in "".join(found))
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
