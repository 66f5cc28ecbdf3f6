"""Numbers as a plan shows them: two digits, a suffix for large ones, and a time in a unit that suits it."""

from __future__ import annotations

import math

from hpclaunch.core.records import record
from hpclaunch.guidelines.intervals import Interval
from hpclaunch.guidelines.memory import Memory

STEP = 300
"""A proposed walltime is rounded up to a multiple of this, in seconds."""

BYTES = ((2**40, "TB"), (2**30, "GB"), (2**20, "MB"), (2**10, "kB"))
"""Units of memory, as drivers and frameworks print it."""
_UNITS = ((1, "s"), (60, "min"), (3600, "h"), (86400, "d"))
_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def shorten(value: float) -> str:
    """Return two significant digits, or up to three digits before a suffix: 0.021, 5.2, 640, 12k."""
    # From 99.5 on .2g would write an exponent: 1e+02.
    for size, suffix in _SUFFIXES:
        if value >= size:
            scaled = value / size
            return f"{scaled:.2g}{suffix}" if scaled < 99.5 else f"{scaled:.0f}{suffix}"
    if value < 0.01:
        return f"{value:.1g}"
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def range_of(interval: Interval, word: str = "-") -> str:
    """Return the ends of an interval, with ``word`` between them."""
    return f"{shorten(interval.low)}{word}{shorten(interval.high)}"


def time_range_of(interval: Interval, word: str = "-") -> str:
    """Return the ends of an interval of seconds, in the unit that suits its middle."""
    size, unit = unit_of_time(interval.middle)
    return f"{shorten(interval.low / size)}{word}{shorten(interval.high / size)} {unit}"


def time_of(seconds: float) -> str:
    """Return a time with two digits, in the unit that suits it."""
    size, unit = unit_of_time(seconds)
    return f"{shorten(seconds / size)} {unit}"


def unit_of_time(seconds: float) -> tuple[int, str]:
    """Return a unit (in seconds) and its name. From two of a unit on, as 90 min reads better than 1.5 h."""
    return next(((size, unit) for size, unit in reversed(_UNITS) if seconds >= 2 * size), _UNITS[0])


def memory_of(memory: Memory) -> str:
    """Return what is needed of a GPU's usable memory: 39.1 of 36.8 GB."""
    size, unit = next(((by, unit) for by, unit in BYTES if memory.usable >= by), (1.0, "bytes"))
    needed, usable = (
        f"{value:.0f}" if value >= 999.5 else f"{value:.3g}" for value in (memory.total / size, memory.usable / size)
    )
    return f"{needed} of {usable} {unit}"


def walltime_for(time_s: Interval) -> int:
    """Return the walltime in seconds that is enough for a run in nine of ten cases."""
    return math.ceil(time_s.high / STEP) * STEP


@record
class Mfu:
    """The expected model FLOP utilization: the share of the ``peak`` (TFLOP/s of a GPU) of an ``arithmetic``.

    ``flops``: operations of a trained sample that count; recomputation does not.
    """

    share: Interval
    peak: float
    arithmetic: str
    device: str
    flops: float

    @property
    def words(self) -> str:
        """The share, its range, and the peak that it refers to."""
        low, middle, high = (
            shorten(100 * min(1.0, one)) for one in (self.share.low, self.share.middle, self.share.high)
        )
        return f"{middle} % ({low} to {high} %) of {self.peak_words}"

    @property
    def peak_words(self) -> str:
        """The peak that the share refers to."""
        return f"{self.peak:g} TFLOP/s, the dense peak of {self.device} in {self.arithmetic}"
