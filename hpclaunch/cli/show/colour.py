"""Whether a stream gets colours, the codes of the few that messages have, and signs for terminals without UTF-8."""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping
from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "reverse": "7", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
# ruff: noqa: PIE800 (groups of signs)
_LOOK_ALIKES = {
    # the ellipsis, dashes, minus, times, dots, arrows, comparisons
    **{"\u2026": "...", "\u2013": "-", "\u2014": "-", "\u2212": "-", "\u00d7": "x", "\u00b7": ".", "\u2022": "*"},
    **{"\u2192": "->", "\u2190": "<-", "\u2264": "<=", "\u2265": ">=", "\u2248": "~", "\u00b1": "+-", "\u00b5": "u"},
    # quotation marks, German and French letters
    **{"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2018": "'", "\u2019": "'", "\u00df": "ss"},
    **{"\u00e4": "ae", "\u00f6": "oe", "\u00fc": "ue", "\u00e9": "e", "\u00e8": "e"},
    # lines and blocks
    **dict.fromkeys(map(chr, range(0x2500, 0x2502)), "-"),
    **dict.fromkeys(map(chr, range(0x2581, 0x2590)), "#"),
}
ERRORS = "hpclaunch-look-alikes"
"""The name of the handler that writes a sign of ASCII in the place of one that an encoding lacks."""


def is_coloured(terminal: bool, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a stream gets colours: NO_COLOR forbids them, FORCE_COLOR asks for them, else a terminal that can."""
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or (terminal and is_capable(environment))


def is_capable(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal obeys codes at all."""
    return environment.get("TERM", "dumb") not in ("", "dumb", "unknown")


def is_unicode(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the person's locale has the signs of Unicode; PYTHONIOENCODING comes first, as in Python."""
    names = ("PYTHONIOENCODING", "LC_ALL", "LC_CTYPE", "LANG")
    return "UTF" in next(filter(None, (environment.get(name) for name in names)), "").upper()


def paint(text: str, style: str) -> str:
    """Return a text with the codes of a style, whose words are those of ``_CODES``: bold red."""
    codes = [_CODES[word] for word in style.split() if word in _CODES]
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes else text


def fit(stream: TextIO | None) -> None:
    """Let a stream write ASCII if it is a terminal without UTF-8, and never fail at what its encoding lacks."""
    reconfigure = getattr(stream, "reconfigure", None)
    if stream is None or reconfigure is None:
        return
    codecs.register_error(ERRORS, _look_alike)
    if stream.isatty() and not is_unicode():
        reconfigure(encoding="ascii", errors=ERRORS)
    elif "utf" not in (stream.encoding or "").lower():
        reconfigure(errors=ERRORS)
    else:  # of a path's bytes that are not UTF-8
        reconfigure(errors="backslashreplace")


def _look_alike(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_LOOK_ALIKES.get(sign, "?") for sign in missing), error.end
