"""Converts numbers, walltimes (seconds) and memory (megabytes) from and to text; it never rounds a request down."""

from __future__ import annotations

import re

_CLOCK = re.compile(r"(?:(?P<days>\d+)-)?(?P<clock>\d+(?::\d+){0,2})")
_SPELLED = r"(?i)(?:(?P<d>\d+)d)?\s*(?:(?P<h>\d+)h)?\s*(?:(?P<m>\d+)m(?:in)?)?\s*(?:(?P<s>\d+)s)?"
_MEMORY = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]?)i?B?", re.IGNORECASE)
_WHOLE_NUMBER = re.compile("[0-9]{1,18}")
_MEGABYTES = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}

MOST_MINUTES = 2**32 - 3
"""The longest walltime. Slurm stores minutes in 32 bits, and reserves the two largest values (NO_VAL, INFINITE)."""
_MOST_MEGABYTES = 2**53

CONTROL = re.compile(r"[\x00-\x1f\x7f\udc80-\udcff]")
"""Characters that must be escaped in a script: control characters, and bytes that are not UTF-8 (see os.fsdecode)."""

WALLTIME_FORMS = "minutes (30), HH:MM:SS, D-HH:MM:SS, or 1d12h, 2h, 90m"
MEMORY_FORMS = "megabytes (4000) or a number with K, M, G or T (16G)"


def whole_number(text: str) -> int | None:
    """Return the number that 1 to 18 digits are, None for any other text, such as a program may write.

    str.isdigit() accepts more than int() does: other signs for digits, and any number of them.
    """
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def parse_walltime(text: str) -> int:
    """Return seconds for a walltime in any of Slurm's six forms (sbatch manual, ``--time``) or spelled as ``1h30m``.

    A bare number is minutes and ``A:B`` is minutes and seconds, as in Slurm; after ``D-`` the clock starts at hours.
    Raises ValueError for anything else, for zero, and for more than Slurm can store.

    >>> [parse_walltime(text) for text in ("90", "1:30", "1:30:00", "1-12", "1h30m")]
    [5400, 90, 5400, 129600, 5400]
    """
    text = text.strip()
    clock = _CLOCK.fullmatch(text)
    spelled = None if clock else re.fullmatch(_SPELLED, text)
    if clock:
        seconds = _clock_seconds(clock["days"], [int(part) for part in clock["clock"].split(":")])
    elif spelled and text:
        days, hours, minutes, rest = (int(spelled[unit] or 0) for unit in "dhms")
        seconds = ((days * 24 + hours) * 60 + minutes) * 60 + rest
    else:
        raise ValueError(f"{text!r} is not a length of time")
    if seconds <= 0:
        raise ValueError("the time must be longer than zero")
    if seconds > 60 * MOST_MINUTES:
        raise ValueError(f"the time can be at most {MOST_MINUTES} minutes")
    return seconds


def _clock_seconds(days: str | None, parts: list[int]) -> int:
    if days is not None:
        hours, minutes, seconds = (parts + [0, 0])[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, minutes, seconds = 0, *(parts + [0])[:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def format_walltime(seconds: int) -> str:
    """Return ``HH:MM:SS``, or ``D-HH:MM:SS`` from one day on; sbatch reads both without ambiguity.

    >>> format_walltime(5400), format_walltime(129600)
    ('01:30:00', '1-12:00:00')
    """
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour:02d}:{minute:02d}:{second:02d}"
    return f"{days}-{clock}" if days else clock


def parse_memory(text: str) -> int:
    """Return megabytes (2**20 bytes), rounded up; a bare number is megabytes, as in Slurm. Raises ValueError.

    >>> [parse_memory(text) for text in ("1000", "16G", "1.5G", "100K")]
    [1000, 16384, 1536, 1]
    """
    match = _MEMORY.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not an amount of memory")
    megabytes = float(match["number"]) * _MEGABYTES[match["unit"].upper()]
    if megabytes <= 0:
        raise ValueError("memory must be more than zero")
    if megabytes > _MOST_MEGABYTES:
        raise ValueError(f"memory can be at most {_MOST_MEGABYTES} megabytes")
    return int(-(-megabytes // 1))


def format_memory(megabytes: int) -> str:
    """Return the amount as sbatch reads it.

    >>> format_memory(16384), format_memory(16500)
    ('16G', '16500M')
    """
    return f"{megabytes // 1024}G" if megabytes % 1024 == 0 else f"{megabytes}M"


def count(number: float, noun: str) -> str:
    """Return a number with its noun, in the plural where English has it.

    >>> count(1, "node"), count(2, "node"), count(0.5, "epoch")
    ('1 node', '2 nodes', '0.5 epochs')
    """
    shown = number if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}s"
