"""Notes which functions of the watched files are called, in every Python process of a copy; see `reach.py`.

This file is copied into the copy's site-packages, beside a ``.pth`` file that imports it, so that programs that the
tests start have it too, whatever their environment is. ``reach_hook.json`` beside it tells what is watched and where
the notes go. It uses only the standard library, and never fails.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from types import FrameType
from typing import Any

_SETTINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reach_hook.json")


class Notes:
    """``current`` is the test, or the shared fixture, in which calls happen now."""

    def __init__(self, folder: str, watched: list[str]) -> None:
        self._folder = folder
        self._watched = frozenset(watched)
        self._seen: set[tuple[str, str, str]] = set()
        self.current = ""
        self.read_current()

    def read_current(self) -> None:
        try:
            with open(os.path.join(self._folder, "current"), encoding="utf-8") as file:
                self.current = file.read()
        except OSError:
            self.current = ""

    def write_current(self, current: str) -> None:
        """Say what runs now, also to the processes that begin from now on."""
        with open(os.path.join(self._folder, "current"), "w", encoding="utf-8") as file:
            file.write(current)
        self.current = current
        self.begin()

    def begin(self) -> None:
        """Note calls from now on. Python drops a trace function that fails, as any does near a RecursionError."""
        threading.settrace(self.see)
        sys.settrace(self.see)

    def see(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note a call. Returns nothing, so that the lines of the function are not traced."""
        code = frame.f_code
        if code.co_filename in self._watched and code.co_name != "<module>":
            call = (self.current, code.co_filename, code.co_name)
            if call not in self._seen:
                self._seen.add(call)
                self._write(call)

    def _write(self, call: tuple[str, str, str]) -> None:
        # Opened for each line: tests close the files of their children, and become other users.
        try:
            number = os.open(os.path.join(self._folder, "calls"), os.O_WRONLY | os.O_APPEND)
            try:
                os.write(number, (json.dumps(call) + "\n").encode())
            finally:
                os.close(number)
        except OSError:
            pass


def _begin() -> Notes | None:
    try:
        with open(_SETTINGS, encoding="utf-8") as file:
            notes = Notes(**json.load(file))
    except OSError:
        return None
    notes.begin()
    os.register_at_fork(after_in_child=notes.read_current)
    return notes


NOTES = _begin()
