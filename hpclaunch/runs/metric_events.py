"""The events of a run's metrics.jsonl as a stream of any length, thinned to what memory and a page can hold.

The first and the last event of each kind are kept, and between them events at even distances. How many there were is
counted, so that whoever shows them can say so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO, Generic, TypeVar

from hpclaunch.core import inside
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.files import LONGEST_LINE, json_object
from hpclaunch.core.records import record
from hpclaunch.runs.record import METRICS, Run
from hpclaunch.runs.start_numbers import NUMBER, NewestStart

MOST_EVENTS = 20_000
"""Events of each kind that are kept."""
MOST_KEPT = 16 * 2**20
"""Bytes of the lines of each kind that are kept; as values they take about ten times as much memory."""
LARGEST = 2**30
"""Bytes of metrics.jsonl, which are read in about 20 s. A larger file is refused."""
EPOCH = "epoch"
KINDS = ("start", "resume", "checkpoint", "noise_scale", "communication", "early_stop", "end")
"""The events that hpclaunch itself knows, besides those of epochs; a program may write thousands of its own."""

Item = TypeVar("Item")


class Thinned(Generic[Item]):
    """Members of a series: the first, the last, and others at even distances, as many as ``most`` and ``room`` allow.

    ``room`` is the sum of the sizes that `add` is given. At most twice as much is held meanwhile.
    """

    def __init__(self, most: int = MOST_EVENTS, room: int = MOST_KEPT) -> None:
        self.seen = 0
        self._most, self._room = max(most, 2), room
        self._every = 1
        self._held: list[tuple[int, Item, int]] = []
        self._size = 0
        self._last: tuple[int, Item, int] | None = None

    def add(self, item: Item, size: int) -> None:
        """Take the next member."""
        self._last = (self.seen, item, size)
        if self.seen % self._every == 0:
            self._held.append(self._last)
            self._size += size
            while (len(self._held) >= self._most or self._size > self._room) and len(self._held) > 1:
                self._every *= 2
                self._held = self._held[::2]
                self._size = sum(one[2] for one in self._held)
        self.seen += 1

    def kept(self) -> list[tuple[int, Item]]:
        """Return (place in the series, member) of what is kept, in order."""
        held = [*self._held]
        if self._last is not None and held[-1][0] != self._last[0]:
            held.append(self._last)
        return [(place, item) for place, item, _ in held]


@record
class MetricEvents:
    """The epochs and the other events of a run, in the order of the file, and how many there were of each.

    ``epochs`` and ``others`` may be fewer than ``epochs_seen`` and ``others_seen``: then they were thinned.
    """

    epochs: tuple[dict[str, Any], ...] = ()
    others: tuple[dict[str, Any], ...] = ()
    epochs_seen: int = 0
    others_seen: int = 0

    @property
    def everything(self) -> list[dict[str, Any]]:
        """All kept events; the others before the epochs."""
        return [*self.others, *self.epochs]

    def note(self) -> str:
        """Return in words what was left out; empty if nothing was."""
        counted = ((self.epochs, self.epochs_seen, "epochs"), (self.others, self.others_seen, "other events"))
        parts = [f"{len(kept):,} of {seen:,} {what}" for kept, seen, what in counted if len(kept) < seen]
        if not parts:
            return ""
        return f"{METRICS} is long: shown are {' and '.join(parts)}, the first, the last and some at even distances"


def metric_events(run: Run) -> MetricEvents:
    """Return the events of a run, thinned if they are many. Raises Refused for a file that is too large."""
    epochs: Thinned[dict[str, Any]] = Thinned()
    others: dict[str, Thinned[tuple[int, dict[str, Any]]]] = {kind: Thinned(MOST_EVENTS, MOST_KEPT) for kind in KINDS}
    for number, (line, event) in enumerate(metric_lines(run)):
        kind = event.get("event")
        if kind == EPOCH:
            epochs.add(event, len(line))
        elif isinstance(kind, str) and kind in others:
            others[kind].add((number, event), len(line))
    kept = sorted((item for one in others.values() for _, item in one.kept()), key=lambda item: item[0])
    return MetricEvents(
        epochs=tuple(event for _, event in epochs.kept()),
        others=tuple(event for _, event in kept),
        epochs_seen=epochs.seen,
        others_seen=sum(one.seen for one in others.values()),
    )


def metric_lines(run: Run) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield every line of metrics.jsonl that holds an object, and the object, however long the file is.

    A damaged or incomplete line, and one of a superseded start (`start_numbers`), is passed over. Raises Refused for a
    file of more than LARGEST bytes.
    """
    name = run.name_of(METRICS)
    try:
        file = os.fdopen(inside.open_file(run.home, name), "rb")
    except (OSError, ValueError):
        return
    starts = NewestStart()
    with file:
        _refuse_large(run, os.fstat(file.fileno()).st_size)
        for line, event in _lines_of(file):
            if starts.has(event):
                event.pop(NUMBER, None)
                yield line, event


def _refuse_large(run: Run, size: int) -> None:
    if size > LARGEST:
        what = f"has {size / 2**30:,.1f} GB, and at most {LARGEST / 2**30:g} GB of metrics are read"
        next_step = "keep a part of its lines, and let the program write fewer events"
        raise Refused(Fault(where=str(run.path / METRICS), what=what, next=next_step))


def _lines_of(file: BinaryIO) -> Iterator[tuple[bytes, dict[str, Any]]]:
    left = LARGEST
    try:
        while left > 0 and (line := file.readline(LONGEST_LINE)):
            left -= len(line)
            event = json_object(line.decode("utf-8", errors="replace"))
            if event:
                yield line, event
    except OSError:
        return
