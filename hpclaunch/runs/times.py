"""How long the last start of a run has taken, by the markers that its script writes; it asks no scheduler."""

from __future__ import annotations

import calendar
import time

from hpclaunch.core import inside
from hpclaunch.runs.markers import last_start, seconds_until_term
from hpclaunch.runs.record import Run


def began_at(run: Run) -> float | None:
    """Return the Unix seconds at which the last start of the present job began; None if it has not begun."""
    start = last_start(run)
    text = inside.read_text(run.home, run.name_of(f"attempts/{start}/started")).strip() if start else ""
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    except (ValueError, OverflowError):
        return None


def took(run: Run) -> float | None:
    """Return the seconds of the last start of a run that has ended; None if nothing says when it ended.

    Its end is that of its script, or the signal that asked it to end. A script that was killed leaves neither.
    """
    start, began = last_start(run), began_at(run)
    if began is None:
        return None
    ended = inside.changed_at(run.home, run.name_of(f"attempts/{start}/exit-code"))
    if ended is None:
        seconds = seconds_until_term(run)
        return None if seconds is None else float(seconds)
    return max(0.0, ended - began)
