"""The values of a metric that a trial reports: lines of its metrics.jsonl with that name, read as they are written."""

from __future__ import annotations

import json
import math
from pathlib import Path

from hpclaunch.runs.start_numbers import NewestStart


class Reports:
    """Follows the metrics of one trial. A step is the number of the epoch or the step in the line, else the line's."""

    def __init__(self, path: Path, metric: str) -> None:
        self._path, self._metric = path, metric
        self._place = self._lines = 0
        self._starts = NewestStart()
        self.value: float | None = None
        """The last value that was reported."""

    def read(self) -> list[tuple[int, float]]:
        """Return (step, value) of every report since the last call."""
        found = []
        for line in self._new_lines():
            self._lines += 1
            if self._metric.encode() not in line:
                continue
            try:
                event = json.loads(line)
                value = float(event[self._metric])
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                continue
            if math.isfinite(value) and self._starts.has(event):
                self.value = value
                found.append((self._step(event), value))
        return found

    def _step(self, event: dict[str, object]) -> int:
        for name in ("epoch", "step"):
            number = event.get(name)
            if isinstance(number, int | float) and 0 <= number < 2**53:
                return int(number)
        return self._lines

    def _new_lines(self) -> list[bytes]:
        try:
            with open(self._path, "rb") as file:
                file.seek(self._place)
                content = file.read()
        except OSError:
            return []
        lines = content.split(b"\n")
        self._place += len(content) - len(lines.pop())
        return lines
