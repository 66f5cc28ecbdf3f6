"""Waits for runs and reads their logs as they grow; the scheduler is asked at growing intervals."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from hpclaunch.actions.following.identity import obstacle, require_permission
from hpclaunch.actions.following.states import is_lost, refreshed
from hpclaunch.actions.queueing.retry import retry
from hpclaunch.core import inside
from hpclaunch.core.errors import Fault, Refused, SchedulerError
from hpclaunch.core.run_states import NEVER_QUEUED
from hpclaunch.core.scheduler_rows import longest_pause, scheduler_row
from hpclaunch.runs import Run, task_of
from hpclaunch.runs.recorded_layout import ranks_of
from hpclaunch.runs.unread import LOGS, refuse_unread

_PATIENCE = 6
"""After so many UNKNOWN states in a row a run is no longer followed."""
TIMED_OUT = 124
"""The exit code of ``wait`` after its timeout, as that of timeout(1)."""
_RESERVED_CODES = (2, TIMED_OUT, 130)
"""Exit codes with a meaning for ``wait`` itself, which are never passed on from a run."""


def follow(
    run: Run, poll: Callable[[float], None] = time.sleep, tail: Tail | None = None
) -> Iterator[tuple[Run, bytes]]:
    """Yield (run, new log bytes) until the run has ended; the last pair carries the final state.

    The scheduler is asked at growing intervals, up to 15 s. The logs of all starts are read every half second; with
    ``tail``, those that it reads, from where it has read to. Raises SchedulerError if the state is UNKNOWN several
    times in a row, and Refused for a run that is not asked about from here.
    """
    tail = tail or Tail(run)
    for now in follow_states(run, 0.5, poll):
        while text := tail.read():  # after the question for the state: what the run wrote until its end is in it
            yield now, text
        yield now, b""


def follow_states(run: Run, every: float, poll: Callable[[float], None] = time.sleep) -> Iterator[Run]:
    """Yield the run every ``every`` seconds until it has ended; the last one has the final state.

    The scheduler is asked at growing intervals, up to 15 s. Raises as `follow`.
    """
    require_permission([] if run.final else [run])
    pause = since = scheduler_row(run.scheduler).first_pause_s
    unknown = 0
    while True:
        if since >= pause:
            run, since, pause = refreshed([run])[0], 0.0, _lengthen_pause(pause, [run])
            unknown = unknown + 1 if run.state == "UNKNOWN" else 0
        if unknown >= _PATIENCE:
            raise _lost_run_error(run)
        yield run
        if run.final:
            return
        poll(every)
        since += every


def read_log(run: Run, tail: Tail) -> Iterator[tuple[Run, bytes]]:
    """Yield (run, bytes) of what is in the log now, from where ``tail`` has read to; the scheduler is not asked."""
    while text := tail.read():
        yield run, text


def _lengthen_pause(pause: float, found: Sequence[Run]) -> float:
    return min(longest_pause(run.scheduler for run in found), pause * 1.5)


def _lost_run_error(run: Run) -> SchedulerError:
    what = f"the state of {run.label} is unknown" + (f" ({run.reason})" if run.reason else "")
    next_step = f"read its log: hpclaunch logs {run.label}"
    if scheduler_row(run.scheduler).has_queue:
        next_step += "; then try sacct, or ask the site's staff"
    return SchedulerError(Fault(what=what, next=next_step))


def wait(
    found: Sequence[Run],
    seconds: float | None,
    retries: int,
    tell: Callable[[str], None],
    poll: Callable[[float], None] = time.sleep,
) -> Iterator[list[Run]]:
    """Yield the runs with their states each time the scheduler was asked, until all have ended.

    A run that a fault of the machine ended is started again, up to ``retries`` times. A run whose state
    cannot be known several times in a row counts as ended. Stops early after ``seconds``. Raises SchedulerError.
    """
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    runs = list(found)
    pause = max((scheduler_row(run.scheduler).first_pause_s for run in runs), default=0.0)
    # Runs that no further question can change: those of another cluster or user, and those that stay UNKNOWN.
    hopeless = {run.path for run in runs if not run.final and obstacle(run)}
    retries_left, unknown = {run.path: retries for run in runs}, Counter[Path]()
    while True:
        runs = refreshed(runs)
        _count_unknown(unknown, runs)
        runs = _retry_ended(runs, retries_left, tell)
        yield runs
        given_up = hopeless | {path for path, times in unknown.items() if times >= _PATIENCE}
        if all(run.final or run.state in NEVER_QUEUED or run.path in given_up for run in runs):
            return
        pause = min(_lengthen_pause(pause, runs), deadline - time.monotonic())
        if pause <= 0:
            return
        poll(pause)


def _count_unknown(unknown: Counter[Path], found: Sequence[Run]) -> None:
    """Count how often in a row the state of each run could not be known."""
    for run in found:
        unknown[run.path] = unknown[run.path] + 1 if is_lost(run) else 0


def _retry_ended(runs: Sequence[Run], retries_left: dict[Path, int], tell: Callable[[str], None]) -> list[Run]:
    """Return the runs, those started again in their new state; ``retries_left`` counts down."""
    now = []
    for run in runs:
        again = _retry_run(run, tell) if run.final and retries_left[run.path] > 0 else None
        if again:
            retries_left[run.path] -= 1
        now.append(again or run)
    return now


def _retry_run(run: Run, tell: Callable[[str], None]) -> Run | None:
    try:
        return retry(run, tell)
    except Refused:
        return None


def exit_code_of(found: Sequence[Run]) -> int:
    """Return the exit code of ``wait``: 0 if all runs completed, 124 after its timeout, else that of the first failure.

    It is 1 if that run has no exit code, or one with another meaning for ``wait`` itself.
    """
    if any(not run.final and not is_lost(run) for run in found):
        return TIMED_OUT
    for run in found:
        if run.state != "COMPLETED":
            code = run.exit_code.partition(":")[0]
            is_number = code.isascii() and code.isdigit() and len(code) < 4
            own = int(code) if is_number else 0
            return own if 0 < own < 256 and own not in _RESERVED_CODES else 1
    return 0


def refuse_array(run: Run) -> None:
    """Raise Refused for a job array: each of its runs has a log of its own."""
    if not run.tasks:
        return
    what = f"{run.label} is an array of {run.tasks} runs, and each has its own log"
    first = task_of(run, 0).label
    next_step = f"name one run: hpclaunch logs {first}; to list them: hpclaunch status {run.label} --all"
    raise Refused(Fault(what=what, next=next_step))


def refuse_foreign_log(run: Run) -> None:
    """Raise Refused if the folder of logs holds a link, or anything else that is not read."""
    refuse_unread([run], (LOGS,))


def own_log(run: Run, rank: int | None) -> int | None:
    """Return the rank whose log to read; None for the log of the job, which a single rank uses too.

    Raises Refused if the rank has no log and will never have one.
    """
    if rank is None or run.logs(rank):
        return rank
    spec = run.spec()
    ranks = ranks_of(spec)
    if rank >= ranks > 0:
        known_ranks = f"has ranks 0 to {ranks - 1}" if ranks > 1 else "has one rank, 0"
        raise Refused(Fault(what=f"{run.label} {known_ranks}, and no rank {rank}", next=_job_log_command(run)))
    if ranks == 1:
        return None
    if not spec.get("rank_number"):
        what = f"{run.label} has no log for each rank: its {ranks} ranks are more than 'rank_logs' allows"
        next_step = (
            f"{_job_log_command(run)}; for the next run set 'rank_logs: {ranks}' in the job file or hpclaunch.yaml"
        )
        raise Refused(Fault(what=what, next=next_step))
    return rank


def missing_log_fault(run: Run, rank: int) -> Fault:
    """Return why a rank that should have a log has none."""
    if not run.attempts():
        return Fault(what=f"{run.label} has not started", next=f"hpclaunch logs -f {run.label} --rank {rank}")
    launcher = run.spec().get("launcher", "its launcher")
    what = f"{run.label} has no log of rank {rank}: the rank never started, or {launcher} gave it no rank number"
    return Fault(what=what, next=_job_log_command(run))


def _job_log_command(run: Run) -> str:
    return f"hpclaunch logs {run.label} shows the log of all ranks"


_BLOCK = 2**20
"""Bytes of a log that are in memory at once."""
_LARGEST_LOG, _FIRST_OF_A_LOG, _LAST_OF_A_LOG = 2**30, 8 * _BLOCK, 24 * _BLOCK
"""Bytes: of a log that is larger than the first of these, the beginning and the end are shown."""


_LINES_BEFORE = 1000
"""Whoever follows a log of more than a block sees so many of its lines first."""


def _find_last_lines(file: BinaryIO, size: int, lines: int) -> tuple[int, int]:
    """Return where the last ``lines`` lines of a file begin, and how many of them it has.

    It is read backwards from its end, 24 MB at most: a line may be as long as the file.
    """
    place, least, found = size, max(0, size - _LAST_OF_A_LOG), 0
    while lines and place > least:
        begin = max(least, place - _BLOCK)
        file.seek(begin)
        block = file.read(place - begin)
        at = len(block) - (place == size)  # the end of the last line begins no other
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            found += 1
            if found == lines:
                return begin + at + 1, found
        place = begin
    return place, found + (lines > 0 and size > 0)


def _note_of_gap(count: int, path: Path) -> bytes:
    return os.fsencode(f"\n[hpclaunch: {count:,} bytes are left out here; {path} has all]\n")


class Tail:
    """Reads what was added to a run's log files since the last time, including those of later starts."""

    def __init__(self, run: Run, rank: int | None = None) -> None:
        self._run = run
        self._rank = rank
        self._offsets: dict[Path, int] = {}
        self._untold: dict[Path, int] = {}

    def skip_to_last(self, lines: int) -> None:
        """Pass over all but the last lines of what the log files contain now, over all starts.

        Of a file in which they are too long to be searched for, the end is read, after a line that says so.
        """
        for path in reversed(self._run.logs(self._rank)):
            with contextlib.suppress(OSError), self._open_log(path) as file:
                size = os.fstat(file.fileno()).st_size
                place, found = _find_last_lines(file, size, lines)
                self._offsets[path] = place
                if 0 < place == size - _LAST_OF_A_LOG:
                    self._untold[path] = place
                lines -= found

    def begin_near_end(self) -> int:
        """Pass over all but the last 1,000 lines if the log is long, and return how many bytes are passed over."""
        size = 0
        for path in self._run.logs(self._rank):
            with contextlib.suppress(OSError):
                size += path.stat().st_size
        if size <= _BLOCK:
            return 0
        self.skip_to_last(_LINES_BEFORE)
        return sum(self._offsets.values())

    def _open_log(self, path: Path) -> BinaryIO:
        """Open a log file for reading. Raises OSError."""
        return os.fdopen(inside.open_file(self._run.home, path.relative_to(self._run.home).as_posix()), "rb")

    def read(self) -> bytes:
        """Return new bytes of the log files, oldest file first, a block at most; nothing if there are no more.

        A shorter file is read from its start.
        """
        for path in self._run.logs(self._rank):
            if path in self._untold:
                return _note_of_gap(self._untold.pop(path), path)
            try:
                with self._open_log(path) as file:
                    offset, size = self._offsets.get(path, 0), os.fstat(file.fileno()).st_size
                    if offset == _FIRST_OF_A_LOG and size > _LARGEST_LOG:
                        self._offsets[path] = size - _LAST_OF_A_LOG
                        left = size - _FIRST_OF_A_LOG - _LAST_OF_A_LOG
                        return _note_of_gap(left, path)
                    file.seek(offset if offset <= size else 0)
                    block = file.read(_BLOCK)
                    self._offsets[path] = file.tell()
            except OSError:
                continue
            if block:
                return block
        return b""
