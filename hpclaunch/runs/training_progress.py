"""How far a training has come, by the events in its metrics.jsonl, of which only what is new is read each time."""

from __future__ import annotations

import os
import stat
from collections import deque
from pathlib import Path
from typing import Any

from hpclaunch.core import inside
from hpclaunch.core.files import json_object
from hpclaunch.core.json_values import finite
from hpclaunch.core.records import record
from hpclaunch.runs.record import METRICS
from hpclaunch.runs.start_numbers import NewestStart

_BLOCK = 2**16
"""Bytes. Of a file that was not read before, only the first and the last block are read: the start, and the present."""
_MOST_NEW = 2**20
"""Bytes. What is more than this beyond the last reading is read like a file that was not read before."""
MOST_LOSSES = 120
_RECENT = 5
MOST_EPOCHS = 10**9


@record
class TrainingProgress:
    """How far a training has come.

    - ``epoch``: the number of whole epochs. ``epochs``: how many it will have; None if that is not known.
    - ``losses``: of the last epochs, at most `MOST_LOSSES`, oldest first.
    - ``epoch_s``: the seconds of a recent epoch, with what the program does between two of them; None before the first.
    - ``reported``: Unix seconds of the last epoch's end, by the clock of rank 0.
    """

    epoch: int = 0
    epochs: int | None = None
    losses: tuple[float, ...] = ()
    epoch_s: float | None = None
    reported: float | None = None

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds until the last epoch's end, if the others take as long; None if that is not known.

        ``now``: Unix seconds. The epoch that runs counts for what it has left, and for nothing if it takes longer.
        """
        if not self.epochs or self.epoch_s is None or self.reported is None:
            return None
        remaining = self.epochs - self.epoch
        if remaining <= 0:
            return 0.0
        return self.epoch_s * (remaining - 1) + max(0.0, self.epoch_s - max(0.0, now - self.reported))


class ProgressReader:
    """Reads the progress of one run directory, again and again."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._file: tuple[int, int] = (0, 0)
        self._begin()

    def _begin(self) -> None:
        self._offset = 0
        self._epochs: int | None = None
        self._losses: dict[int, float] = {}
        self._durations: deque[float] = deque(maxlen=_RECENT)
        self._epoch = 0
        self._reported: float | None = None
        self._starts = NewestStart()
        self.progress: TrainingProgress | None = None
        """What the last reading found; None without events."""

    def read(self) -> TrainingProgress | None:
        """Return the progress now; None if the program has written no event of a training."""
        try:
            about = os.lstat(f"{self._run_dir}/{METRICS}")
        except OSError:
            return self.progress
        if not stat.S_ISREG(about.st_mode) or about.st_size == self._offset:
            return self.progress
        if about.st_ino != self._file[0] or about.st_size < self._offset:
            self._begin()  # a further start has written the file again, without the epochs that it repeats
        self._file = (about.st_ino, about.st_size)
        try:
            self._read_new(about.st_size)
        except OSError:  # it is gone, or its file system fails; the next time may succeed
            return self.progress
        return self.progress

    def _read_new(self, size: int) -> None:
        with os.fdopen(inside.open_file(self._run_dir, METRICS), "rb", buffering=0) as file:
            place = self._offset
            if size - place > max(_MOST_NEW, 2 * _BLOCK) or (place == 0 and size > 2 * _BLOCK):
                if place == 0:
                    self._take(file.read(_BLOCK))
                place = size - _BLOCK
                file.seek(place)
                content = file.read(_BLOCK)
                cut = content.find(b"\n") + 1  # the rest of a line
                content, place = content[cut:], place + cut
            else:
                file.seek(place)
                content = file.read(size - place)
        whole = content.rfind(b"\n") + 1  # the last line may still be written
        self._offset = place + whole
        self._take(content[:whole])

    def _take(self, content: bytes) -> None:
        """Take the events of whole lines; a part of a line is none."""
        for line in content.split(b"\n"):
            if b'"epoch"' in line or b'"start"' in line:
                self._take_event(json_object(line.decode("utf-8", errors="replace")))
        if self._epochs is not None or self._epoch:
            self.progress = self._present()

    def _take_event(self, event: dict[str, Any]) -> None:
        if not self._starts.has(event):
            return
        if event.get("event") == "start":
            options = event.get("options")
            self._epochs = _whole_number(options.get("epochs")) if isinstance(options, dict) else self._epochs
            self._reported = None  # what lies between two starts is no part of an epoch
        elif event.get("event") == "epoch":
            epoch = _whole_number(event.get("epoch")) or self._epoch + 1  # other programs may not number them
            time, seconds, loss = (finite(event.get(name)) for name in ("time", "seconds", "loss"))
            if time is not None and self._reported is not None and epoch == self._epoch + 1:
                seconds = max(time - self._reported, 0.0)
            if seconds is not None:
                self._durations.append(seconds)
            self._losses = {n: value for n, value in self._losses.items() if n < epoch}  # repeated after a restart
            if loss is not None:
                self._losses[epoch] = loss
            if len(self._losses) > MOST_LOSSES:
                del self._losses[min(self._losses)]
            self._epoch, self._reported = epoch, time

    def _present(self) -> TrainingProgress:
        return TrainingProgress(
            epoch=self._epoch,
            epochs=self._epochs,
            losses=tuple(self._losses.values()),
            # The median; of two the shorter one, as the first epoch compiles.
            epoch_s=sorted(self._durations)[(len(self._durations) - 1) // 2] if self._durations else None,
            reported=self._reported,
        )


def _whole_number(value: Any) -> int | None:
    return value if type(value) is int and 0 < value <= MOST_EPOCHS else None
