"""The speed of a program from the lines that it printed: readings -> one rate with its range, or why there is none.

The first steps are left out, and how many is said. A rate never rests on fewer than ten steps.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from hpclaunch.core.records import record
from hpclaunch.planner.measured.log_formats import LONGEST_LINE, Kind, LogFormat, Reading, can_be

LEAST_STEPS, LEAST_READINGS = 10, 3
"""What a rate rests on at least, after the first steps."""
WARM_UP = 4
"""One in so many of the readings, the first ones, is left out, and one at least."""
MOST_READINGS = 200_000
"""Readings of a log that are kept; further ones are passed over."""
OF_A_WHOLE_TRAINING = 0.25
"""The relative half-width of a single mean: the first steps are in it, or no other shows how far it varies (hpclaunch's
own)."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")


@record
class LogRate:
    """A measured speed: ``kind`` says what of, ``low`` and ``high`` are the ends of the range of its median.

    ``steps``: how many it rests on, if their numbers are printed, else its readings. ``left_out``: readings at the
    start that do not count. ``source``: the format. ``loop``: the last step of the loop that was measured, if it is
    printed, ``loop_s``: about how long the loop took so far, and ``other_loops``: the last steps of others (None: one
    without an end). ``may_be_another``: the loop may be another than the training, which then follows.
    """

    kind: Kind
    middle: float
    low: float
    high: float
    steps: int
    left_out: int
    source: str
    loop: int | None = None
    loop_s: float = 0.0
    other_loops: tuple[int | None, ...] = ()
    may_be_another: bool = False


