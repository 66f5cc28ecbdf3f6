"""Small files that several processes use at once: a reader sees the old or the new content, never a part of it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

_MOST_BYTES = 64 * 2**20
"""A larger record, marker or metrics file was not written by hpclaunch, and is not read."""


_NO_FSYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
"""Errors of file systems that have no fsync for folders."""


def write_text(path: Path | str, text: str, durable: bool = True) -> None:
    """Write a file so that a reader sees all of it or the old content. Undecodable bytes of typed text are kept.

    ``durable`` waits until the file and its name are on disk: for content that cannot be computed again.
    """
    folder = os.path.dirname(path)
    # Random, because processes on other hosts and in other containers have the same numbers.
    draft = os.path.join(folder, f".hpclaunch-{os.urandom(8).hex()}")
    try:
        with open(draft, "xb", buffering=0) as file:
            _write(file.fileno(), text)
            if durable:
                os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
    if durable:
        sync_folder(folder or ".")


def sync_folder(folder: Path | str) -> None:
    """Wait until the names in a folder are on disk, if its file system can do that. Raises OSError."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return  # a folder that this user may write into, but not read
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FSYNC:
            raise
    finally:
        os.close(descriptor)


def _write(descriptor: int, text: str) -> None:
    content = memoryview(text.encode("utf-8", errors="surrogateescape"))
    while content:
        content = content[os.write(descriptor, content) :]


def append_line(path: Path | str, line: str, durable: bool = False) -> os.stat_result:
    """Append one line. A line that another process appends at the same time comes before or after it.

    If the last line is incomplete, as after a full disk, it is ended first, so that only that line is damaged.
    ``durable`` waits until the line is on disk. Returns what `os.fstat` says of the file.
    """
    with open(path, "ab+", buffering=0) as file:
        end = file.tell()  # the end, since the file is opened for appending
        cut_short = end > 0 and os.pread(file.fileno(), 1, end - 1) != b"\n"
        _write(file.fileno(), f"\n{line}\n" if cut_short else f"{line}\n")
        if durable:
            os.fsync(file.fileno())
        return os.fstat(file.fileno())


def read_text(path: Path | str) -> str:
    """Return the text of a regular file, with undecodable bytes replaced; empty if there is no readable one."""
    for _ in range(2):  # a network file system may fail once
        try:
            return _text_of(path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return ""
        except OSError:
            continue
    return ""


def _text_of(path: Path | str) -> str:
    about = os.stat(path)
    if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST_BYTES:
        return ""
    with open(path, "rb", buffering=0) as file:
        return file.read().decode("utf-8", errors="replace")


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file with one object per line, without damaged and incomplete lines."""
    return [event for event in map(json_object, read_text(path).splitlines()) if event]


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object in the text; an empty one if the text is anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
