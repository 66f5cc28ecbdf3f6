"""When a run began and ended, as its directory records it; no scheduler is asked."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hpclaunch.core import inside
from hpclaunch.runs import Run

_LATEST = 2.0**36
"""Seconds since 1970; the year 4147, so that damaged lines give no time beyond the calendar."""


def times_of(run: Run) -> tuple[float, float]:
    """Return when the first start of a run began and when the run ended, in seconds since 1970, as recorded."""
    history = [when for event in run.history() if (when := _seconds(str(event.get("time", "")))) is not None]
    submitted = _seconds(run.created) or 0.0
    starts = [when for name in run.attempts() if (when := _seconds(_time_of_start(run, name))) is not None]
    times = [when for event in run.metrics() if (when := _seconds_in(event.get("time"))) is not None]
    ended = max([*history, *times], default=submitted)
    return min(starts, default=submitted), ended


def _time_of_start(run: Run, attempt: str) -> str:
    return inside.read_text(run.home, run.name_of(f"attempts/{attempt}/started")).strip()


def _seconds_in(value: Any) -> float | None:
    """Return a number of an event as a time; None for one that no clock shows."""
    is_time = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LATEST
    return float(value) if is_time else None


def _seconds(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
