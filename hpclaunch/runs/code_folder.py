"""A folder of code that is examined once: what is listed, compared with git, hashed and copied is the same content.

Nothing is read again between looking and copying, so a file that is edited meanwhile is not half of both. On a slow
file system each look at a folder costs as much as the first one.
"""

from __future__ import annotations

import os
import stat
from functools import cached_property
from pathlib import Path
from typing import Any

from hpclaunch.core.files import read_bytes
from hpclaunch.core.spec import Code
from hpclaunch.runs.code_files import CodeFiles, code_files

_LARGEST_KEPT = 2**20
"""Bytes. A larger file is data or a library, and is read where it is needed."""
_LARGEST_SCRIPT = 4 * 2**20
_MOST_KEPT = 32 * 2**20
"""Bytes of all files together that are kept in memory."""


class CodeFolder:
    """One folder of code. Every file is opened once, however often its size or content is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._about: dict[str, os.stat_result | None] = {}
        self._kept: dict[str, bytes] = {}
        self._room = _MOST_KEPT
        self.examined: dict[Code, Any] = {}
        """What `snapshot.examine` has found here."""

    @cached_property
    def found(self) -> CodeFiles:
        """What is below the folder. Raises UnusableCode if its list of ignored files cannot be used."""
        return code_files(self.path)

    @cached_property
    def names(self) -> dict[str, set[str]]:
        """The names in each folder that was entered, by its path below this one. Raises UnusableCode as `found`."""
        names: dict[str, set[str]] = {}
        for entry in self.found.entries:
            folder, _, name = entry.rpartition("/")
            names.setdefault(folder, set()).add(name)
        return names

    @cached_property
    def repository(self) -> Path | None:
        """The top folder of the git repository that this folder is in; None outside of one."""
        from hpclaunch.runs.tracked import repository_of  # a bundled job is compared with no repository

        return repository_of(self._real_path)

    @cached_property
    def tracked(self) -> frozenset[str] | None:
        """The paths that git tracks; None outside a repository."""
        from hpclaunch.runs.tracked import tracked_in

        return tracked_in(self._real_path, self.repository)

    @cached_property
    def _real_path(self) -> Path:
        return Path(os.path.realpath(self.path))

    def about(self, name: str) -> os.stat_result | None:
        """Return size, mode and times of a file; None if this user may not read it, or if it is no file any more."""
        if name not in self._about:
            try:
                self._about[name] = self._look_at(name)
            except OSError:
                self._about[name] = None
        return self._about[name]

    def kept(self, name: str) -> bytes | None:
        """Return the content of a file as it was when the folder was examined; None of a large one."""
        self.about(name)
        return self._kept.get(name)

    def content(self, name: str, most: int = 2**40) -> bytes:
        """Return the content of a file. Raises OSError, also if it has more than ``most`` bytes."""
        kept = self.kept(name)
        return read_bytes(self.path / name, most) if kept is None else kept

    def _look_at(self, name: str) -> os.stat_result:
        # Without waiting: a FIFO may have taken the file's place.
        descriptor = os.open(self.path / name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                raise OSError
            if about.st_size <= min(_LARGEST_KEPT, self._room):
                self._kept[name] = _read_all(descriptor, about.st_size)
                self._room -= len(self._kept[name])
            return about
        finally:
            os.close(descriptor)


def _read_all(descriptor: int, size: int) -> bytes:
    """Return the content of a file as far as it went when it was opened."""
    content = b""
    while len(content) < size and (block := os.read(descriptor, size - len(content))):
        content += block
    return content


class CodeFolders:
    """The folders of code that one command examines, each once."""

    def __init__(self) -> None:
        self._folders: dict[str, CodeFolder] = {}

    def at(self, path: str) -> CodeFolder:
        """Return the folder at ``path``; it is not read before something of it is asked for."""
        return self._folders.setdefault(path, CodeFolder(Path(path)))

    def content(self, path: Path) -> bytes:
        """Return the content of a script, from a folder above it that is known, else its own.

        Raises OSError or ValueError, also for a very large one.
        """
        folder = next((parent for parent in path.parents if str(parent) in self._folders), path.parent)
        return self.at(str(folder)).content(str(path.relative_to(folder)), _LARGEST_SCRIPT)
