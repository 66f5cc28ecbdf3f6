"""Text as a word of bash, for commands and paths that are shown to be typed again; it runs nothing."""

from __future__ import annotations

import shlex

_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def shell_word(text: str) -> str:
    r"""Return text as one word that bash reads as exactly this text.

    What a terminal could not show as it is (a control character, a byte that is not UTF-8) is written as in
    ``$'\x1b'``.
    """
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_escape, text)) + "'"


def shown_name(text: str) -> str:
    """Return a name as it is; one that could not be typed as it is shown, as a word of bash."""
    return text if text.isprintable() else shell_word(text)


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", errors="surrogateescape"))
