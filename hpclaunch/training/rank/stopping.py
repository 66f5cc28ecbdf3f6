"""Notes the signals that ask a rank to stop (walltime, preemption); saves nothing."""

from __future__ import annotations

import os
import signal
from typing import Any, Iterator

from hpclaunch.training.rank import failure
from hpclaunch.training.rank.world import World

SIGNAL_VARIABLE = "HPCLAUNCH_SIGNAL"

_asked: list[int] = []


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


AGREE_STEPS = 20  # between two agreements of the ranks on whether to stop


def agreed(world: World, step: int) -> bool:
    """Whether any rank was asked to stop; asked every few steps, at the same step on all ranks. A collective.

    The signal reaches ranks at different steps, and all must save the same one. Then raise `saved`.
    """
    return step % AGREE_STEPS == 0 and any(world.gather(is_asked()))


def epochs(world: World, first: int, end: int) -> Iterator[int]:
    """The numbers first..end-1 of the epochs; if a rank was asked to stop, raises RunAgain before the next one begins.

    Each epoch must end with a checkpoint. A collective.
    """
    for number in range(first, end):
        if number > first and any(world.gather(is_asked())):
            raise failure.RunAgain("asked to stop; saved after epoch {}".format(number), speaks=world.is_root)
        yield number


def saved(world: World, step: int) -> failure.RunAgain:
    """The end of a rank that was asked to stop, and has saved."""
    return failure.RunAgain("asked to stop; saved at step {}".format(step), speaks=world.is_root)


def _note(number: int, frame: Any) -> None:
    _asked.append(number)
