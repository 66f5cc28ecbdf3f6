"""When a run began and ended, as its directory records it; no scheduler is asked."""

from __future__ import annotations

from datetime import datetime

from hpclaunch.core.files import read_text
from hpclaunch.runs import Run


def times_of(run: Run) -> tuple[float, float]:
    """Return when the first start of a run began and when the run ended, in seconds since 1970, as recorded."""
    history = [when for event in run.history() if (when := _seconds(str(event.get("time", "")))) is not None]
    submitted = _seconds(run.created) or 0.0
    starts = [when for name in run.attempts() if (when := _seconds(_started(run, name))) is not None]
    times = [float(event["time"]) for event in run.metrics() if isinstance(event.get("time"), int | float)]
    ended = max([*history, *times], default=submitted)
    return min(starts, default=submitted), ended


def _started(run: Run, attempt: str) -> str:
    return read_text(run.path / "attempts" / attempt / "started").strip()


def _seconds(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
