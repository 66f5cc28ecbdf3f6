"""Measures how long a backward pass of DistributedDataParallel waits for the other ranks; it changes no gradient.

The hook of the parameter whose gradient is ready last marks the end of this rank's own work. DistributedDataParallel
puts its wait for the averaged gradients at the end of the backward pass; a callback after it marks the end of the wait.
"""

from __future__ import annotations

import time
from typing import Any, Callable

import torch

MILLI = 1e-3


class TorchExchange:
    """Sums the seconds from a rank's own gradients to the averaged ones, over the steps so far.

    model: a torch.nn.Module on `device`, before DistributedDataParallel holds it. The first backward pass shows which
    gradient is the last, and is not measured.
    """

    def __init__(self, model: Any, device: Any) -> None:
        self._stamp = _Events() if device.type == "cuda" else _Clock()
        self._passes = self._measured = 0
        self._total = 0.0
        self._open: list[Any] = []
        self._ended: list[Any] = []
        self._last: Any = None
        self._hooks = {one: one.register_hook(self._hook(one)) for one in model.parameters() if one.requires_grad}

    def step_ended(self) -> None:
        """After a step; a GPU may still compute it."""
        self._passes += 1
        if self._passes == 1:
            for parameter, hook in self._hooks.items():
                if parameter is not self._last:
                    hook.remove()
        elif self._open:
            self._measured += 1
            self._ended += self._open
            self._add_up(self._stamp.has_passed)
        self._open = []

    @property
    def seconds(self) -> float | None:
        """None if the last gradient was missing in a step: then other gradients were the last ones there.

        Waits until a GPU has made all steps.
        """
        self._add_up(self._stamp.wait)
        return self._total if self._measured == max(0, self._passes - 1) else None

    def _add_up(self, is_known: Callable[[Any], bool]) -> None:
        while self._ended and is_known(self._ended[0][1]):
            self._total += self._stamp.seconds(*self._ended.pop(0))

    def _hook(self, parameter: Any) -> Any:
        def ready(gradient: Any) -> None:
            self._last = parameter
            if self._passes:
                began = self._stamp.now()
                engine = torch.autograd.Variable._execution_engine
                # Callbacks run in their order. This one adds the next after that of DistributedDataParallel.
                engine.queue_callback(lambda: engine.queue_callback(lambda: self._note_end(began)))

        return ready

    def _note_end(self, began: Any) -> None:
        self._open.append((began, self._stamp.now()))


class _Clock:
    """Stamps of a CPU, which waits for what it computes."""

    now = staticmethod(time.perf_counter)

    @staticmethod
    def has_passed(stamp: float) -> bool:
        return True

    wait = has_passed

    @staticmethod
    def seconds(began: float, ended: float) -> float:
        return ended - began


class _Events:
    """Stamps in the queue of a GPU."""

    @staticmethod
    def now() -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    @staticmethod
    def has_passed(stamp: Any) -> bool:
        return bool(stamp.query())

    @staticmethod
    def wait(stamp: Any) -> bool:
        stamp.synchronize()
        return True

    @staticmethod
    def seconds(began: Any, ended: Any) -> float:
        return float(began.elapsed_time(ended)) * MILLI
