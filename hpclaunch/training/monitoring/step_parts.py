"""Divides the steps of an epoch into computing, communication and waiting for input; it needs no framework."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Sequence

from hpclaunch.training.rank.world import World

MOST_RANKS = 1024
"""The most ranks whose own steps an event lists."""


@dataclass(frozen=True)
class OwnSteps:
    """What one rank has measured of the steps of an epoch after the first, in seconds of all of them together.

    input_s: it waited for its batches. exchange_s: from its own gradients to those of all ranks, so the transfer that
    no computation hides and the wait for slower ranks; None if that cannot be measured.
    """

    steps: int
    seconds: float
    input_s: float
    exchange_s: float | None


def gathered(world: World, own: OwnSteps | None) -> dict[str, Any]:
    """The values for the event of an epoch, the same on every rank; empty if a rank has measured nothing. A collective.

    own: of this rank; None if its epoch has too few steps.
    """
    found = world.gather(None if own is None else (own.steps, own.seconds, own.input_s, own.exchange_s))
    if any(values is None for values in found):
        return {}
    return event_values([OwnSteps(*values) for values in found])


def event_values(ranks: Sequence[OwnSteps]) -> dict[str, Any]:
    """The means per step: over the ranks (step_seconds), and of each rank without its exchange (by_rank).

    The parts add up to the mean step, which is the same on all ranks. A rank's step without its exchange is the time
    that it needs itself. So the largest of them is that of the slowest rank, and its distance from their mean is the
    part of the communication in which ranks wait for it. Where the exchange is not known, only input_s is.
    """
    count = len(ranks)
    waits = sum(rank.input_s / rank.steps for rank in ranks) / count
    exchanges = [rank.exchange_s for rank in ranks]
    if any(seconds is None for seconds in exchanges):
        return {"input_s": round(waits, 7)}
    own = [(rank.seconds - seconds) / rank.steps for rank, seconds in zip(ranks, exchanges) if seconds is not None]
    whole = sum(rank.seconds / rank.steps for rank in ranks) / count
    parts = {
        "compute": round(max(0.0, sum(own) / count - waits), 7),
        "communication": round(max(0.0, whole - sum(own) / count), 7),
        "input": round(waits, 7),
    }
    by_rank = {"step_seconds_by_rank": [round(seconds, 7) for seconds in own]} if count <= MOST_RANKS else {}
    return {"step_seconds": parts, **by_rank}


class Waits:
    """Sums the seconds in which a loop waits for the next element of an iterator. clock: seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds = 0.0
        self._clock = clock

    def of(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same elements."""
        source = iter(batches)
        while True:
            began = self._clock()
            try:
                batch = next(source)
            except StopIteration:
                return
            finally:
                self.seconds += self._clock() - began
            yield batch


class Window:
    """The steps of an epoch after its first execution, which may compile.

    input_s, exchange_s: return the seconds since the start of the training, the second None if it is not measured.
    clock: seconds.
    """

    def __init__(
        self,
        input_s: Callable[[], float],
        exchange_s: Callable[[], float | None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._input_s, self._exchange_s, self._clock = input_s, exchange_s, clock
        self._first: tuple[int, float, float, float | None] | None = None
        self._last = (0, 0.0)

    def begin(self) -> None:
        """An epoch begins."""
        self._first = None

    def step_ended(self, step: int) -> None:
        """The step of this number has ended; of several steps in one execution, the last one."""
        if self._first is None:
            self._first = (step, self._clock(), self._input_s(), self._exchange_s())
        self._last = (step, self._clock())

    def own(self) -> OwnSteps | None:
        """What was measured; None before a second execution."""
        if self._first is None or self._last[0] == self._first[0]:
            return None
        step, began, waited, exchanged = self._first
        now = self._exchange_s()
        return OwnSteps(
            steps=self._last[0] - step,
            seconds=self._last[1] - began,
            input_s=self._input_s() - waited,
            exchange_s=None if now is None or exchanged is None else now - exchanged,
        )
