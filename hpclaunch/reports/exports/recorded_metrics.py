"""The numbers of a run's metrics.jsonl by epoch, as other tools show them; it writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hpclaunch.core.json_values import finite
from hpclaunch.core.records import record

VALIDATION = "val_"
_LATEST = 2.0**36
"""Seconds since 1970; the year 4147, so that damaged lines give no time beyond the calendar."""
_NOT_NUMBERS = ("event", "time", "synthetic", "epoch", "epochs")


@record
class MetricPoint:
    """One number: when it was written (seconds since 1970), its step, which counts epochs from 1, and its name."""

    time: float
    step: int
    name: str
    value: float


def epoch_points(events: Iterable[Mapping[str, Any]]) -> list[MetricPoint]:
    """Return the numbers of every epoch, in the order of epochs; of an epoch that was repeated the last ones."""
    epochs: dict[int, Mapping[str, Any]] = {}
    for event in events:
        number = event.get("epoch")
        if event.get("event") == "epoch" and isinstance(number, int) and not isinstance(number, bool):
            epochs[number] = event
    return [point for number, event in sorted(epochs.items()) for point in _points_in(event, number)]


def result_points(events: Iterable[Mapping[str, Any]]) -> list[MetricPoint]:
    """Return the numbers of the run's result: its last event ``end``. Their step is the number of epochs."""
    last: Mapping[str, Any] = {}
    for event in events:
        last = event if event.get("event") == "end" else last
    epochs = last.get("epochs")
    return _points_in(last, epochs if isinstance(epochs, int) and not isinstance(epochs, bool) else 0)


def _points_in(event: Mapping[str, Any], step: int) -> list[MetricPoint]:
    time = finite(event.get("time")) or 0.0
    time = time if 0 <= time < _LATEST else 0.0
    names = (name for name in event if name not in _NOT_NUMBERS)
    return [
        MetricPoint(time=time, step=step, name=name, value=value)
        for name in names
        if (value := finite(event[name])) is not None
    ]
