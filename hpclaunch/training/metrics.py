"""Appends a run's events to metrics.jsonl, one JSON object per line; rank 0 writes, other ranks do nothing.

JSON has no NaN and no infinity: such a value is null in the file, whatever the framework.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from typing import Any, Callable

from hpclaunch.training.rank import fence
from hpclaunch.training.rank.failure import TrainingError, leave_if_superseded

FILE = "metrics.jsonl"
NUMBER = "start_number"
VALIDATION_PREFIX = "val_"  # of the names of metrics of a validation
_LAST = 2**16  # bytes in which the number of the last start is looked for


class MetricsLog:
    """`path` of the file, or None on ranks that do not write; `synthetic` marks every line.

    began: the bytes of the file when this attempt began. also: gets every event with its values, after it is in the
    file. start: the number of the start in every line; 0:
    lines have none. Readers leave out a line with a lower number than one before it.
    """

    def __init__(
        self,
        path: str | None,
        synthetic: bool,
        also: Callable[[str, dict[str, Any]], None] | None = None,
        start: int = 0,
    ) -> None:
        self._path = path
        self.began = os.path.getsize(path) if path and os.path.exists(path) else None
        self._synthetic = synthetic
        self._also = also
        self._number = {NUMBER: start} if start else {}

    def write(self, event: str, **values: Any) -> None:
        """Append {"event", "time" (seconds since 1970), "synthetic", "start_number", values}.

        In a superseded start it ends the rank instead (rank.fence). Raises TrainingError if it cannot be written.
        """
        if self._path is None:
            return
        about = {"event": event, "time": round(time.time(), 3), "synthetic": self._synthetic}
        values = {name: _make_finite(value) for name, value in values.items()}
        line = json.dumps({**about, **values, **self._number}, allow_nan=False)
        leave_if_superseded()
        try:
            # A line is one write, so that a reader who follows the file never sees a part of it.
            with open(self._path, "ab", buffering=0) as file:
                file.write(line.encode("utf-8") + b"\n")
        except OSError as error:
            raise TrainingError("cannot write metrics: {}: {}".format(self._path, error.strerror)) from error
        if self._also is not None:
            self._also(event, values)


def _make_finite(value: Any) -> Any:
    """The same value for JSON, with None in place of each number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _make_finite(one) for name, one in value.items()}
    return [_make_finite(one) for one in value] if isinstance(value, (list, tuple)) else value


def metrics_log(
    run_dir: str, is_root: bool, synthetic: bool, also: Callable[[str, dict[str, Any]], None] | None = None
) -> MetricsLog:
    """The log of this rank for a run directory. Raises TrainingError if it cannot be written."""
    if not is_root:
        return MetricsLog(None, synthetic)
    path = os.path.join(run_dir, FILE)
    start = fence.number()
    if not start:
        return MetricsLog(path, synthetic, also)
    _copy_anew(path)
    # If somebody has removed the claims, the script counts from 1 again. Its lines must not look older than the others.
    return MetricsLog(path, synthetic, also, max(start, _last_start(path)))


def _copy_anew(path: str) -> None:
    """Put a copy in the place of the file, if there is one.

    A line that an earlier start has written when its node was cut off may reach the file server later. On NFS it is a
    write at an offset, where this start has a line by then. So it goes to the old file, which nobody reads any more.
    """
    leave_if_superseded()
    try:
        with open(path, "rb") as old, open(path + ".new", "wb") as new:
            shutil.copyfileobj(old, new)
            new.flush()
            os.fsync(new.fileno())
        os.replace(path + ".new", path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise TrainingError("cannot write metrics: {}: {}".format(path, error.strerror)) from error


def _last_start(path: str) -> int:
    """The highest number of a start in the last lines of the file; 0 if there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - _LAST))
            lines = file.read(_LAST).split(b"\n")
    except OSError:
        return 0
    return max(map(_start_in, lines))


def _start_in(line: bytes) -> int:
    try:
        number = json.loads(line)[NUMBER]
    except (ValueError, LookupError, TypeError, RecursionError):  # no whole line, or not ours
        return 0
    return number if type(number) is int and number > 0 else 0


def kept_bytes(run_dir: str) -> int:
    """The bytes of metrics.jsonl, which are then on the disk: a checkpoint continues them. 0 without the file."""
    try:
        with open(os.path.join(run_dir, FILE), "rb") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size
    except OSError:
        return 0
