"""Waits for another program for a bounded time and answer, and says after two seconds what hpclaunch waits for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hpclaunch.core.errors import shorten

if TYPE_CHECKING:
    from selectors import BaseSelector
    from subprocess import Popen

_PATIENCE_S = 2.0
_LONGEST = 500
"""Characters of a command that are shown."""
MOST_BYTES = 64 * 2**20
"""The most bytes that are read of any program: 100,000 lines of 640 bytes."""
_CHUNK = 2**16
_PIPE = 512
"""Bytes that a pipe which is ready takes at once (POSIX)."""
_listeners: list[Callable[[str], None]] = []
_observers: list[Callable[[str], None]] = []


class TooLong(Exception):
    """A program has written more than may be read of it; ``output`` and ``messages`` are what was read."""

    def __init__(self, most: int, output: bytes, messages: bytes) -> None:
        super().__init__(f"its answer has more than {most / 2**20:.3g} MiB")
        self.output, self.messages = output, messages


def report_to(tell: Callable[[str], None]) -> None:
    """From now on give every message to ``tell``. Without this the messages are dropped."""
    _listeners[:] = [tell]


def report_programs_to(tell: Callable[[str], None] | None) -> None:
    """From now on give every ended program to ``tell``: its arguments, time and exit code. None: report no more."""
    _observers[:] = [tell] if tell else []


def communicate(
    process: Popen[bytes],
    name: str,
    seconds: float,
    content: bytes = b"",
    patience: float = _PATIENCE_S,
    most: int = MOST_BYTES,
) -> tuple[bytes, bytes]:
    """Return the output of a process and its messages, as ``Popen.communicate``; ``name`` is the program's.

    Raises TimeoutExpired after ``seconds``, and TooLong after ``most`` bytes of both together; the process is still
    running then.
    """
    from subprocess import TimeoutExpired  # a start that runs no program does without this module

    began = time.monotonic()
    exchange = _Exchange(process, content, most)
    try:
        if not exchange.advance(began + min(patience, seconds)):
            for tell in _listeners if seconds > patience else ():
                tell(f"waiting for {name} ...")
            if not exchange.advance(began + seconds):
                raise TimeoutExpired(process.args, seconds, *exchange.read)
        return exchange.read
    finally:
        exchange.close()
        for tell in _observers:
            tell(_describe(process, time.monotonic() - began))


class _Exchange:
    """What goes to a process and comes from it. ``Popen.communicate`` would keep all of an answer without an end."""

    def __init__(self, process: Popen[bytes], content: bytes, most: int) -> None:
        from selectors import EVENT_READ, EVENT_WRITE, PollSelector

        self._process, self._rest, self._most = process, memoryview(content), most
        self._parts: dict[int, bytearray] = {}
        self._selector: BaseSelector = PollSelector()
        self._order = [stream.fileno() if stream else -1 for stream in (process.stdout, process.stderr)]
        for stream in (process.stdout, process.stderr):
            if stream:
                self._parts[stream.fileno()] = bytearray()
                self._selector.register(stream, EVENT_READ)
        if process.stdin and content:
            self._selector.register(process.stdin, EVENT_WRITE)
        elif process.stdin:
            process.stdin.close()

    @property
    def read(self) -> tuple[bytes, bytes]:
        """What has been read so far: output and messages."""
        output, messages = (bytes(self._parts.get(number, b"")) for number in self._order)
        return output, messages

    def advance(self, until: float) -> bool:
        """Read and write until the process has ended, which gives True, or until a moment (monotonic clock)."""
        from subprocess import TimeoutExpired

        while self._selector.get_map():
            ready = self._selector.select(max(0.0, until - time.monotonic()))
            if not ready:
                return False
            for key, _ in ready:
                self._write() if key.fileobj is self._process.stdin else self._read(key.fd)
        try:
            self._process.wait(max(0.0, until - time.monotonic()))
        except TimeoutExpired:
            return False
        return True

    def _write(self) -> None:
        stream = self._process.stdin
        assert stream is not None
        try:
            self._rest = self._rest[os.write(stream.fileno(), self._rest[:_PIPE]) :]
        except BrokenPipeError:  # it does not want to read more
            self._rest = self._rest[:0]
        if not self._rest:
            self._selector.unregister(stream)
            stream.close()

    def _read(self, number: int) -> None:
        piece = os.read(number, _CHUNK)
        if not piece:
            self._selector.unregister(number)
            return
        self._parts[number] += piece
        if sum(map(len, self._parts.values())) > self._most:
            raise TooLong(self._most, *self.read)

    def close(self) -> None:
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream:
                stream.close()


def _describe(process: Popen[bytes], seconds: float) -> str:
    words = [process.args] if isinstance(process.args, str | bytes | os.PathLike) else process.args
    command = shorten(" ".join(os.fsdecode(word) for word in words), _LONGEST)
    code = "no answer" if process.returncode is None else f"exit code {process.returncode}"
    return f"{command}: {seconds:.2f} s, {code}"
