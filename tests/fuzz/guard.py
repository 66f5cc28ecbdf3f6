"""Watches what the interpreter does while hostile input is read: it may start no program and write nowhere else."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.no_processes import STARTS

_REACHES = ("socket.connect", "socket.bind", "ctypes.dlopen", "pickle.find_class")
_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod")
_CHANGES += ("os.chown", "os.utime", "os.setxattr", "shutil.rmtree", "shutil.move", "shutil.copyfile")
_TWO_PLACES = ("os.rename", "os.symlink", "os.link", "shutil.move")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Guard:
    """``broken`` holds what was done and may not be, while ``armed``; ``allowed`` are the folders to write in."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self._allowed: tuple[str, ...] = ()
        self._programs: frozenset[str] = frozenset()
        self._armed = False
        sys.addaudithook(self._see)

    @contextlib.contextmanager
    def armed(self, *allowed: Path, programs: frozenset[str] = frozenset()) -> Iterator[None]:
        """Watch; afterwards fail if anything was done that may not be."""
        self._allowed = (*(str(folder) for folder in allowed), "/dev/null", sys.prefix, sys.base_prefix)
        self._programs = programs
        self._armed = True
        try:
            yield
        finally:
            self._armed = False
            broken, self.broken = self.broken, []
        assert broken == [], broken[:5]

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._armed:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITING and not isinstance(path, int) and self._is_elsewhere(path):
                self.broken.append(f"open {path!r} {flags:o}")
        elif event in _CHANGES:
            places = arguments[:2] if event in _TWO_PLACES else arguments[:1]
            if any(self._is_elsewhere(place) for place in places if not isinstance(place, int)):
                self.broken.append(f"{event} {arguments!r}")
        elif event == "ctypes.dlopen" and arguments[0] is None:
            return  # the C library of this process, which core/disk.py calls
        elif event in _REACHES or (event in STARTS and str(arguments[0]) not in self._programs):
            self.broken.append(f"{event} {arguments!r}"[:500])

    def _is_elsewhere(self, path: Any) -> bool:
        full = os.path.abspath(os.fsdecode(path))
        return not any(full == place or full.startswith(f"{place}/") for place in self._allowed)
