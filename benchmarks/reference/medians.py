"""Writes what several runs have measured as a median with its range, as the tables of the studies show it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence


def spread(values: Sequence[float], form: str | Callable[[float], str]) -> str:
    """The median, and the range of several values; empty without any. form: a format of Python, or a function."""
    if not values:
        return ""
    write = form if callable(form) else f"{{:{form}}}".format
    middle, low, high = map(write, (statistics.median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def three_digits(value: float) -> str:
    """Three digits of a value below 1,000, and of a larger one all before the point: 0.0123, 12.3, 1,118."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
