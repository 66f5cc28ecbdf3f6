"""Small files that several processes use at once: whole or old, never half; it knows no run."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LOCK_SECONDS = 10.0
_MOST_BYTES = 64 * 2**20
"""A record, a mark or a file of metrics that is larger was not written by us."""


def write_text(path: Path, text: str, durable: bool = True) -> None:
    """Write a file so that a reader sees all of it or the old one. Undecodable bytes of typed text are kept.

    ``durable`` waits until it is on disk: for what cannot be found out again.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(fresh, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


def append_line(path: Path, line: str) -> None:
    """Add one line; what another process adds at the same time stands before or after it."""
    with open(path, "ab") as file:
        file.write(f"{line}\n".encode("utf-8", errors="surrogateescape"))


def read_text(path: Path) -> str:
    """Return the text of a plain file, undecodable bytes replaced; nothing where there is none that can be read."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
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
    try:
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while not _lock(descriptor) and time.monotonic() < deadline:
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
