"""Shows a long text on a terminal in the user's pager; it decides nothing about the text."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess

from hpclaunch.cli.show import streams

_OPTIONS_OF_LESS = "FRX"
"""As git has them: a text that fits is only written, colours are shown, and the text stays on the screen."""


def show_long(text: str, lines: int) -> None:
    """Write a text to stdout; if it has more than ``lines`` lines and somebody can turn pages, through the pager."""
    content = text.encode("utf-8", errors="backslashreplace")
    words = _pager() if text.count("\n") >= lines and streams.has_keyboard() else []
    if not words or not _run(words, content):
        streams.write(content)


def _pager() -> list[str]:
    """Return the command line of the pager; nothing if there is none, or if PAGER is empty."""
    try:
        words = shlex.split(os.environ.get("PAGER", "less"))
    except ValueError:
        return []
    return words if words and shutil.which(words[0]) else []


def _run(words: list[str], content: bytes) -> bool:
    """Run the pager until the user leaves it; False if it cannot be started."""
    environment = {"LESS": _OPTIONS_OF_LESS, **os.environ}
    try:
        pager = subprocess.Popen(words, stdin=subprocess.PIPE, env=environment)
    except OSError:
        return False
    with contextlib.suppress(BrokenPipeError):  # the user left before the end
        assert pager.stdin is not None
        with pager.stdin:
            pager.stdin.write(content)
    while pager.returncode is None:
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C belongs to the pager
            pager.wait()
    return True
