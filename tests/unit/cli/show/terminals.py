"""What a terminal gets of what is written to stdout and stderr."""

from __future__ import annotations

import errno
import os
import pty
import sys
from collections.abc import Callable, Sequence

import pytest

from hpclaunch.cli.show import streams


def on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
    show: Callable[[], object],
    *,
    names: Sequence[str] = ("stdout", "stderr"),
    **variables: str,
) -> bytes:
    """Return every byte that a terminal gets while ``show`` runs; what an earlier text left open does not count."""
    screen, inner = pty.openpty()
    with monkeypatch.context() as patch, os.fdopen(inner, "w", encoding="utf-8") as terminal:
        for name, value in variables.items():
            patch.setenv(name, value)
        for name in names:
            patch.setattr(sys, name, terminal)
        patch.setattr(streams, "_open_line", [False])
        patch.setattr(streams, "_shown_line", [])
        show()
        terminal.flush()
    with os.fdopen(screen, "rb", buffering=0) as outer:
        return _read_to_the_end(outer.fileno()).replace(b"\r\n", b"\n")


def _read_to_the_end(screen: int) -> bytes:
    """Read a terminal whose programs have all closed it: it then fails with EIO and never waits."""
    read = b""
    while True:
        try:
            part = os.read(screen, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return read
        if not part:
            return read
        read += part
