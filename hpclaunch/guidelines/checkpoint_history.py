"""What a run's checkpoints took, from its own events, against the best interval; pure.

A report shows it with ``advise_after``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from hpclaunch.core.json_values import finite
from hpclaunch.core.records import record
from hpclaunch.guidelines.checkpoints import CheckpointAdvice, Saving, advise_interval


@record
class SavedTimes:
    """The checkpoints of a run, in seconds.

    ``total_s``: all of them together. ``save_s``: the median of one, without the first, which also makes the folder.
    ``interval_s``: the median of training between two (None: there is one alone). ``share``: the part of the time
    between start and last event that went into saving (None: the events tell no time).
    """

    number: int
    total_s: float
    save_s: float
    interval_s: float | None
    share: float | None


def saved_times(events: Iterable[Mapping[str, Any]]) -> SavedTimes | None:
    """Return what the events ``checkpoint`` of a run's metrics.jsonl say; None if there is none that can be read.

    An event has ``seconds``, and ``time``: when it was written (seconds of the epoch). Between a checkpoint and the
    first one after a restart lies no interval.
    """
    found = [dict(event) for event in events]
    saves = [event for event in found if event.get("event") == "checkpoint" and _seconds_in(event) is not None]
    seconds = [_seconds_in(event) or 0.0 for event in saves]
    if not seconds:
        return None
    gaps = _intervals(found)
    times = [time for event in found if (time := finite(event.get("time"))) is not None]
    span = max(times) - min(times) if times else 0.0
    return SavedTimes(
        number=len(seconds),
        total_s=sum(seconds),
        save_s=median(seconds[1:] or seconds),
        interval_s=median(gaps) if gaps else None,
        share=sum(seconds) / span if span > 0 else None,
    )


def advise_after(
    events: Sequence[Mapping[str, Any]], nodes: int, mtbf_days: float | None, restart_s: float = 0.0
) -> tuple[SavedTimes, CheckpointAdvice] | None:
    """Return what saving took, and what the used interval is expected to lose against the best; None without events.

    ``nodes``, ``mtbf_days``: as ``advise_interval``. ``restart_s``: seconds from a start to its first step.
    """
    saved = saved_times(events)
    if saved is None:
        return None
    saving = Saving(save_s=saved.save_s, used_s=saved.interval_s, restart_s=restart_s)
    return saved, advise_interval(saving, nodes, mtbf_days)


def _intervals(events: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the seconds of training between two checkpoints of the same start."""
    gaps: list[float] = []
    before: float | None = None
    for event in events:
        kind, time = event.get("event"), finite(event.get("time"))
        if kind in ("start", "resume"):
            before = None
        elif kind == "checkpoint" and time is not None:
            gap = None if before is None else time - (_seconds_in(event) or 0.0) - before
            gaps += [gap] if gap is not None and gap > 0 else []
            before = time
    return gaps


def _seconds_in(event: Mapping[str, Any]) -> float | None:
    found = finite(event.get("seconds"))
    return found if found is not None and found > 0 else None
