"""Locks between processes: by flock where the file system has it, else by files that only one process can make."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

_SECONDS = 10.0
"""A process that holds a lock for longer is stopped, or its node is dead."""
_LOCK_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
_TURNS = ".turns"
_FREE = "free"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Keep other processes of hpclaunch from changing the folder's files while the block runs.

    Yields whether the lock is held. It is not if another process holds it too long, or if this user may not write into
    a folder on a file system without flock. The block runs all the same: then the last process to write wins.
    """
    with contextlib.ExitStack() as stack:
        yield _lock(folder, stack)


def _lock(folder: Path, stack: contextlib.ExitStack) -> bool:
    """Wait for the lock, and keep it until the stack is closed; False if that fails."""
    # The folder itself is locked. NFS locks only files that are open for writing, so there a file in the folder is.
    for name, flags in ((str(folder), os.O_RDONLY | os.O_DIRECTORY), (f"{folder}/.lock", _LOCK_FILE)):
        try:
            descriptor = os.open(name, flags | os.O_CLOEXEC, 0o600)
            stack.callback(_close, descriptor)
            return _flock(descriptor)
        except OSError:
            continue  # no file, or no flock
    try:
        turns = f"{folder}/{_TURNS}"
        os.makedirs(turns, mode=0o700, exist_ok=True)
        stack.callback(_end_turn, turns, _wait_for_turn(turns))
        return True
    except OSError:
        return False


def _close(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.close(descriptor)


def _flock(descriptor: int) -> bool:
    """Take the lock; False if another process holds it for too long. Raises OSError if the file cannot be locked."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            _pause()


def _wait_for_turn(turns: str) -> int:
    """Return the number of this process's turn. Raises OSError if turns cannot be written.

    Turns are the files 1, 2, 3, …. Of two processes that see the same newest turn, only one can link the next. A turn
    never changes, and the newest is never removed. A turn that stays the newest for too long belongs to a dead process.
    """
    token = f"{os.uname().nodename} {os.getpid()} {os.urandom(8).hex()}"
    seen, since = "", time.monotonic()
    while True:
        newest = max(_numbers(turns), default=0)
        holder = f"{newest} {_turn_text(turns, newest)}"
        if holder != seen:
            seen, since = holder, time.monotonic()
        is_free = newest == 0 or holder == f"{newest} {_FREE}"
        if (is_free or time.monotonic() - since > _SECONDS) and _add_turn(turns, newest + 1, token):
            return newest + 1
        _pause()


def _numbers(turns: str) -> list[int]:
    return [int(name) for name in os.listdir(turns) if name.isascii() and name.isdigit()]


def _turn_text(turns: str, number: int) -> str:
    try:
        with open(f"{turns}/{number}", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _add_turn(turns: str, number: int, text: str) -> bool:
    """Write the turn of that number; False if another process was faster."""
    draft = f"{turns}/.{os.urandom(8).hex()}"
    try:
        with open(draft, "x", encoding="utf-8") as file:
            file.write(text)
        os.link(draft, f"{turns}/{number}")
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(draft)
    # A process that looked long ago may make a turn whose number was used and removed. Then a newer turn exists.
    others = [other for other in _numbers(turns) if other != number]
    is_newest = number > max(others, default=0)
    for name in others if is_newest else [number]:
        with contextlib.suppress(OSError):
            os.unlink(f"{turns}/{name}")
    return is_newest


def _end_turn(turns: str, number: int) -> None:
    with contextlib.suppress(OSError):  # the next process then waits until this turn is too old
        _add_turn(turns, number + 1, _FREE)


def _pause() -> None:
    """Wait for a moment of random length, so that two processes do not keep in step."""
    time.sleep(os.urandom(1)[0] / 10_000)
