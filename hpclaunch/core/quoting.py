"""Text that another wrote, quoted for a shell, one line of a screen, or a spreadsheet; it runs nothing."""

from __future__ import annotations

import shlex

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of a text that a spreadsheet would take for a formula."""
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def shell_word(text: str) -> str:
    r"""Return text as one word that bash reads as exactly this text.

    What a terminal could not show as it is (a control character, a byte that is not UTF-8) is written as in
    ``$'\x1b'``.
    """
    if text.isprintable():
        return plain_word(text)
    return "$'" + "".join(map(_escape, text)) + "'"


def plain_word(text: str) -> str:
    """Return text as one word of a shell, whatever a terminal shows of it; a first ``=`` is quoted, too.

    zsh would look for a program of the rest, and ``export NAME==rest`` reads like a comparison.
    """
    quoted = shlex.quote(text)
    return f"'{quoted}'" if quoted.startswith("=") else quoted


def shown_name(text: str) -> str:
    """Return a name as it is; one that could not be typed as it is shown, as a word of bash."""
    return text if text.isprintable() else shell_word(text)


def spreadsheet_text(text: str) -> str:
    """Return a text for a cell of CSV: one that a spreadsheet would compute gets an apostrophe, as OWASP recommends.

    A number stays one, with its sign.

    >>> spreadsheet_text("=SUM(A1)"), spreadsheet_text("-0.5"), spreadsheet_text("loss")
    ("'=SUM(A1)", '-0.5', 'loss')
    """
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", errors="surrogateescape"))
