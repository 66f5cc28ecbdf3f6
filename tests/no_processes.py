"""Fails a test that starts a process in a folder whose tests start none."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

STARTS = ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "pty.spawn", "subprocess.Popen")
"""What the interpreter calls each way to start a process (https://docs.python.org/3/library/audit_events.html).

It has no name for the method "spawn" of multiprocessing, which no test uses.
"""
# What libraries ask about the processor as they are imported: h5py (of TensorFlow) and numpy.testing.
_OF_LIBRARIES = (["uname", "-p"], ["lscpu"])


class _Watch:
    """``folder`` is where the test is that may start no process now; ``refused`` are the processes that it tried."""

    def __init__(self) -> None:
        self.folder = ""
        self.refused: list[str] = []
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder and event in STARTS and not any(words in arguments for words in _OF_LIBRARIES):
            self.refused.append(" ".join([event, *map(str, arguments[1:2] or arguments)])[:200])
            self.fail()

    def fail(self) -> None:
        pytest.fail(
            f"a test in tests/{self.folder} starts a process ({self.refused[0]}). Tests of what a script does belong "
            "in tests/script, and other tests that need a process in tests/processes."
        )


@cache
def _watch() -> _Watch:
    """The only one: an audit hook stays as long as the interpreter."""
    return _Watch()


@contextlib.contextmanager
def no_processes(folder: str) -> Iterator[None]:
    """Refuse every process that is to be started, and fail even where the tested code goes on without it."""
    watch = _watch()
    watch.folder, watch.refused = folder, []
    try:
        yield
        if watch.refused:
            watch.fail()
    finally:
        watch.folder = ""
