"""Limits of a block that follows the instructions of a file."""

from __future__ import annotations

import resource
import signal

import pytest

from hpclaunch.core.resources import TooMuch, bounded


def test_a_block_ends_at_its_processor_time() -> None:
    with pytest.raises(TooMuch, match="processor time"), bounded(seconds=0.05):
        while True:
            pass


def test_a_block_ends_at_its_memory() -> None:
    with pytest.raises(TooMuch, match="needs more than 64 MB of memory"), bounded():
        bytearray(10**10)


def test_afterwards_there_is_no_limit_and_what_the_block_raises_is_raised() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA), signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(KeyError), bounded():
        raise KeyError
    assert (resource.getrlimit(resource.RLIMIT_DATA), signal.getsignal(signal.SIGVTALRM)) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
