"""Values of JSON that another program has written; what is not of the expected kind is unknown, and no error."""

from __future__ import annotations

import math
import re
from typing import Any


def number(value: Any) -> float | None:
    """Return a number, which may be NaN or infinite; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return None


def finite(value: Any) -> float | None:
    """Return a finite number; None for anything else."""
    found = number(value)
    return found if found is not None and math.isfinite(found) else None


_LARGEST_DRAWN = 1e300
"""A larger number has no square, and its distance to its opposite is infinite: no figure can show it."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def showable(value: Any) -> Any:
    """Return plain values that a page can hold: halves of characters replaced, and numbers beyond 1e300 infinite."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, float) and abs(value) > _LARGEST_DRAWN:
        return math.copysign(math.inf, value)
    if isinstance(value, dict):
        return {showable(str(name)): showable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [showable(one) for one in value]
    return value


def pairs(value: Any) -> list[tuple[str, Any]]:
    """Return pairs of a name and something; other members of a list are left out."""
    members = value if isinstance(value, list) else []
    return [(str(pair[0]), pair[1]) for pair in members if isinstance(pair, list) and len(pair) == 2]
