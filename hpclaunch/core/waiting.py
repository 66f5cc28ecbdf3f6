"""Waits for another program for a bounded time, and says after two seconds what hpclaunch waits for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, AnyStr

from hpclaunch.core.errors import shorten

if TYPE_CHECKING:
    from subprocess import Popen

_PATIENCE_S = 2.0
_LONGEST = 500
"""Characters of a command that are shown."""
_listeners: list[Callable[[str], None]] = []
_observers: list[Callable[[str], None]] = []


def report_to(tell: Callable[[str], None]) -> None:
    """From now on give every message to ``tell``. Without this the messages are dropped."""
    _listeners[:] = [tell]


def report_programs_to(tell: Callable[[str], None] | None) -> None:
    """From now on give every ended program to ``tell``: its arguments, time and exit code. None: report no more."""
    _observers[:] = [tell] if tell else []


def communicate(
    process: Popen[AnyStr], name: str, seconds: float, content: AnyStr | None = None, patience: float = _PATIENCE_S
) -> tuple[AnyStr, AnyStr]:
    """Return the output of a process and its messages, as ``Popen.communicate``; ``name`` is the program's.

    Raises TimeoutExpired after ``seconds``; the process is still running then.
    """
    from subprocess import TimeoutExpired  # a start that runs no program does without this module

    began = time.monotonic()
    try:
        try:
            return process.communicate(content, timeout=min(patience, seconds))
        except TimeoutExpired:
            if seconds <= patience:
                raise
        for tell in _listeners:
            tell(f"waiting for {name} ...")
        return process.communicate(timeout=seconds - patience)
    finally:
        for tell in _observers:
            tell(_describe(process, time.monotonic() - began))


def _describe(process: Popen[AnyStr], seconds: float) -> str:
    words = [process.args] if isinstance(process.args, str | bytes | os.PathLike) else process.args
    command = shorten(" ".join(os.fsdecode(word) for word in words), _LONGEST)
    code = "no answer" if process.returncode is None else f"exit code {process.returncode}"
    return f"{command}: {seconds:.2f} s, {code}"
