"""Bars and small curves of characters; pure. With ``ascii`` they use no other characters than ASCII's."""

from __future__ import annotations

from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "0123456789"


def bar(share: float, width: int, ascii: bool = False) -> str:
    """Return a bar of ``width`` characters, of which ``share`` (0 to 1) is full."""
    full = round(min(max(share, 0.0), 1.0) * width)
    return ("#" if ascii else "━") * full + ("." if ascii else "─") * (width - full)


def levels(shares: Sequence[float | None], ascii: bool = False) -> str:
    """Return one character for each share (0 to 1), the higher the larger; a question mark for one not measured."""
    signs = _ASCII_LEVELS if ascii else _LEVELS
    return "".join("?" if share is None else signs[_level(share, len(signs))] for share in shares)


def curve(values: Sequence[float], width: int, ascii: bool = False) -> str:
    """Return the last ``width`` values as a curve between the lowest and the highest of them."""
    shown = values[-width:] if width > 0 else ()
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    if high == low:
        return levels([0.5] * len(shown), ascii)
    return levels([(value - low) / (high - low) for value in shown], ascii)


def _level(share: float, count: int) -> int:
    return min(int(min(max(share, 0.0), 1.0) * count), count - 1)
