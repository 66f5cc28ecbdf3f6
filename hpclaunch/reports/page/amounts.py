"""Numbers and times of a page as text, and axes of time; it reads nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from hpclaunch.core.records import record
from hpclaunch.core.units import count

_TIME = "%Y-%m-%dT%H:%M:%SZ"
_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that a page cannot hold, or that change the direction of the text after them."""
_BYTES = ("B", "kB", "MB", "GB", "TB", "PB")


def readable(text: str) -> str:
    """Return text without control characters (newlines and tabs stay) and without marks of direction."""
    return _HIDDEN.sub("\ufffd", text)


def seconds_of_time(text: Any) -> float | None:
    """Return Unix seconds for a recorded time (UTC, ``2026-11-24T13:16:19Z``); None for another text."""
    try:
        return datetime.strptime(str(text).strip(), _TIME).replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None


def time_in_words(seconds: float | None) -> str:
    """Return Unix seconds as ``2026-11-24 13:16:19 UTC``; ``not known`` without a time."""
    try:
        return (
            "not known" if seconds is None else f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
        )
    except (ValueError, OverflowError, OSError):
        return "not known"


def duration(seconds: float | None) -> str:
    """Return a duration in its two largest units: ``2 h 5 min``, ``45 s``, ``0.31 s``."""
    if seconds is None or not math.isfinite(seconds):
        return "not known"
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
    whole = round(seconds)
    for size, unit, part, part_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit} {rest} {part_unit}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def bytes_in_words(size: float) -> str:
    """Return a size with its unit (powers of 1,000)."""
    power = 0
    while size >= 1000 and power < len(_BYTES) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.3g} {_BYTES[power]}" if size < 1000 else f"{size:,.0f} {_BYTES[power]}"


def short(value: float | int) -> str:
    """Return a number with four digits; from 1,000 on without a fraction."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def percent(share: float) -> str:
    """Return a share as per cent, with one digit below 10 %."""
    return f"{100 * share:.0f} %" if abs(share) >= 0.1 else f"{100 * share:.1f} %"


def ranks_in_words(number_of_ranks: int) -> str:
    """Return ``1 rank``, ``8 ranks``."""
    return count(number_of_ranks, "rank")


@record
class TimeAxis:
    """Unix seconds as places on an axis: time since ``zero`` in a unit that fits the span."""

    zero: float
    size: float
    unit: str

    def at(self, seconds: float) -> float:
        """Return the place of a time."""
        return (seconds - self.zero) / self.size

    @property
    def label(self) -> str:
        """The name of the axis."""
        return f"time since the start, {self.unit}"


def time_axis(times: Sequence[float], zero: float | None = None) -> TimeAxis:
    """Return the axis for these times, which begins at the earliest, or at ``zero``."""
    begin = min(times) if zero is None else zero
    span = max(times) - begin
    size, unit = next(
        ((s, u) for s, u in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")) if span >= 2 * s), (1.0, "s")
    )
    return TimeAxis(zero=begin, size=size, unit=unit)
