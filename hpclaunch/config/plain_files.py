"""Reads text and JSON files as plain values, strictly: UTF-8, no large files, no repeated keys."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

from hpclaunch.core.errors import Fault, InvalidFile, shorten
from hpclaunch.core.files import read_bytes
from hpclaunch.core.quoting import shell_word

_LARGEST_FILE = 256 * 1024


def read_text_file(path: Path) -> str:
    """Return the text of a file. Raises InvalidFile if it is unreadable, oversized or not UTF-8."""
    try:
        raw = read_bytes(path, _LARGEST_FILE)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        why = getattr(error, "strerror", None) or str(error)
        what = why if getattr(error, "errno", 0) == errno.EFBIG else f"cannot be read: {why}"
        if isinstance(error, FileNotFoundError) and os.path.islink(path):
            what = f"is a link to {os.readlink(path)}, which does not exist"
        step = f"ls -ld {shell_word(str(path))} shows who may read it" if isinstance(error, PermissionError) else ""
        raise InvalidFile(Fault(where=str(path), what=what, next=step)) from None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidFile(Fault(where=str(path), what="is not UTF-8 text")) from None


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Raises InvalidFile for unreadable, oversized or repeated content."""
    text = read_text_file(path)
    try:
        content = json.loads(text, object_pairs_hook=_refuse_repeats, parse_constant=_refuse_constant)
    except (RecursionError, ValueError) as error:
        raise InvalidFile(Fault(where=str(path), what=f"is not valid JSON: {on_one_line(error)}")) from None
    return keyed_by_text(path, content)


def keyed_by_text(path: Path | str, content: Any) -> dict[str, Any]:
    """Return the content of a file. Raises InvalidFile if it is no mapping with texts as keys."""
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise InvalidFile(Fault(where=str(path), what="must be a mapping of keys to values"))
    return content


def first_repeated(keys: list[str]) -> str | None:
    """Return the first key that stands there twice; None if each stands there once."""
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def on_one_line(error: Exception) -> str:
    """Return what a parser says, on one line."""
    return shorten(" ".join(str(error).split()))


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a repeated key, of which Python's JSON reader would keep the last."""
    content = dict(pairs)
    if len(content) < len(pairs):
        repeated = first_repeated([key for key, _ in pairs])
        raise ValueError(f"the key {repeated!r} is given twice")
    return content


def _refuse_constant(word: str) -> None:
    """Refuse NaN and Infinity, which Python would read although JSON has no such numbers."""
    raise ValueError(f"{word} is not a number")
