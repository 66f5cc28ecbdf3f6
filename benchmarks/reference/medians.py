"""Writes what several runs have measured as a median with its range, as the tables of the studies show it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def spread(values: Sequence[float], form: str) -> str:
    """The median, and the range of several values; empty without any. form: a format of Python for each."""
    if not values:
        return ""
    middle, low, high = (f"{value:{form}}" for value in (statistics.median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"
