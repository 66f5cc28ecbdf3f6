"""Opens files below a folder that another person may have written: regular files only, and none through a link.

Every part of a name is opened relative to the one before it, without following links, so that nothing that is
exchanged meanwhile leads out of the folder. The folder itself is the user's own choice: links that lead to it are
followed. A file with several names (hard links) that belongs to another person than the folder is refused too: whoever
may write into a folder could give a stranger's file a name there without being able to read it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from hpclaunch.core.files import MOST_BYTES, check_kind_and_size, json_lines_of, read_descriptor
from hpclaunch.core.records import record

Root = Path | str | int
"""A folder: its path, or a descriptor of it that is open."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_FOLDERS = "leads out of the folder"
_KINDS = (
    (stat.S_ISLNK, "is a link"),
    (stat.S_ISFIFO, "is a pipe"),
    (stat.S_ISSOCK, "is a socket"),
    (stat.S_ISCHR, "is a device"),
    (stat.S_ISBLK, "is a device"),
)
MOST_NAMES = 100_000
"""Names that are looked at in one folder and below it."""


@record
class InsideFile:
    """A file below a folder, which is opened again each time it is read."""

    root: Path
    name: str

    def open(self) -> BinaryIO:
        """Open it for reading. Raises OSError."""
        return os.fdopen(open_file(self.root, self.name), "rb")

    def size(self) -> int:
        """Return its bytes. Raises OSError."""
        with self.open() as file:
            return os.fstat(file.fileno()).st_size


@contextlib.contextmanager
def folder_of(root: Root, name: str = "") -> Iterator[int]:
    """Open a folder below ``root`` (empty: itself) and give its descriptor. Raises OSError."""
    parts = _parts(name)
    place = os.dup(root) if isinstance(root, int) else os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for number, part in enumerate(parts):
            try:
                inner = os.open(part, _FOLDER, dir_fd=place)
            except OSError as error:
                error.filename = "/".join(parts[: number + 1])
                if isinstance(error, NotADirectoryError):
                    _refuse_link(part, place, error.filename)
                raise
            os.close(place)
            place = inner
        yield place
    finally:
        os.close(place)


def _parts(name: str) -> list[str]:
    """Return the parts of a relative name. Raises OSError for one that is absolute or leads upwards."""
    parts = name.split("/") if name else []
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise OSError(errno.EXDEV, _NO_FOLDERS, name)
    return parts


def _refuse_link(part: str, folder: int, name: str) -> None:
    """Raise OSError in words if a part of a name is a link; the system itself only says that it is no folder."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISLNK(os.lstat(part, dir_fd=folder).st_mode):
            raise OSError(errno.ELOOP, "is a link", name)


def open_file(root: Root, name: str) -> int:
    """Open a regular file for reading, and return its descriptor. Raises OSError, whose text says what is there."""
    before, _, last = name.rpartition("/")
    if _parts(last) != [last]:
        raise OSError(errno.EXDEV, _NO_FOLDERS, name)
    if not before and not isinstance(root, int):  # most records: one call less for each of thousands of runs
        return _open_part(f"{root}/{last}", None, root, name)
    with folder_of(root, before) as folder:
        return _open_part(last, folder, root, name)


def _open_part(path: str, folder: int | None, root: Root, name: str) -> int:
    """Open the last part of a name. Raises OSError."""
    _check_kind(os.lstat(path, dir_fd=folder), name)  # before it is opened: to open some devices has an effect
    descriptor = os.open(path, _FILE, dir_fd=folder)
    try:
        about = os.fstat(descriptor)
        _check_kind(about, name)
        _check_owner(about, root, name)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_kind(about: os.stat_result, name: str) -> None:
    words = kind_in_words(about.st_mode)
    if words:
        raise OSError(errno.ELOOP if stat.S_ISLNK(about.st_mode) else errno.EINVAL, words, name)


def kind_in_words(mode: int) -> str:
    """Return what is there in place of a regular file; empty for a regular file."""
    if stat.S_ISREG(mode):
        return ""
    return next((words for is_kind, words in _KINDS if is_kind(mode)), "is a folder")


def _check_owner(about: os.stat_result, root: Root, name: str) -> None:
    words = strange_owner(about, root)
    if words:
        raise OSError(errno.EPERM, words, name)


def strange_owner(about: os.stat_result, root: Root) -> str:
    """Return in words that a file may be a stranger's, given a name here; empty for any other file."""
    if about.st_nlink > 1 and about.st_uid != os.stat(root).st_uid:
        return "has another owner than the folder, and names elsewhere (hard links)"
    return ""


