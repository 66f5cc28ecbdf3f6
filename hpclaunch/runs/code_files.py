"""Finds the files in a folder of code, without caches, virtual environments, earlier runs, and ignored files."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.core.errors import Fault
from hpclaunch.core.files import read_bytes
from hpclaunch.core.resources import TooMuch, bounded

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".hpclaunchignore"
MOST_LOOKED_AT = 100_000
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})
_RESULTS = frozenset({"runs", "checkpoints", "wandb"})
_FOREIGN = ("pyvenv.cfg", "conda-meta", "run.json")
"""What marks a folder as a virtual environment or an earlier run, not code."""
_LARGEST_IGNORE_FILE = 64 * 2**10
_SECONDS_TO_MATCH = 0.5
"""Processor time for all patterns, which is enough for 100,000 files: a hostile pattern could take for ever."""
_MEMORY = 256 * 2**20

Test = Callable[[str], bool]


class UnusableCode(OverflowError):
    """The code cannot be copied; ``fault`` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.what)
        self.fault = fault


class CodeFiles:
    """What is below a folder, as paths relative to it.

    ``names``: files, also those that links lead to. ``folder_links``: links to folders, which are not entered.
    ``links``: those of the names that are links themselves. ``closed``: what this user may not enter. ``entries``: all
    that the entered folders hold. ``is_part``: there is more than is looked at.
    """

    def __init__(self, folder: Path) -> None:
        self.names: list[str] = []
        self.folder_links: list[str] = []
        self.links: set[str] = set()
        self.entries: set[str] = set()
        self.closed: list[str] = []
        self.is_part = False
        self._folder = folder
        self._looked_at = 0

    def look(self, is_ignored: Test | None) -> None:
        """Find the files; folders that are ignored are not entered."""
        waiting = [""]
        while waiting and not self.is_part:
            waiting += sorted(self._look_into(waiting.pop(), is_ignored), reverse=True)
        self.names.sort()

    def _look_into(self, inside: str, is_ignored: Test | None) -> list[str]:
        """Add the files of one folder, and return its folders."""
        try:
            entries = list(os.scandir(self._folder / inside))
        except PermissionError:
            self.closed.append(inside)
            return []
        except OSError:
            return []
        if inside and any(entry.name in _FOREIGN for entry in entries):
            return []
        self._looked_at += len(entries)
        self.is_part = self._looked_at > MOST_LOOKED_AT
        folders: list[str] = []
        for entry in entries[:MOST_LOOKED_AT]:
            name = f"{inside}/{entry.name}" if inside else entry.name
            self.entries.add(name)
            with contextlib.suppress(OSError):  # a link that leads to nowhere, or where this user may not look
                if entry.is_dir():
                    folders += self._take_folder(entry, name, is_ignored)
                elif _is_file_of_code(entry) and not (is_ignored and is_ignored(name)):
                    self.names.append(name)
                    if entry.is_symlink():
                        self.links.add(name)
        return folders

    def _take_folder(self, entry: os.DirEntry[str], name: str, is_ignored: Test | None) -> list[str]:
        """Return a folder to look into; note one that is a link. Raises OSError."""
        if not _is_code(entry) or (is_ignored and is_ignored(f"{name}/")):
            return []
        if entry.is_symlink():
            self.folder_links.append(name)
            return []
        return [name]


def _is_file_of_code(entry: os.DirEntry[str]) -> bool:
    """Whether this is a file that can be copied. Raises OSError."""
    is_file = entry.is_file() and not entry.name.endswith(".pyc")
    return is_file and not (entry.is_symlink() and _is_of_kernel(entry.path))


def _is_code(folder: os.DirEntry[str]) -> bool:
    """Whether a folder can hold code: one with the name of a folder of results only if it is a package."""
    if folder.name in _RESULTS:
        return os.path.isfile(f"{folder.path}/__init__.py")
    return not folder.name.startswith(".") and folder.name not in _SKIPPED


def _is_of_kernel(path: str) -> bool:
    """Whether a link leads to a file that the kernel makes as it is read: it has no size, and may have no end.

    Those in /dev/shm are ordinary files, and a device is no file.
    """
    return os.path.realpath(path).startswith(("/proc/", "/sys/"))


def code_files(folder: Path) -> CodeFiles:
    """Return what is below the folder. Raises UnusableCode if its list of ignored files cannot be used."""
    found, ignored = CodeFiles(folder), _ignored_in(folder)
    try:
        with bounded(_SECONDS_TO_MATCH, _MEMORY) if ignored else contextlib.nullcontext():
            found.look(ignored.match_file if ignored else None)
    except TooMuch:
        raise _unusable_list(folder, f"its patterns take more than {_SECONDS_TO_MATCH:g} s") from None
    return found


def _ignored_in(folder: Path) -> GitIgnoreSpec | None:
    """Return the patterns of the folder's list of ignored files; None if it has none."""
    file = folder / IGNORE_FILE
    if not os.path.lexists(file):
        return None
    from pathspec import GitIgnoreSpec  # takes 15 ms

    try:
        lines = read_bytes(file, _LARGEST_IGNORE_FILE).decode("utf-8").splitlines()
        with bounded(_SECONDS_TO_MATCH):
            return GitIgnoreSpec.from_lines(lines)
    except re.error as error:  # such as [z-a], which the library gives to re as it is
        raise _unusable_list(folder, f"a pattern is damaged: {error.msg}") from None
    except (OSError, ValueError, TooMuch) as error:
        raise _unusable_list(folder, getattr(error, "strerror", None) or str(error)) from None


def _unusable_list(folder: Path, why: str) -> UnusableCode:
    what, allowed = f"the list of files that are not copied cannot be used: {why}", "patterns as in .gitignore"
    return UnusableCode(Fault(where=str(folder / IGNORE_FILE), what=what, allowed=allowed, next="correct it"))