@record
class TooLittle:
    """Why a log gives no rate, in words."""

    why: str


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a log; a carriage return begins one, and of a longer line the first characters count."""
    rest = b""
    for chunk in chunks:
        pieces = re.split(rb"[\r\n]+", rest + chunk)
        rest = pieces.pop()
        for piece in pieces:
            yield _text(piece)
        rest = rest[: 8 * LONGEST_LINE]  # an endless line never grows in memory
    if rest:
        yield _text(rest)


def _text(piece: bytes) -> str:
    return _ESCAPES.sub("", piece[: 8 * LONGEST_LINE].decode("utf-8", "replace"))[:LONGEST_LINE]


def readings_in(lines: Iterable[str], formats: Sequence[LogFormat]) -> dict[str, list[Reading]]:
    """Return format -> its readings, in the order of the lines."""
    found: dict[str, list[Reading]] = {row.name: [] for row in formats}
    for line in lines:
        for row in formats:
            if row.wanted not in line or len(found[row.name]) >= MOST_READINGS:
                continue
            reading = row.read(line)
            if reading is not None:
                found[row.name].append(reading)
                break
    return found


def rate_in(lines: Iterable[str], formats: Sequence[LogFormat], ranks: int) -> LogRate | TooLittle:
    """Return the rate of all ``ranks`` in the lines of one of them, by the first format that gives one."""
    found, best = readings_in(lines, formats), TooLittle(why="no line has a speed")
    for row in formats:
        readings = found[row.name]
        if not readings:
            continue
        rate = rate_of(readings, row, ranks)
        if isinstance(rate, LogRate):
            return rate
        if best.why == "no line has a speed":
            best = rate
    return best


def rate_of(readings: Sequence[Reading], row: LogFormat, ranks: int) -> LogRate | TooLittle:
    """Return the rate of all ``ranks`` by the readings of one format."""
    if row.whole:
        return _rate_of_a_whole(readings[-1], row)
    loop = _select_loop(readings, row)
    usual = _ends_of_epochs(loop) if row.ends_of_epochs else _steps_between(loop)
    kinds = Counter(reading.kind for reading in usual)
    kind = kinds.most_common(1)[0][0] if kinds else None
    usual = [reading for reading in usual if reading.kind == kind]
    left_out = max(1, len(usual) // WARM_UP)
    kept = usual[left_out:]
    steps = _steps_of(kept, row)
    least_lines = 1 if row.ends_of_epochs else LEAST_READINGS
    if len(kept) < least_lines and usual and usual[-1].is_settled and (usual[-1].step or 0) >= LEAST_STEPS:
        return _rate_of_an_end(usual[-1], row)
    if kind is None or len(kept) < least_lines or steps < LEAST_STEPS:
        words = f"{row.name}: {_count(len(readings), 'line')} with a speed"
        after = f"{_count(steps, 'step')} after the first {left_out} {'lines' if left_out > 1 else 'line'}"
        least = f"at least {LEAST_STEPS} steps in {_count(least_lines, 'line')}"
        return TooLittle(why=f"{words}, {after}: too few ({least})")
    values = [reading.value * (ranks if reading.by_rank else 1) for reading in kept]
    rounding = median(reading.rounding for reading in kept)
    found = _summary(kind, values, steps, left_out, row.name, rounding)
    total = loop[0].total
    others = {reading.total for reading in readings} - {total}
    return replace(
        found,
        loop=total,
        loop_s=_seconds_of(loop, row),
        other_loops=tuple(sorted(others, key=lambda other: other or math.inf)),
        may_be_another=row.bars or total is not None,
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _summary(kind: Kind, values: Sequence[float], steps: int, left_out: int, source: str, rounding: float) -> LogRate:
    """Return the median, and the range that also holds the medians of both halves, and what rounding hides.

    The range is that of the median of independent readings (80 %), with the deviation by the median distance. Readings
    that drift are not independent, and their halves show it.
    """
    middle, half = median(values), len(values) // 2
    deviation = 1.4826 * median(abs(value - middle) for value in values)
    reach = 1.28 * 1.2533 * deviation / len(values) ** 0.5
    ends = [middle - reach, middle + reach, median(values[:half] or values), median(values[half:])]
    ends += [middle * (1 - rounding), middle * (1 + rounding)]
    low = max(min(ends), middle / 10)
    return LogRate(kind=kind, middle=middle, low=low, high=max(ends), steps=steps, left_out=left_out, source=source)


def _rate_of_a_whole(reading: Reading, row: LogFormat) -> LogRate | TooLittle:
    """Return the rate by the mean of a whole training, if that has many steps: the first ones are in it."""
    seconds = reading.value
    steps = reading.total or 0
    if reading.kind != "step_s" or steps < 3 * LEAST_STEPS:
        return TooLittle(why=f"{row.name}: the mean of {_count(steps, 'step')}, the first among them, says too little")
    wide = 1 + OF_A_WHOLE_TRAINING
    return LogRate(
        kind="step_s",
        middle=seconds,
        low=seconds / wide,
        high=seconds * wide,
        steps=steps,
        left_out=0,
        source=row.name,
    )


def _rate_of_an_end(reading: Reading, row: LogFormat) -> LogRate:
    """Return the rate by the only reading of a loop, at its end; how far its steps differ is not known."""
    assert reading.kind is not None and reading.step is not None
    wide = 1 + OF_A_WHOLE_TRAINING
    return LogRate(
        kind=reading.kind,
        middle=reading.value,
        low=reading.value / wide,
        high=reading.value * wide,
        steps=reading.step,
        left_out=0,
        source=row.name,
        loop=reading.total,
        may_be_another=row.bars,
    )


def _select_loop(readings: Sequence[Reading], row: LogFormat) -> list[Reading]:
    """Return the readings of the loop that took the most time; a validation or the reading of files takes less.

    A loop within another takes nearly its time: of all that take at least half of the longest, the one that printed
    most counts. A loop without an end that is over when one with an end begins has prepared it.
    """
    loops: dict[int | None, list[Reading]] = {}
    for reading in readings:
        loops.setdefault(reading.total, []).append(reading)
    seconds = {total: _seconds_of(loop, row) for total, loop in loops.items()}
    if None in loops:
        last_endless = max(place for place, reading in enumerate(readings) if reading.total is None)
        later = {reading.total for reading in readings[last_endless + 1 :]}
        earlier = {reading.total for reading in readings[:last_endless]}
        if any(seconds[total] > 0 for total in later - earlier):
            del loops[None], seconds[None]
    least = max(seconds.values()) / 2
    return max((loop for total, loop in loops.items() if seconds[total] >= least), key=len)


def _seconds_of(loop: Sequence[Reading], row: LogFormat) -> float:
    """Return about how long a loop took, by its own figures; 0 if they do not tell it."""
    if row.ends_of_epochs:
        return sum(reading.value * (reading.step or 0) for reading in _ends_of_epochs(loop))
    found = 0.0
    for before, after in pairwise(loop):
        if after.kind is None:
            found += max(0.0, after.value - before.value)
        elif after.kind == "step_s" and before.step is not None and after.step is not None:
            found += max(0, after.step - before.step) * after.value
    return found


def _ends_of_epochs(readings: Sequence[Reading]) -> list[Reading]:
    """Return the last reading of each epoch; where there are two, that before the validation."""
    ends = [reading for reading in readings if reading.step is not None and reading.step == reading.total]
    return [reading for reading in ends if not reading.is_validated] or ends


def _steps_between(readings: Sequence[Reading]) -> list[Reading]:
    """Return the seconds of a step between each two readings of a step's number and a time; others as they are."""
    found: list[Reading] = []
    before: Reading | None = None
    for reading in readings:
        if reading.kind is not None:
            found.append(reading)
            continue
        if before is not None and reading.step is not None and before.step is not None:
            steps, seconds = reading.step - before.step, reading.value - before.value
            if steps > 0 and can_be("step_s", seconds / steps):
                found.append(Reading(kind="step_s", value=seconds / steps, step=reading.step))
        before = reading
    return found


def _steps_of(kept: Sequence[Reading], row: LogFormat) -> int:
    """Return the steps that the readings stand for: by their numbers, also where these begin again with an epoch."""
    if row.ends_of_epochs:
        return sum(reading.step or 0 for reading in kept)
    numbers = [reading.step for reading in kept if reading.step is not None]
    if len(numbers) < 2:
        return len(kept)
    rising = (after - before for before, after in pairwise(numbers) if after > before)
    return 1 + sum(rising)
