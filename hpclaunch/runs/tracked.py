"""The files that git tracks in a folder, read from git's index; no program is started, not even git.

Source: gitformat-index of git. A repository may hold any index: sizes are looked at first, and what does not have the
documented form counts as no answer.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from hpclaunch.core.files import read_bytes

_LARGEST_INDEX = 64 * 2**20
_LARGEST_LINK = 4096
_MOST_NESTED = 4
"""Submodules in submodules."""
_FIXED = 40
"""Bytes of an entry before the number of its object: times, place, mode, owner, size."""
_HASHES = (20, 32)
"""Bytes of an object's number: SHA-1, SHA-256."""
_FOLDER, _SUBMODULE = 0o04, 0o16
_EXTENDED = 0x4000
_LONGEST_NAME = 0xFFF


def repository_of(folder: Path) -> Path | None:
    """Return the innermost folder that holds ``folder`` and a ``.git``; None outside a repository."""
    return next((place for place in (folder, *folder.parents) if os.path.lexists(place / ".git")), None)


def tracked_in(folder: Path, repository: Path | None) -> frozenset[str] | None:
    """Return the paths below ``folder`` that git tracks; None outside a repository, or if its index cannot be read.

    Both are paths without links.
    """
    names = _tracked_paths(repository, 0) if repository else None
    if repository is None or names is None:
        return None
    inside = "" if repository == folder else f"{folder.relative_to(repository)}/"
    return frozenset(name.removeprefix(inside) for name in names if name.startswith(inside))


def _tracked_paths(repository: Path, depth: int) -> list[str] | None:
    """Return the paths that a repository tracks, with those of its submodules."""
    try:
        content = read_bytes(_git_folder(repository) / "index", _LARGEST_INDEX)
    except (OSError, ValueError):
        return None
    entries = next((found for size in _HASHES if (found := _entries(content, size)) is not None), None)
    if entries is None:
        return None
    names = []
    for name, kind in entries:
        if kind == _SUBMODULE and depth < _MOST_NESTED:
            names += [f"{name}/{inner}" for inner in _tracked_paths(repository / name, depth + 1) or ()]
        elif kind not in (_FOLDER, _SUBMODULE):
            names.append(name)
    return names


def _git_folder(repository: Path) -> Path:
    """Return the folder with the index; in a submodule and in a further working tree, ``.git`` is a file with its path.

    Raises OSError or ValueError.
    """
    place = repository / ".git"
    if place.is_dir():
        return place
    text = read_bytes(place, _LARGEST_LINK).decode("utf-8", errors="surrogateescape")
    return repository / text.removeprefix("gitdir:").strip()


def _entries(content: bytes, hash_size: int) -> list[tuple[str, int]] | None:
    """Return (path, kind of file) of every entry; None if the index has another form, or is only a part of one."""
    if len(content) < 12 + hash_size or content[:4] != b"DIRC":
        return None
    version, count = struct.unpack(">II", content[4:12])
    if version not in (2, 3, 4) or count > len(content) // (_FIXED + hash_size):
        return None
    found: list[tuple[str, int]] = []
    name, place, end = b"", 12, len(content) - hash_size
    for _ in range(count):
        start, fixed = place, place + _FIXED + hash_size + 2
        if fixed > end:
            return None
        mode, flags = struct.unpack_from(">I", content, start + 24)[0], struct.unpack_from(">H", content, fixed - 2)[0]
        place = fixed + (2 if flags & _EXTENDED else 0)
        kept = 0
        if version == 4:
            kept, place = _varint(content, place)
            kept = len(name) - kept
        stop = content.find(b"\0", place, end)
        if stop < 0 or kept < 0:
            return None
        name = name[:kept] + content[place:stop]
        if (flags & _LONGEST_NAME) != min(len(name), _LONGEST_NAME):
            return None
        place = stop + 1 if version == 4 else start + (stop - start + 8) // 8 * 8
        found.append((os.fsdecode(name), mode >> 12))
    return None if _is_split(content, place, end) else found


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """Return the number in git's variable width at ``place``, and the place behind it."""
    number = content[place] & 0x7F
    while content[place] & 0x80 and place + 1 < len(content):
        place += 1
        number = ((number + 1) << 7) | (content[place] & 0x7F)
        if number > len(content):
            break
    return number, place + 1


def _is_split(content: bytes, place: int, end: int) -> bool:
    """Whether the index is only a part, whose rest is in another file (the extension ``link``)."""
    while place + 8 <= end:
        name, size = content[place : place + 4], struct.unpack_from(">I", content, place + 4)[0]
        if name == b"link":
            return True
        place += 8 + size
    return False
