"""Waits for another program for a bounded time, and says after two seconds what hpclaunch waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, AnyStr

if TYPE_CHECKING:
    from subprocess import Popen

_PATIENCE_S = 2.0
_listeners: list[Callable[[str], None]] = []


def report_to(tell: Callable[[str], None]) -> None:
    """From now on give every message to ``tell``. Without this nobody hears them."""
    _listeners[:] = [tell]


def communicate(
    process: Popen[AnyStr], name: str, seconds: float, content: AnyStr | None = None, patience: float = _PATIENCE_S
) -> tuple[AnyStr, AnyStr]:
    """Return the output of a process and its messages, as ``Popen.communicate``; ``name`` is the program's.

    Raises TimeoutExpired after ``seconds``; the process is still running then.
    """
    from subprocess import TimeoutExpired  # a start that runs no program does without this module

    try:
        return process.communicate(content, timeout=min(patience, seconds))
    except TimeoutExpired:
        if seconds <= patience:
            raise
    for tell in _listeners:
        tell(f"waiting for {name} ...")
    return process.communicate(timeout=seconds - patience)
