"""Notes what ends a training early: signals (walltime, preemption), and a later start of the run; saves nothing."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Iterable

from hpclaunch.training.rank import failure, fence
from hpclaunch.training.rank.world import World

SIGNAL_VARIABLE = "HPCLAUNCH_SIGNAL"

LOOK_S = 10.0  # between two looks for a later start, so that a slow file system does not slow the steps down

_asked: list[int] = []
_looked_at = [-LOOK_S]


def watch() -> None:
    """From now on note SIGTERM and the signal of HPCLAUNCH_SIGNAL (such as USR2) instead of ending at once.

    On preemption Slurm sends only SIGTERM. Call it in the main thread, as Python requires.
    """
    for name in {"TERM", os.environ.get(SIGNAL_VARIABLE, "") or "TERM"}:
        number = getattr(signal, "SIG" + name, None)
        if number is None:
            raise failure.TrainingError("{}={} is not the name of a signal".format(SIGNAL_VARIABLE, name))
        signal.signal(number, _note)


def is_asked() -> bool:
    """Whether such a signal has come."""
    return bool(_asked)


def state(world: World) -> tuple[bool, bool]:
    """What a rank tells the others: whether it was asked to stop; rank 0 also, whether a later start has the run.

    Rank 0 looks for that every ten seconds at most; whatever writes looks itself (failure.leave_if_superseded).
    """
    now = time.monotonic()
    if not world.is_root or now - _looked_at[0] < LOOK_S:
        return is_asked(), False
    _looked_at[0] = now
    return is_asked(), fence.is_superseded()


def concluded(world: World, states: Iterable[tuple[bool, bool]]) -> bool:
    """Whether any rank was asked to stop. states: of all ranks. Raises Superseded on every rank if rank 0 says so.

    The ranks then end together, and not first when one of them would write.
    """
    states = list(states)
    if any(superseded for _, superseded in states):
        raise failure.Superseded(speaks=world.is_root)
    return any(asked for asked, _ in states)


def _note(number: int, frame: Any) -> None:
    _asked.append(number)
