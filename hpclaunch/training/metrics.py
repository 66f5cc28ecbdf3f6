"""Appends a run's events to metrics.jsonl, one JSON object per line; rank 0 writes, other ranks do nothing."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable

from hpclaunch.training.rank.failure import TrainingError


class MetricsLog:
    """`path` of the file, or None on ranks that do not write; `synthetic` marks every line.

    also: gets every event with its values, after it is in the file.
    """

    def __init__(
        self, path: str | None, synthetic: bool, also: Callable[[str, dict[str, Any]], None] | None = None
    ) -> None:
        self._path = path
        self._synthetic = synthetic
        self._also = also

    def write(self, event: str, **values: Any) -> None:
        """Append {"event", "time" (seconds since 1970), "synthetic", values}; raises TrainingError if that fails."""
        if self._path is None:
            return
        line = json.dumps({"event": event, "time": round(time.time(), 3), "synthetic": self._synthetic, **values})
        try:
            # A line is one write, so that a reader who follows the file never sees a part of it.
            with open(self._path, "ab", buffering=0) as file:
                file.write(line.encode("utf-8") + b"\n")
        except OSError as error:
            raise TrainingError("cannot write metrics: {}: {}".format(self._path, error.strerror)) from error
        if self._also is not None:
            self._also(event, values)


def metrics_log(
    run_dir: str, is_root: bool, synthetic: bool, also: Callable[[str, dict[str, Any]], None] | None = None
) -> MetricsLog:
    """The log of this rank for a run directory."""
    return MetricsLog(os.path.join(run_dir, "metrics.jsonl") if is_root else None, synthetic, also)
