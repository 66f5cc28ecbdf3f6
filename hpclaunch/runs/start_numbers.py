"""Which lines of metrics.jsonl count: not those that a start wrote after a later one had taken the run over; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

NUMBER = "start_number"
"""The key under which a rank of the library writes the number of its start, as the last one of a line."""
_AT_THE_END = rf'(?m)"{NUMBER}": ([1-9][0-9]{{0,8}})}}$'


class NewestStart:
    """Knows the highest number in the lines so far."""

    def __init__(self) -> None:
        self._number = 0

    def has(self, event: Mapping[str, Any]) -> bool:
        """Whether no later start has written a line before this one. A line without a number counts."""
        number = number_of(event)
        self._number = max(self._number, number)
        return number in (0, self._number)


def of_newest(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the events that count, without their numbers. ``events``: oldest first, as they are in the file."""
    starts = NewestStart()
    for event in events:
        if starts.has(event):
            event.pop(NUMBER, None)
            yield event


def number_of(event: Mapping[str, Any]) -> int:
    """Return the number of the start that has written an event; 0 if it tells none."""
    number = event.get(NUMBER)
    return number if type(number) is int and number > 0 else 0


def highest_in(text: str) -> int:
    """Return the highest number in a text of whole lines, which are not parsed; 0 if there is none."""
    return max(map(int, re.findall(_AT_THE_END, text)), default=0)