def read_bytes(root: Root, name: str, most: int) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes. Raises OSError, also for a larger one (EFBIG)."""
    descriptor = open_file(root, name)
    try:
        return read_descriptor(descriptor, name, most)
    finally:
        os.close(descriptor)


def read_text(root: Root, name: str, most: int = MOST_BYTES) -> str:
    """Return the text of a regular file, with undecodable bytes replaced; empty if there is none that can be read."""
    for _ in range(2):  # a network file system may fail once
        try:
            return read_bytes(root, name, most).decode("utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return ""
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EINVAL, errno.EXDEV, errno.EFBIG, errno.EPERM):
                return ""
    return ""


def read_end(root: Root, name: str, most: int) -> bytes:
    """Return the last ``most`` bytes of a regular file, however large it is; nothing if it cannot be read."""
    try:
        with os.fdopen(open_file(root, name), "rb", buffering=0) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read(most)
    except (OSError, ValueError):
        return b""


def json_lines(root: Root, name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file as `files.json_lines` does: of a very large one only the last 16 MB count."""
    try:
        file = os.fdopen(open_file(root, name), "rb")
    except (OSError, ValueError):
        return
    with file:
        yield from json_lines_of(file)


def size_of(root: Root, name: str) -> int | None:
    """Return the bytes of a regular file; None if there is none that may be read."""
    try:
        descriptor = open_file(root, name)
    except (OSError, ValueError):
        return None
    try:
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def changed_at(root: Root, name: str) -> float | None:
    """Return the time (Unix seconds) at which a regular file was last written; None if there is none."""
    before, _, last = name.rpartition("/")
    try:
        with folder_of(root, before) as folder:
            about = os.lstat(last, dir_fd=folder)
    except (OSError, ValueError):
        return None
    return about.st_mtime if stat.S_ISREG(about.st_mode) else None


def names_in(root: Root, name: str = "") -> list[str]:
    """Return the names in a folder, in their order; none if there is no such folder, or it may not be read."""
    try:
        with folder_of(root, name) as folder:
            return sorted(os.listdir(folder))
    except (OSError, ValueError):
        return []


def walk(root: Root, name: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Yield (name relative to ``root``, what `os.lstat` says) of everything below a folder that is no folder.

    The order is that of the names. A link is yielded and not entered. What a running program removes meanwhile is left
    out. Raises FileNotFoundError if there is no such folder, and OverflowError after MOST_NAMES names.
    """
    left = [name]
    seen = 0
    while left:
        place = left.pop()
        inner: list[str] = []
        try:
            for one, about in _entries(root, place):
                seen += 1
                if seen > MOST_NAMES:
                    raise OverflowError(f"more than {MOST_NAMES:,} files")
                path = f"{place}/{one}" if place else one
                if stat.S_ISDIR(about.st_mode):
                    inner.append(path)
                else:
                    yield path, about
        except FileNotFoundError:
            if place == name:
                raise
        left += reversed(inner)


def _entries(root: Root, place: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the names in a folder, in their order, with what `os.lstat` says of each."""
    with folder_of(root, place) as folder:
        for name in sorted(os.listdir(folder)):
            try:
                about = os.lstat(name, dir_fd=folder)
            except FileNotFoundError:
                continue
            yield name, about


def problem(root: Root, name: str, most: int | None = None) -> str:
    """Return why a file is not read, in words; empty if it is missing, or can be read.

    ``most``: the bytes that it may have.
    """
    try:
        descriptor = open_file(root, name)
    except FileNotFoundError:
        return ""
    except ValueError as error:
        return str(error)
    except OSError as error:
        return error.strerror or str(error)
    try:
        if most is not None:
            check_kind_and_size(os.fstat(descriptor), name, most)
    except OSError as error:
        return error.strerror or str(error)
    finally:
        os.close(descriptor)
    return ""
