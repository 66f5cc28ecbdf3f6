"""Whether this rank was asked to stop (walltime, preemption), and a watch over steps that never end; saves nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

from hpclaunch.training.rank import failure

SIGNAL_VARIABLE = "HPCLAUNCH_SIGNAL"

_asked: list[int] = []


def watch() -> None:
    """From now on note SIGTERM and the signal of HPCLAUNCH_SIGNAL (such as USR2) instead of ending at once.

    Slurm sends SIGTERM on preemption, without any other signal before it. For the main thread alone, as Python wants.
    """
    for name in {"TERM", os.environ.get(SIGNAL_VARIABLE, "") or "TERM"}:
        number = getattr(signal, "SIG" + name, None)
        if number is None:
            raise failure.TrainingError("{}={}: not a signal's name".format(SIGNAL_VARIABLE, name))
        signal.signal(number, _note)


def is_asked() -> bool:
    """Whether such a signal has come."""
    return bool(_asked)


def _note(number: int, frame: Any) -> None:
    _asked.append(number)


class StepWatch:
    """Ends this rank when no step has ended for `seconds`, counted from the first one: then some rank hangs.

    A rank that hangs makes all others wait in a collective, to the end of the walltime; Horovod says which one it waits
    for, and ends nobody. Any rank but the hanging one can end the run.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = 0.0
        self._over = threading.Event()

    def step_ended(self) -> None:
        """Tell that a step has ended; the watch begins with the first."""
        begins = not self._last
        self._last = time.monotonic()
        if begins and self._seconds:
            threading.Thread(target=self._watch, name="step watch", daemon=True).start()

    def stop(self) -> None:
        """No more steps will come."""
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(min(5.0, self._seconds / 4)):
            if time.monotonic() - self._last > self._seconds:
                failure.leave(
                    1,
                    "{}: no step has ended for {:.0f} s: a rank hangs (Horovod's warnings above say which it waits for)"
                    ". Resume the run; --stall-minutes says how long to wait.".format(failure.who(), self._seconds),
                )
