"""A terminal that shows whole screens and gives single keys; it always leaves the terminal as it found it.

It writes the sequences of ECMA-48 and of xterm's alternate screen, which every terminal of today has, over ssh and in
tmux too. Only lines that changed are written.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import termios
import tty
from collections.abc import Callable, Mapping
from types import FrameType, TracebackType
from typing import Any

from hpclaunch.cli.show.console import Lines, add_codes

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
"""The alternate screen, no cursor, no line wrapping, an empty screen."""
_LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_LETTERS = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
_NUMBERS = {"1": "home", "4": "end", "5": "pageup", "6": "pagedown", "7": "home", "8": "end"}
_KEYS = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x1b": "escape"}
_KEYS |= {f"\x1b{sign}{letter}": name for sign in "[O" for letter, name in _LETTERS.items()}
_KEYS |= {f"\x1b[{number}~": name for number, name in _NUMBERS.items()}
"""What terminals send for keys: xterm's control sequences ("PC-Style Function Keys"), those of rxvt and the console."""
_SEQUENCE = re.compile("\x1b(?:\\[[0-9;?]*[A-Za-z~]|O[A-Za-z])")
_BEGUN = re.compile("\x1b(?:\\[[0-9;?]*|O)?\\Z")
_SPLIT_S = 0.05
"""For so long the rest of a key's sequence may come later than its beginning."""
_FALLBACK = (80, 24)


class ScreenEnded(Exception):
    """The terminal is gone, or the process is to end. ``code``: the exit code, 128 and the signal."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def is_usable(environment: Mapping[str, str]) -> bool:
    """Whether stdin and stdout are a terminal that shows screens, and the person wants them: NO_COLOR wants lines."""
    wants = not environment.get("NO_COLOR") and environment.get("TERM", "dumb") not in ("", "dumb", "unknown")
    return wants and os.isatty(0) and os.isatty(1)


def decode_keys(text: str) -> tuple[list[str], str]:
    """Return the keys in what a terminal sent, and the rest, which is the beginning of a key's sequence."""
    keys: list[str] = []
    while text:
        if _BEGUN.match(text):
            return keys, text
        found = _SEQUENCE.match(text)
        sent = found[0] if found else text[0]
        text = text[len(sent) :]
        name = _KEYS.get(sent, sent if len(sent) == 1 and sent.isprintable() else "")  # others are no keys
        keys += [name] if name else []
    return keys, ""


class Screen:
    """The terminal of stdin and stdout, between ``__enter__`` and ``__exit__``. ``ascii``: it knows no others."""

    def __init__(self, ascii: bool = False) -> None:
        self.ascii = ascii
        self._before: list[Any] = []
        self._handlers: dict[int, Any] = {}
        self._drawn: list[str] = []
        self._typed = ""
        self._is_to_suspend = False
        self._waker, self._alarm = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Screen:
        self._before = termios.tcgetattr(0)
        handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {
            signal.SIGHUP: _end,
            signal.SIGTERM: _end,
            signal.SIGWINCH: lambda number, _: self.wake(),
            signal.SIGTSTP: lambda number, _: self._ask_to_suspend(),
        }
        try:
            for number, handler in handlers.items():
                self._handlers[number] = signal.signal(number, handler)
            self._enter()
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _restore(self) -> None:
        for number in (signal.SIGHUP, signal.SIGTERM):  # nothing may interrupt what follows
            signal.signal(number, signal.SIG_IGN)
        self._leave()
        for restored, handler in self._handlers.items():
            signal.signal(restored, handler)
        # The pipe stays open: a thread may still call `wake`, and its number must not be that of another file.

    def _enter(self) -> None:
        tty.setcbreak(0, termios.TCSANOW)
        self._drawn = []
        self._write(_ENTER)

    def _leave(self) -> None:
        """Leave the terminal as it was; one that is gone needs nothing."""
        with contextlib.suppress(OSError, ScreenEnded):
            self._write(_LEAVE)
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(0, termios.TCSANOW, self._before)

    def _ask_to_suspend(self) -> None:
        self._is_to_suspend = True  # not here: a half of a screen may have been written
        self.wake()

    def _suspend(self) -> None:
        """Stop as Ctrl-Z asks, with the terminal as it was, and draw everything again when the process continues."""
        self._is_to_suspend = False
        self._leave()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        self._enter()

    def wake(self) -> None:
        """End a wait for keys; any thread may call it."""
        with contextlib.suppress(OSError):  # it is full: then it wakes anyway
            os.write(self._alarm, b"\0")

    def size(self) -> tuple[int, int]:
        """Return the columns and the lines of the terminal."""
        try:
            found = os.get_terminal_size(1)
        except OSError:
            return _FALLBACK
        return (found.columns or _FALLBACK[0], found.lines or _FALLBACK[1])

    def draw(self, lines: Lines) -> None:
        """Show these lines. Raises ScreenEnded if the terminal is gone."""
        texts = ["".join(add_codes(text, style) for text, style in line) for line in lines]
        if len(texts) != len(self._drawn):
            self._write("\x1b[2J")
            self._drawn = [""] * len(texts)
        changed = [(number, text) for number, text in enumerate(texts, 1) if text != self._drawn[number - 1]]
        # The line is emptied before it is written: after its last column some terminals would empty that.
        self._write("".join(f"\x1b[{number};1H\x1b[K{text}" for number, text in changed))
        self._drawn = texts

    def redraw(self) -> None:
        """Draw everything the next time: the terminal has another size, or something else wrote on it."""
        self._drawn = []

    def keys(self, seconds: float) -> list[str]:
        """Return the keys that were typed; waits for them for so long at most, and not after a call of `wake`.

        Raises ScreenEnded if the terminal is gone.
        """
        ready, _, _ = select.select([0, self._waker], [], [], _SPLIT_S if self._typed else seconds)
        if self._waker in ready:
            with contextlib.suppress(OSError):
                os.read(self._waker, 4096)
        if self._is_to_suspend:
            self._suspend()
            return []
        if 0 in ready:
            try:
                content = os.read(0, 1024)
            except OSError:
                content = b""
            if not content:
                raise ScreenEnded(128 + signal.SIGHUP)
            keys, self._typed = decode_keys(self._typed + content.decode("utf-8", errors="ignore"))
            return keys
        if self._typed and self._waker not in ready:  # nothing followed
            self._typed = ""
            return ["escape"]
        return []

    def _write(self, text: str) -> None:
        content = memoryview(text.encode("ascii" if self.ascii else "utf-8", errors="replace"))
        try:
            while content:
                content = content[os.write(1, content) :]
        except OSError:
            raise ScreenEnded(128 + signal.SIGHUP) from None


def _end(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough
    raise ScreenEnded(128 + number)
