"""stdin, stdout and stderr, each of which may be closed, full, or a pipe whose other end is gone."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from hpclaunch.cli.show import colour

_failed: set[str] = set()
"""The streams that failed once. They lead to the null device, so that what they still hold does not fail again."""
_CLEAR = b"\r\x1b[K"
_shown_line: list[bytes] = []
"""The line that `show_line` shows now, if any: what is written next takes its place."""
_open_line: list[bool] = [False]
"""Whether the last message on stderr has not ended its line, or somebody answers a question there."""
_quiet = [False]
"""Whether ``--quiet`` was typed."""
_verbose = [False]
"""Whether ``--verbose`` was typed."""
_lock = threading.RLock()
"""What one thread writes, another does not write into."""
_written = [time.monotonic()]
"""When the last message or data was written."""


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


def fit_terminals() -> None:
    """Let terminals without UTF-8 get signs of ASCII, and no stream fail at a sign that its encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        colour.fit(stream)


def write(content: bytes) -> None:
    """Write data to stdout. Raises OSError, whose file name is ``stdout``."""
    with _lock:
        end_line()
        _written[0] = time.monotonic()
        _write(sys.stdout, "stdout", content)


def allow_forks() -> None:
    """Let a process fork while another thread writes: the child gets no lock that nothing would release."""
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def be_quiet(quiet: bool) -> None:
    """From now on let ``console`` write no messages but errors, warnings and questions, or all of them."""
    _quiet[0] = quiet


def is_quiet() -> bool:
    """Whether errors, warnings and questions are the only messages."""
    return _quiet[0]


def be_verbose(verbose: bool) -> None:
    """From now on let a submission show each of its choices, or a summary of them."""
    _verbose[0] = verbose


def is_verbose() -> bool:
    """Whether all choices are to be shown."""
    return _verbose[0]


def silent_for() -> float:
    """Return for how many seconds nothing was written."""
    return time.monotonic() - _written[0]


@contextlib.contextmanager
def without_line() -> Iterator[None]:
    """Show no line at the end of stderr: somebody types there."""
    _open_line[0] = True
    try:
        yield
    finally:
        _open_line[0] = False


def tell(content: bytes) -> bool:
    """Write a message to stderr, and return whether that succeeded: a lost message stops nothing."""
    with _lock:
        if content and _shown_line:
            content = _CLEAR + content
            _shown_line.clear()
        if content:
            _open_line[0] = not content.endswith(b"\n")
            _written[0] = time.monotonic()
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
    with _lock, contextlib.suppress(OSError):
        if not _open_line[0] and _shown_line != [content]:
            _write(sys.stderr, "stderr", _CLEAR + content)
            _shown_line[:] = [content]


def end_line() -> None:
    """Remove the line that `show_line` shows."""
    with _lock, contextlib.suppress(OSError):
        if _shown_line:
            _shown_line.clear()
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


def is_coloured() -> bool:
    """Whether what is written to stdout gets colours."""
    return colour.is_coloured(is_terminal())


def tells_in_colour() -> bool:
    """Whether messages on stderr get colours."""
    return colour.is_coloured(tells_a_terminal())


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


def _encode(content: bytes, stream: TextIO) -> bytes:
    """Return the bytes for a stream: those of UTF-8, but what an ASCII terminal can show."""
    if content.isascii() or (stream.encoding or "").lower() != "ascii" or not stream.isatty():
        return content
    return content.decode("utf-8", errors="replace").encode("ascii", errors=colour.ERRORS)


def _write(stream: TextIO | None, name: str, content: bytes) -> None:
    try:
        if stream is None or name in _failed:
            raise OSError(errno.EBADF, "it is closed")
        stream.flush()
        stream.buffer.write(_encode(content, stream))
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
