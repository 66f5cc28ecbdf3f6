"""Small files that several processes use at once: a reader sees the old or the new content, never a part of it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LOCK_SECONDS = 10.0
_LOCK_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
_MOST_BYTES = 64 * 2**20
"""A larger record, marker or metrics file was not written by hpclaunch, and is not read."""


def write_text(path: Path | str, text: str, durable: bool = True) -> None:
    """Write a file so that a reader sees all of it or the old content. Undecodable bytes of typed text are kept.

    ``durable`` waits until the file is on disk: for content that cannot be computed again.
    """
    folder, name = os.path.split(path)
    fresh = os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        with open(fresh, "wb", buffering=0) as file:
            _write(file.fileno(), text)
            if durable:
                os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise


def _write(descriptor: int, text: str) -> None:
    content = memoryview(text.encode("utf-8", errors="surrogateescape"))
    while content:
        content = content[os.write(descriptor, content) :]


def append_line(path: Path | str, line: str) -> None:
    """Append one line. A line that another process appends at the same time comes before or after it.

    If the last line is incomplete, as after a full disk, it is ended first, so that only that line is damaged.
    """
    with open(path, "ab+", buffering=0) as file:
        end = file.tell()  # the end, since the file is opened for appending
        cut_short = end > 0 and os.pread(file.fileno(), 1, end - 1) != b"\n"
        _write(file.fileno(), f"\n{line}\n" if cut_short else f"{line}\n")


def read_text(path: Path | str) -> str:
    """Return the text of a regular file, with undecodable bytes replaced; empty if there is no readable one."""
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST_BYTES:
            return ""
        with open(path, "rb", buffering=0) as file:
            return file.read().decode("utf-8", errors="replace")
    except (OSError, ValueError):
        return ""


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file with one object per line, without damaged and incomplete lines."""
    return [event for event in map(json_object, read_text(path).split("\n")) if event]


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object in the text; an empty one if the text is anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes of hpclaunch from changing the folder's record while the block runs.

    The block runs without a lock if the file system has none, or if another process holds it too long (a stopped one,
    or one on a dead node). Then the last process to write the record wins.
    """
    with contextlib.ExitStack() as stack:
        # The folder itself is locked. NFS locks only files that are open for writing, so there a file in the folder is.
        for name, flags in ((str(folder), os.O_RDONLY | os.O_DIRECTORY), (f"{folder}/.lock", _LOCK_FILE)):
            if _lock(name, flags, stack):
                break
        yield


def _lock(name: str, flags: int, stack: contextlib.ExitStack) -> bool:
    """Wait for the lock, and keep it until the stack is closed; False if this file cannot be locked."""
    try:
        descriptor = os.open(name, flags | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, descriptor)
        deadline = time.monotonic() + _LOCK_SECONDS
        while time.monotonic() < deadline:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.02)
    except OSError:
        return False
    return True
