"""Small files that several processes use at once: whole or old, never half; it knows no run."""

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
"""A record, a mark or a file of metrics that is larger was not written by us."""


def write_text(path: Path | str, text: str, durable: bool = True) -> None:
    """Write a file so that a reader sees all of it or the old one. Undecodable bytes of typed text are kept.

    ``durable`` waits until it is on disk: for what cannot be found out again.
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
    """Add one line; what another process adds at the same time stands before or after it.

    A last line that was cut short, as by a full disk, is ended first: it stays damaged, and this one is whole.
    """
    with open(path, "ab+", buffering=0) as file:
        end = file.tell()  # as it is opened for adding
        cut_short = end > 0 and os.pread(file.fileno(), 1, end - 1) != b"\n"
        _write(file.fileno(), f"\n{line}\n" if cut_short else f"{line}\n")


def read_text(path: Path | str) -> str:
    """Return the text of a plain file, undecodable bytes replaced; nothing where there is none that can be read."""
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST_BYTES:
            return ""
        with open(path, "rb", buffering=0) as file:
            return file.read().decode("utf-8", errors="replace")
    except (OSError, ValueError):
        return ""


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file with one a line; a damaged line, or one still being written, is left out."""
    return [event for event in map(json_object, read_text(path).splitlines()) if event]


def json_object(text: str) -> dict[str, Any]:
    """Return the object that the text holds; an empty one where it holds something else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes of hpclaunch from changing the folder's record meanwhile.

    Where a file system knows no locks, or another process holds one for long (stopped, on a dead node), it goes on
    without: the record is then as good as the last to write it.
    """
    with contextlib.ExitStack() as stack:
        # The folder itself; NFS locks only what is open for writing, so there a file in it.
        for name, flags in ((str(folder), os.O_RDONLY | os.O_DIRECTORY), (f"{folder}/.lock", _LOCK_FILE)):
            if _locked(name, flags, stack):
                break
        yield


def _locked(name: str, flags: int, stack: contextlib.ExitStack) -> bool:
    """Wait for the lock and keep it as long as the stack; False where this cannot be locked."""
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
