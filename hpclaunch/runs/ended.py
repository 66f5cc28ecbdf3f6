"""The index of ended runs: what lists show of them, so that their directories need not be read again.

It is a file in the user's folder of state, with one line for each run: a checksum, the path, and what the record was.
An entry counts only if the files of the record are still those that were read, by their inodes, times and sizes. A
damaged line, a file that was restored from a backup, or one that cannot be written, only makes lists slower. The run
directory holds the truth, so whoever acts on a run reads it there.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from hpclaunch.core.files import append_line, json_object, read_bytes
from hpclaunch.core.locks import locked
from hpclaunch.core.records import record
from hpclaunch.runs.arrays import STATES
from hpclaunch.runs.record import HISTORY, RECORD, Run

FILE = "ended-runs.txt"
_TITLE = "hpclaunch ended runs 1"
_LARGEST = 256 * 2**20
_LONGEST_LINE = 2**16
"""Bytes; the record of an array that was started in thousands of parts is not kept."""
_SPARE_LINES = 1000
"""So many lines without a meaning may be in the file, beside as many as there are runs."""
_DEFAULTS = {one.name: one.default for one in fields(Run) if one.default is not MISSING}
_TUPLES = tuple(name for name, default in _DEFAULTS.items() if isinstance(default, tuple))


@record
class EndedRun:
    """An entry: the run as recorded, and ``shown``, what else a list shows of it, as plain values."""

    run: Run
    shown: Mapping[str, Any]


class EndedRuns:
    """The index as it is now. ``state`` is the folder of the user's state."""

    def __init__(self, state: Path) -> None:
        self._lines: dict[Path, bytes] = {}
        with contextlib.suppress(OSError, ValueError):
            self._read(read_bytes(state / FILE, _LARGEST), os.stat(state / FILE).st_ino)

    def _read(self, content: bytes, inode: int) -> None:
        title, *lines = content.split(b"\n")
        if title.decode(errors="replace") != f"{_TITLE} {inode}":
            return  # another format, or a copy: it may be older than the runs
        for line in lines[:-1]:  # the last one is empty, or cut off
            name, tab, rest = line[9:].partition(b"\t")
            if tab and line[:8] == b"%08x" % zlib.crc32(line[9:]):
                path = Path(os.fsdecode(name))
                self._lines.pop(path, None)
                if rest:
                    self._lines[path] = rest

    def __contains__(self, path: object) -> bool:
        return path in self._lines

    def __len__(self) -> int:
        return len(self._lines)

    def get(self, path: Path, stamp: list[int] | None, check: bool = True) -> EndedRun | None:
        """Return the entry of a run directory, if its record is still the one that was read; else None.

        ``stamp``: what `stamp_of` says of the directory. Without ``check`` it does not count: for names, of which the
        run is read then.
        """
        entry = json_object(self._lines.get(path, b"").decode("utf-8", errors="replace"))
        is_present = bool(entry) and (not check or entry.get("stamp") == stamp)
        run = _run_of(path, entry) if is_present else None
        if run is None:
            self._lines.pop(path, None)
            return None
        shown = entry.get("shown")
        return EndedRun(run=run, shown=shown if isinstance(shown, dict) else {})


def _run_of(path: Path, entry: Mapping[str, Any]) -> Run | None:
    values = entry.get("record")
    if not isinstance(values, dict):
        return None
    try:
        return Run(path=path, **{**values, **{name: tuple(values[name]) for name in _TUPLES if name in values}})
    except TypeError:  # of another version of hpclaunch
        return None


def stamp_of(path: Path) -> list[int] | None:
    """Return what tells one state of a run's record from all others; None if there is none."""
    # A late exit code changes the history alone, and the end of one run of an array only the history and the states.
    record, history, states = (_numbers_of(f"{path}/{name}") for name in (RECORD, HISTORY, STATES))
    return [*record, *history, *states] if record else None


def _numbers_of(file: str) -> list[int]:
    """Return what tells one state of a file from all others; nothing of a file that is not there."""
    try:
        about = os.stat(file)
    except OSError:
        return []
    return [about.st_ino, about.st_mtime_ns, about.st_ctime_ns, about.st_size]


def keep_ended(
    state: Path, ended: Mapping[Path, tuple[list[int], Run, Mapping[str, Any]]], listed: Iterable[Path]
) -> None:
    """Add entries: path -> (the stamp before the record was read, the run, what is shown).

    If the index cannot be written, its runs are read from their directories.
    """
    lines = [_line_of(path, _rest_of(*entry)) for path, entry in ended.items()]
    with contextlib.suppress(OSError), locked(state) as is_held:
        if is_held:
            _add_lines(state, [line for line in lines if len(line) < _LONGEST_LINE], listed)


def drop_ended(state: Path, path: Path) -> None:
    """Take an entry away, before the record of an ended run is changed."""
    with contextlib.suppress(OSError):
        if os.path.exists(state / FILE):
            with locked(state):
                append_line(state / FILE, os.fsdecode(_line_of(path, b"")))


def forget_all(state: Path) -> None:
    """Take all entries away; the next list of runs makes the index anew."""
    with contextlib.suppress(OSError), locked(state):
        os.unlink(state / FILE)


def _rest_of(stamp: list[int], run: Run, shown: Mapping[str, Any]) -> bytes:
    values = {name: getattr(run, name) for name in run.__dataclass_fields__ if name != "path"}
    kept = {name: value for name, value in values.items() if name not in _DEFAULTS or value != _DEFAULTS[name]}
    return json.dumps({"stamp": stamp, "record": kept, "shown": shown}, separators=(",", ":")).encode()


def _line_of(path: Path, rest: bytes) -> bytes:
    text = os.fsencode(path) + b"\t" + rest
    return b"%08x %s" % (zlib.crc32(text), text)


def _add_lines(state: Path, lines: list[bytes], listed: Iterable[Path]) -> None:
    """Append the lines; write the file anew if it is no index, or holds too many lines without a meaning."""
    known = EndedRuns(state)
    total = _count_lines(state / FILE)
    if total and total <= 2 * len(known) + _SPARE_LINES:
        if lines:
            append_line(state / FILE, os.fsdecode(b"\n".join(lines)))
        return
    paths = set(listed)
    old = [_line_of(path, rest) for path, rest in known._lines.items() if path in paths]
    draft = state / f".{FILE}-{os.urandom(8).hex()}"
    try:
        with open(draft, "xb") as file:
            os.fchmod(file.fileno(), 0o600)
            title = f"{_TITLE} {os.fstat(file.fileno()).st_ino}".encode()
            file.write(b"".join(line + b"\n" for line in (title, *old, *lines)))
        os.replace(draft, state / FILE)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def _count_lines(file: Path) -> int:
    """Return the number of lines; 0 for a file that is no index, or not this one."""
    try:
        content, inode = read_bytes(file, _LARGEST), os.stat(file).st_ino
    except (OSError, ValueError):
        return 0
    return content.count(b"\n") if content.startswith(f"{_TITLE} {inode}\n".encode()) else 0
