"""The speed of a run of any program: from its metrics.jsonl, else from what its ranks printed; it starts no program.

Every file is read up to a limit, and a typed pattern has a limit of processor time.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hpclaunch.core import inside
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.planner.measured.log_formats import GROUPS, LogFormat, Reading, can_be
from hpclaunch.planner.measured.log_rates import LogRate, TooLittle, lines_of, rate_in, rate_of
from hpclaunch.runs import Run
from hpclaunch.runs.recorded_layout import ranks_of

MOST_BYTES = 32 * 2**20
"""Bytes of a log that are read, from its beginning."""
MOST_RANKS = 64
"""Ranks whose logs are looked at: some programs print on rank 0, others on the last one."""
MOST_SECONDS = 20
"""Processor time for all lines of a log. A pattern may need exponentially many attempts for one line."""
_BLOCK = 2**20
METRICS = LogFormat(name="metrics.jsonl", words="lines of hpclaunch's own events", wanted="", read=lambda line: None)
"""The events ``steps``, which hpclaunch.training.throughput writes (docs/contract.md)."""


def measured_rate(run: Run, formats: Sequence[LogFormat], *, typed: bool) -> LogRate | TooLittle:
    """Return the rate of all ranks of a run. ``typed``: the format was typed, so that metrics.jsonl does not count.

    Raises Refused if a pattern takes too much time.
    """
    ranks = ranks_of(run.spec()) or 1
    best = TooLittle(why="it printed nothing")
    if not typed:
        rate = _read_metrics(run)
        if isinstance(rate, LogRate):
            return rate
        best = rate or best
    for names in _logs(run, ranks):
        with time_limit():
            rate = rate_in(lines_of(_chunks(run, names)), formats, ranks)
        if isinstance(rate, LogRate):
            return rate
        if not best.why.startswith("metrics") and not best.why.endswith(")"):
            best = rate
    return best


def _read_metrics(run: Run) -> LogRate | TooLittle | None:
    """Return the rate by the run's events; None if it wrote none that has a speed."""
    steps: list[Reading] = []
    done = 0
    for event in run.metrics():
        seconds, number = _positive_number(event.get("seconds")), event.get("steps")
        if event.get("event") == "steps" and seconds and isinstance(number, int) and 0 < number < 10**15:
            done += number
            samples = _positive_number(event.get("samples"))
            if samples and can_be("samples_per_s", samples / seconds):
                steps.append(Reading(kind="samples_per_s", value=samples / seconds, step=done))
            elif not samples and can_be("step_s", seconds / number):
                steps.append(Reading(kind="step_s", value=seconds / number, step=done))
    return rate_of(steps, METRICS, 1) if steps else None


def _positive_number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < 1e300 else None


def _logs(run: Run, ranks: int) -> Iterator[list[str]]:
    """Yield the files of each rank's log, by name in the run's folder; of a single rank those of the job."""
    for rank in range(min(ranks, MOST_RANKS)):
        names = [path.relative_to(run.home).as_posix() for path in run.logs(rank)]
        if names:
            yield names
    if ranks > MOST_RANKS:
        yield [path.relative_to(run.home).as_posix() for path in run.logs(ranks - 1)]
    yield [path.relative_to(run.home).as_posix() for path in run.logs()]


def _chunks(run: Run, names: Sequence[str]) -> Iterator[bytes]:
    left = MOST_BYTES
    for name in names:
        try:
            with os.fdopen(inside.open_file(run.home, name), "rb") as file:
                while left > 0 and (block := file.read(min(_BLOCK, left))):
                    left -= len(block)
                    yield block
        except (OSError, ValueError):
            continue
        yield b"\n"


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise Refused after `MOST_SECONDS` of processor time; only the main thread of a program can be ended so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _refuse)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _refuse(number: int, frame: object) -> None:
    what = (
        f"reading the log took more than {MOST_SECONDS} s of processor time: the pattern tries too many ways to match"
    )
    hint = f"a pattern without a repeat inside a repeat, with one of the groups {', '.join(GROUPS)}"
    raise Refused(Fault(where="--rate-from", what=what, next=hint))
