"""The same question about many folders of a slow file system: asked about many at once, as each answer takes long."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

_FEW = 8
"""So few are asked one after the other, whatever that takes."""
_SLOW_S = 0.02
"""Seconds of one answer. Below, threads take longer than they save: they share one interpreter."""
_MOST_AT_ONCE = 128
_REMEMBERED_S = 60.0


class _Experience:
    """``slow_until``: until when, by the monotonic clock, this process expects answers to be slow."""

    slow_until = 0.0


_experience = _Experience()
Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


def answers(ask: Callable[[Thing], Answer], things: Iterable[Thing], slow_s: float = _SLOW_S) -> list[Answer]:
    """Return ``ask(thing)`` of every thing, in their order.

    After an answer that took more than ``slow_s`` seconds the rest is asked by threads, so that what waits for the file
    system waits at the same time; so are the next questions of this process, for a minute. ``ask`` starts no program.
    Whatever it raises is raised for the first thing that it concerns; the things after that may have been asked then.
    """
    left = deque(things)
    found: list[Answer] = []
    while left:
        if len(left) >= _FEW and time.monotonic() < _experience.slow_until:
            return found + _asked_at_once(ask, left)
        began = time.monotonic()
        found.append(ask(left.popleft()))
        now = time.monotonic()
        if now - began > slow_s:
            _experience.slow_until = now + _REMEMBERED_S
    return found


def _asked_at_once(ask: Callable[[Thing], Answer], things: deque[Thing]) -> list[Answer]:
    import threading

    waiting = deque(enumerate(things))
    found: dict[int, Answer] = {}
    failed: dict[int, BaseException] = {}

    def work() -> None:
        while True:
            try:
                number, thing = waiting.popleft()
            except IndexError:
                return
            try:
                found[number] = ask(thing)
            except BaseException as error:  # raised again by the thread that asked
                failed[number] = error

    threads = []
    for _ in range(min(_MOST_AT_ONCE, len(things)) - 1):
        thread = threading.Thread(target=work, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # a limit of processes: the threads that there are do the rest
            break
        threads.append(thread)
    work()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[min(failed)]
    return [found[number] for number in range(len(things))]
