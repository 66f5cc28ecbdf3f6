"""Notes what ends a training early: signals (walltime, preemption), and a later start of the run; saves nothing."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Iterable, Iterator

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


AGREE_STEPS = 20  # between two agreements of the ranks on whether to stop


def agreed(world: World, step: int) -> bool:
    """Whether any rank was asked to stop; asked every few steps, at the same step on all ranks. A collective.

    The signal reaches ranks at different steps, and all must save the same one. Then raise `saved`. Raises Superseded
    if a later start has taken the run over.
    """
    return step % AGREE_STEPS == 0 and concluded(world, world.gather(state(world)))


def epochs(world: World, first: int, end: int) -> Iterator[int]:
    """The numbers first..end-1 of the epochs; if a rank was asked to stop, raises RunAgain before the next one begins.

    Each epoch must end with a checkpoint. Raises Superseded as `agreed`. A collective.
    """
    for number in range(first, end):
        if number > first and concluded(world, world.gather(state(world))):
            raise failure.RunAgain("asked to stop; saved after epoch {}".format(number), speaks=world.is_root)
        yield number


def saved(world: World, step: int) -> failure.RunAgain:
    """The end of a rank that was asked to stop, and has saved."""
    return failure.RunAgain("asked to stop; saved at step {}".format(step), speaks=world.is_root)


def _note(number: int, frame: Any) -> None:
    _asked.append(number)
