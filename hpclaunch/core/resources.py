"""Limits of processor time and memory for a block of code that follows the instructions of a file."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
from collections.abc import Iterator
from types import FrameType

MOST_SECONDS = 0.5
MOST_BYTES = 64 * 2**20


class TooMuch(Exception):
    """The block used more than its processor time or its memory."""


@contextlib.contextmanager
def bounded(seconds: float = MOST_SECONDS, size: int = MOST_BYTES) -> Iterator[None]:
    """Raise TooMuch if the block takes more processor time (seconds) or more additional memory (bytes).

    Outside the main thread, where no signal can be caught, the block runs without the limit of time.
    """
    has_timer = threading.current_thread() is threading.main_thread()
    limits = resource.getrlimit(resource.RLIMIT_DATA)
    before = signal.signal(signal.SIGVTALRM, _end_block) if has_timer else None
    try:
        _limit_data(_data_size() + size, limits)
        if has_timer:
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        yield
    except MemoryError:
        raise TooMuch(f"needs more than {size // 2**20} MB of memory") from None
    finally:
        if has_timer:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before or signal.SIG_DFL)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, limits)


def _end_block(number: int, frame: FrameType | None) -> None:
    raise TooMuch(f"takes more than {MOST_SECONDS} s of processor time")


def _data_size() -> int:
    """Return the bytes that count for RLIMIT_DATA: private writable memory (proc(5), statm)."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")


def _limit_data(most: int, limits: tuple[int, int]) -> None:
    soft, hard = limits
    known = [limit for limit in (most, soft, hard) if limit != resource.RLIM_INFINITY]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (min(known), hard))
