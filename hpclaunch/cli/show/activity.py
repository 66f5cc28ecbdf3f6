"""A line at the end of a terminal while a command has been silent for two seconds: what works, and for how long."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hpclaunch.cli.show import colour, streams

_PATIENCE_S, _TICK_S = 2.0, 0.5
_WITH_LINES_OF_THEIR_OWN = ("watch", "wait", "shell", "logs", "docs")
_FLAGS_WITH_THEM = ("--wait", "--watch", "--here")


@contextmanager
def shown(words: Sequence[str]) -> Iterator[None]:
    """Show the line while a command runs; ``words`` are what was typed.

    Nothing is shown in a pipe, on a dumb terminal, with ``--quiet``, and for what has a line or a screen of its own.
    """
    if not is_wanted(words) or not (streams.tells_a_terminal() and colour.is_capable()):
        yield
        return
    streams.allow_forks()
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(words[0], ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        streams.end_line()


def is_wanted(words: Sequence[str]) -> bool:
    """Whether a command has no line and no screen of its own."""
    if not words or words[0].startswith("-") or words[0] in _WITH_LINES_OF_THEIR_OWN:
        return False
    return not set(words) & set(_FLAGS_WITH_THEM)


def text_of(verb: str, seconds: float) -> str:
    """Return the line after some seconds of work."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{verb} is at work for {f'{minutes} min ' if minutes else ''}{rest} s"


def _show(verb: str, ended: threading.Event) -> None:
    began = time.monotonic()
    while not ended.wait(_TICK_S):
        if streams.silent_for() >= _PATIENCE_S and not streams.is_quiet():
            streams.show_line(text_of(verb, time.monotonic() - began))
