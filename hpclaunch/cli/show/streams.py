"""stdin, stdout and stderr, each of which may be closed, full, or a pipe whose other end is gone."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TextIO

_failed: set[str] = set()
"""The streams that failed once. They lead to the null device, so that what they still hold does not fail again."""
_CLEAR = b"\r\x1b[K"
_shown_line: list[bytes] = []
"""The line that `show_line` shows now, if any: what is written next takes its place."""
_open_line: list[bool] = [False]
"""Whether the last message on stderr has not ended its line."""


def occupy_closed() -> None:
    """Open the null device in the place of each closed stream, so that no file of ours gets its number.

    A child process would use such a file as its stdout.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            with contextlib.suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


def write(content: bytes) -> None:
    """Write data to stdout. Raises OSError, whose file name is ``stdout``."""
    end_line()
    _write(sys.stdout, "stdout", content)


def tell(content: bytes) -> bool:
    """Write a message to stderr, and return whether that succeeded: a lost message stops nothing."""
    if content and _shown_line:
        content = _CLEAR + content
        _shown_line.clear()
    if content:
        _open_line[0] = not content.endswith(b"\n")
    try:
        _write(sys.stderr, "stderr", content)
    except OSError:
        return False
    return True


def show_line(text: str) -> None:
    """Show a line at the end of stderr, a terminal, until something else is written; it replaces the one before.

    While a message has not ended its own line, nothing is shown.
    """
    content = text.encode("utf-8", errors="backslashreplace")
    if _open_line[0] or _shown_line == [content]:
        return
    with contextlib.suppress(OSError):
        _write(sys.stderr, "stderr", _CLEAR + content)
        _shown_line[:] = [content]


def end_line() -> None:
    """Remove the line that `show_line` shows."""
    if _shown_line:
        _shown_line.clear()
        with contextlib.suppress(OSError):
            _write(sys.stderr, "stderr", _CLEAR)


def finish() -> None:
    """Write what libraries have left in the buffers of both streams. Raises OSError for stdout."""
    tell(b"")
    if sys.stdout is not None and "stdout" not in _failed:
        write(b"")


def drop_rest() -> None:
    """Flush both streams, and drop what they cannot write: Python would fail with it at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            _give_up(stream)


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def tells_a_terminal() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def columns() -> int:
    """Return the width of the terminal of stderr; 80 if it has none."""
    try:
        return (os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr is not None else 0) or 80
    except (OSError, ValueError):
        return 80


def has_keyboard() -> bool:
    """Whether somebody can answer a question: stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def _write(stream: TextIO | None, name: str, content: bytes) -> None:
    try:
        if stream is None or name in _failed:
            raise OSError(errno.EBADF, "it is closed")
        stream.flush()
        stream.buffer.write(content)
        stream.buffer.flush()
    except OSError as error:
        _give_up(stream)
        _failed.add(name)
        raise OSError(error.errno, error.strerror or str(error), name) from None


def _give_up(stream: TextIO | None) -> None:
    """Lead a failed stream to the null device; else Python reports it once more at its end."""
    with contextlib.suppress(OSError):
        if stream is not None:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
            stream.flush()
