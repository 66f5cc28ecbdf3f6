"""Small files that several processes use at once: a reader sees the old or the new content, never a part of it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

MOST_BYTES = 16 * 2**20
"""A larger record or marker was not written by hpclaunch, and is not read. JSON of this size takes 400 MB at most."""
LONGEST_LINE = 2**20
"""Bytes; a longer line of events was not written by hpclaunch either."""


_NO_FSYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
"""Errors of file systems that have no fsync for folders."""
_WRITE_AND_WAIT = 7
"""SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER (linux/fs.h)."""


def write_text(path: Path | str, text: str, durable: bool = True) -> None:
    """Write a file so that a reader sees all of it or the old content. Undecodable bytes of typed text are kept.

    ``durable`` waits until the file and its name are on disk: for content that cannot be computed again.
    """
    _replace(path, text, os.fsync if durable else _do_not_wait)
    if durable:
        sync_folder(os.path.dirname(path) or ".")


def replace_text(path: Path | str, text: str) -> None:
    """Write a file again, and wait until its content is on disk: after a crash its name has this content or the old."""
    _replace(path, text, os.fsync)


def send_text(path: Path | str, text: str) -> None:
    """Write a file as `write_text` does, and send it to the disk (`send_to_disk`)."""
    _replace(path, text, send_to_disk)


def write_new(path: Path | str, text: str, send: bool = True) -> None:
    """Make a file that nobody reads yet, and send it to the disk. Raises FileExistsError, or another OSError."""
    with open(path, "xb", buffering=0) as file:
        write_all(file.fileno(), _bytes_of(text))
        if send:
            send_to_disk(file.fileno())


def _replace(path: Path | str, text: str, finish: Callable[[int], object]) -> None:
    folder = os.path.dirname(path)
    # Random, because processes on other hosts and in other containers have the same numbers.
    draft = os.path.join(folder, f".hpclaunch-{os.urandom(8).hex()}")
    try:
        with open(draft, "xb", buffering=0) as file:
            write_all(file.fileno(), _bytes_of(text))
            finish(file.fileno())
        os.replace(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def _do_not_wait(descriptor: int) -> None:
    """Leave it to the kernel when the content goes to the disk."""


def send_to_disk(descriptor: int) -> None:
    """Wait until the content of a file has gone to the disk; it is safe there after the next fsync beside it.

    sync_file_range(2) does not empty the disk's own cache, nor the journal that has the file's size and name; both
    happen for all files together at the next fsync (of the record). git writes its objects so (git-config,
    core.fsyncMethod=batch). NFS sends the content when the file is closed. Raises OSError if the disk is full or fails.
    """
    import ctypes

    try:
        call = ctypes.CDLL(None, use_errno=True).sync_file_range
    except AttributeError:
        os.fsync(descriptor)
        return
    if call(descriptor, ctypes.c_int64(0), ctypes.c_int64(0), _WRITE_AND_WAIT) == 0:
        return
    if ctypes.get_errno() not in (*_NO_FSYNC, errno.ENOSYS, errno.ESPIPE):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.fsync(descriptor)


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


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of the content, also where a call of the kernel takes only a part of it. Raises OSError."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")


def append_line(path: Path | str, line: str, durable: bool = False) -> os.stat_result:
    """Append one line. A line that another process appends at the same time comes before or after it.

    If the last line is incomplete, as after a full disk, it is ended first, so that only that line is damaged.
    ``durable`` waits until the line is on disk. Returns what `os.fstat` says of the file.
    """
    with open(path, "ab+", buffering=0) as file:
        end = file.tell()  # the end, since the file is opened for appending
        cut_short = end > 0 and os.pread(file.fileno(), 1, end - 1) != b"\n"
        write_all(file.fileno(), _bytes_of(f"\n{line}\n" if cut_short else f"{line}\n"))
        if durable:
            os.fsync(file.fileno())
        return os.fstat(file.fileno())


def read_bytes(path: Path | str, most: int) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes.

    Raises OSError, also if the file is larger (EFBIG), or of another kind (EINVAL): a FIFO can wait for ever, and a
    device never ends. Nothing of these is read. Raises ValueError for a name that no file can have.
    """
    check_kind_and_size(os.stat(path), path, most)  # before it is opened: to open some devices has an effect
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        return read_descriptor(descriptor, path, most)
    finally:
        os.close(descriptor)


def read_descriptor(descriptor: int, path: Path | str, most: int) -> bytes:
    """Return what an open regular file holds, at most ``most`` bytes. Raises OSError as `read_bytes` does."""
    size = check_kind_and_size(os.fstat(descriptor), path, most)
    blocks = []
    left = most + 1  # it may grow while it is read, and files of /proc have no size
    while left > 0 and (block := os.read(descriptor, min(left, max(size + 1, 2**16)))):
        blocks.append(block)
        left -= len(block)
    if left <= 0:
        raise _too_large(path, most)
    return b"".join(blocks)


def check_kind_and_size(about: os.stat_result, path: Path | str, most: int) -> int:
    """Return the size in bytes. Raises OSError if it is above ``most``, or if this is no regular file."""
    if not stat.S_ISREG(about.st_mode):
        kind = "is a folder" if stat.S_ISDIR(about.st_mode) else "is not a regular file"
        raise OSError(errno.EINVAL, kind, str(path))
    if about.st_size > most:
        raise _too_large(path, most)
    return about.st_size


def _too_large(path: Path | str, most: int) -> OSError:
    return OSError(errno.EFBIG, f"is larger than {most // 1024} KB", str(path))


def is_own_folder(folder: Path | str) -> bool:
    """Whether a folder is this user's, and nobody else may write into it by its mode. Raises OSError."""
    about = os.stat(folder)
    return about.st_uid == os.geteuid() and not about.st_mode & 0o022


def is_there(path: Path | str) -> bool:
    """Whether something has this name, also what cannot be read: a folder, a link to nothing, a file of others."""
    try:
        os.lstat(path)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
    except ValueError:  # a name that no file can have
        return False
    return True


def read_text(path: Path | str, most: int = MOST_BYTES) -> str:
    """Return the text of a regular file, with undecodable bytes replaced; empty if there is no readable one.

    A file of more than ``most`` bytes counts as not readable.
    """
    for _ in range(2):  # a network file system may fail once
        try:
            return read_bytes(path, most).decode("utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return ""
        except OSError:
            continue
    return ""


def read_end(path: Path | str, most: int) -> bytes:
    """Return the last ``most`` bytes of a regular file, however large it is; nothing if it cannot be read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return b""
        with open(path, "rb", buffering=0) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read(most)
    except (OSError, ValueError):
        return b""


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file with one object per line, without damaged and incomplete lines.

    The file is read as it is needed. Of a very large one only the last 16 MB count.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return
        with open(path, "rb") as file:
            yield from json_lines_of(file)
    except (OSError, ValueError):
        return


def json_lines_of(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield the objects of an open file as `json_lines` does."""
    try:
        place = os.fstat(file.fileno()).st_size - MOST_BYTES
        if place > 0:
            file.seek(place)
            file.readline(MOST_BYTES)  # the rest of a line
        while line := file.readline(LONGEST_LINE):
            event = json_object(line.decode("utf-8", errors="replace"))
            if event:
                yield event
    except OSError:
        return


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object in the text; an empty one if the text is anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
