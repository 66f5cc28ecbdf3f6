"""stdin, stdout and stderr, each of which may be closed, full, or a pipe whose other end is gone."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TextIO

_failed: set[str] = set()
"""The streams that failed once. They lead to the null device, so that what they still hold does not fail again."""


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
    _write(sys.stdout, "stdout", content)


def tell(content: bytes) -> bool:
    """Write a message to stderr, and return whether that succeeded: a lost message stops nothing."""
    try:
        _write(sys.stderr, "stderr", content)
    except OSError:
        return False
    return True


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
