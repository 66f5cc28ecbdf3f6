"""Three functions by which any program tells its speed: begin, step, end. It needs Python 3.8 and nothing else.

A program imports it (``from hpclaunch.training import throughput``) or has a copy of this file. Rank 0 appends a line
to metrics.jsonl in the run directory about once a second; other ranks, and a program outside a run, write nothing.
"""

from __future__ import annotations

import json
import os
import time

EVERY_S = 1.0
"""Seconds of steps in a line, at least."""
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_SIZES = ("HPCLAUNCH_WORLD_SIZE", "WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


class _Window:
    """The steps since the last line."""

    def __init__(self) -> None:
        self.began = None  # type: float | None
        self.steps = 0
        self.samples = 0.0

    def begin(self) -> None:
        self.began, self.steps, self.samples = time.perf_counter(), 0, 0.0

    def write(self) -> None:
        """Append the line of these steps, if this rank writes."""
        folder = os.environ.get("HPCLAUNCH_RUN_DIR")
        if folder and self.began is not None and self.steps and _number(_RANKS, 0) == 0:
            line = {"event": "steps", "steps": self.steps, "seconds": round(time.perf_counter() - self.began, 6)}
            if self.samples:
                line["samples"] = self.samples * _number(_SIZES, 1)
            with open(os.path.join(folder, "metrics.jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


_window = _Window()


def _number(names: tuple[str, ...], otherwise: int) -> int:
    """The first of these variables that is a whole number."""
    found = (os.environ.get(name, "") for name in names)
    return next((int(text) for text in found if text.isdigit()), otherwise)


def begin() -> None:
    """Start the clock: before the first step, and again after a pause such as a validation."""
    _window.begin()


def step(samples: float = 0) -> None:
    """A step of this rank has ended; `samples`: those of this rank in it, 0 if only the steps count."""
    if _window.began is None:
        _window.begin()
        return
    _window.steps += 1
    _window.samples += samples
    if time.perf_counter() - _window.began >= EVERY_S:
        _window.write()
        _window.begin()


def end() -> None:
    """Write the steps since the last line, and stop the clock: after the last step, and before a pause."""
    _window.write()
    _window.began = None
