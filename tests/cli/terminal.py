"""A terminal for programs that draw screens: a pseudo-terminal, and what a person would see on it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.cli.conftest import PATIENCE

_SEQUENCE = re.compile("\x1b\\[([?0-9;]*)([A-Za-z])")


class Picture:
    """The characters on a screen. It knows the sequences that hpclaunch writes, and fails at any other."""

    def __init__(self, columns: int, lines: int) -> None:
        self.is_alternate = False
        self.cursor_shown, self.wraps = True, True
        self.resize(columns, lines)

    def resize(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self._clear()

    def _clear(self) -> None:
        self._cells = [[" "] * self.columns for _ in range(self.lines)]
        self._row = self._column = 0

    def rows(self) -> list[str]:
        return ["".join(row).rstrip() for row in self._cells]

    def take(self, text: str) -> str:
        """Take what a program wrote; return the beginning of a sequence at its end."""
        while text:
            if text[0] == "\x1b":
                found = _SEQUENCE.match(text)
                if found is None:
                    assert len(text) < 12, f"not a sequence: {text[:20]!r}"
                    return text
                self._obey(found[1], found[2])
                text = text[found.end() :]
                continue
            self._put(text[0])
            text = text[1:]
        return ""

    def _put(self, sign: str) -> None:
        if sign == "\r":
            self._column = 0
        elif sign == "\n":
            self._row = min(self._row + 1, self.lines - 1)
        elif sign == "\t":
            self._column = (self._column // 8 + 1) * 8
        else:
            assert sign.isprintable(), repr(sign)
            if self._row < self.lines and self._column < self.columns:
                self._cells[self._row][self._column] = sign
            self._column += 1

    def _obey(self, numbers: str, letter: str) -> None:
        if numbers.startswith("?"):
            on = letter == "h"
            if numbers == "?1049":
                self.is_alternate = on
                self._clear()
            elif numbers == "?25":
                self.cursor_shown = on
            else:
                assert numbers == "?7", numbers
                self.wraps = on
        elif letter == "H":
            row, _, column = numbers.partition(";")
            self._row, self._column = int(row) - 1, int(column) - 1
        elif letter == "K" and self._row < self.lines:
            self._cells[self._row][self._column :] = [" "] * (self.columns - self._column)
        elif (numbers, letter) == ("2", "J"):
            self._clear()
        else:
            assert letter in "mK", (numbers, letter)


class Terminal:
    """A program in a session of its own, whose terminal this is."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], size: tuple[int, int] = (80, 24)
    ) -> None:
        self.picture = Picture(*size)
        self._rest = ""
        self.written = ""
        self.process, self._end = pty.fork()
        if self.process == 0:
            try:
                _resize(0, size)
                os.chdir(folder)
                os.execve(command[0], list(command), dict(environment))
            finally:
                os._exit(127)
        self.before = termios.tcgetattr(self._end)
        self.code: int | None = None

    def resize(self, columns: int, lines: int) -> None:
        """Give the window another size, as a person does."""
        self.read(0.0)
        self.picture.resize(columns, lines)
        _resize(self._end, (columns, lines))

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def read(self, seconds: float = 0.2) -> None:
        """Take what the program writes within the next seconds."""
        if self._end < 0 or not select.select([self._end], [], [], seconds)[0]:
            return
        try:
            content = os.read(self._end, 2**16)
        except OSError:  # the program has closed its end
            content = b""
        if not content:
            self._reap()
            return
        text = content.decode("utf-8", errors="replace")
        self.written += text
        self._rest = self.picture.take(self._rest + text)

    def lines(self) -> list[str]:
        """What the program has left on its lines: on a slow machine it shows for a while that it is at work."""
        written = self.written.replace("\r\n", "\n").rstrip("\n")
        return [line.rpartition("\r\x1b[K")[2] for line in written.split("\n")]

    def until(self, condition: Callable[[list[str]], object], what: str) -> list[str]:
        """Wait until the rows of the screen meet a condition, and return them."""
        deadline = time.monotonic() + PATIENCE
        while not condition(self.picture.rows()):
            shown = "\n".join(self.picture.rows())
            assert time.monotonic() < deadline and self.code is None, f"still not {what} (ended: {self.code}):\n{shown}"
            self.read()
        return self.picture.rows()

    def shows(self, words: str) -> list[str]:
        """Wait until some row has these words."""
        return self.until(lambda rows: any(words in row for row in rows), f"shows {words!r}")

    def settings(self) -> list[object]:
        """The settings of the terminal now."""
        return termios.tcgetattr(self._end)

    def hang_up(self) -> int:
        """Close the terminal, as a lost connection does, and return the exit code of the program."""
        os.close(self._end)
        self._end = -1
        return self._reap()

    def end(self) -> int:
        """Wait for the end of the program, and return its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self.code is None:
            assert time.monotonic() < deadline, "it does not end:\n" + "\n".join(self.picture.rows())
            self.read()
        return self.code

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process, number)

    def _reap(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while self.code is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                self.code = os.waitstatus_to_exitcode(status)
                break
            assert time.monotonic() < deadline, "it does not end"
            time.sleep(0.05)
        return self.code

    def close(self) -> None:
        """End the program if it still runs."""
        if self.code is None:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        if self._end >= 0:
            os.close(self._end)


def _resize(terminal: int, size: tuple[int, int]) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
