"""Several ranks in one process: each is a thread, and their collectives are meetings of the threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World

PATIENCE_S = 300  # a rank that is missing from a collective ends the test


class Meeting:
    """Where the ranks of one world put what they share."""

    def __init__(self, size: int) -> None:
        self.size, self.barrier, self._values = size, threading.Barrier(size, timeout=PATIENCE_S), [None] * size

    def gather(self, rank: int, value: Any) -> list[Any]:
        self._values[rank] = value
        self.barrier.wait()
        found = list(self._values)
        self.barrier.wait()
        return found


@dataclass(frozen=True)
class RankInThread(World):
    """A rank whose `gather` meets the other threads."""

    meeting: Meeting = field(default_factory=lambda: Meeting(1))

    def gather(self, value: Any) -> list[Any]:
        return self.meeting.gather(self.rank, value)


def on_ranks(size: int, run_dir: Path, work: Callable[[World], Any], per_node: int = 0) -> list[Any]:
    """Run `work` on `size` ranks at the same time; what it returns on each, or the AgreedError, by rank.

    per_node: the ranks of one node; without it all ranks are on one. The nodes are called node0, node1, ...
    """
    meeting, per_node = Meeting(size), per_node or size

    def one(rank: int) -> Any:
        node, local = divmod(rank, per_node)
        world = RankInThread(rank, size, local, per_node, f"node{node}", "CPU", 1, str(run_dir), meeting=meeting)
        try:
            return work(world)
        except AgreedError as error:
            return error
        except BaseException:
            meeting.barrier.abort()  # else the others would wait
            raise

    # Python 3.11 counts the depth of an expression for all threads together: a switch while NumPy reads the head of a
    # file would be an error ("AST constructor recursion depth mismatch"). So a thread goes on until it waits.
    usual = sys.getswitchinterval()
    sys.setswitchinterval(60)
    try:
        with ThreadPoolExecutor(size) as threads:
            return list(threads.map(one, range(size)))
    finally:
        sys.setswitchinterval(usual)
