"""The journals of a search's workers: one writer each, one event a line, and a reader that continues where it was."""

from __future__ import annotations

import contextlib
import os
import time

from hpclaunch.core.files import json_object, read_text, write_text
from hpclaunch.search.events import TrialBegin, TrialEnd, event_in
from hpclaunch.search.folder import SearchFolder
from hpclaunch.search.table import TrialTable
from hpclaunch.search.terms import SearchTerms
from hpclaunch.search.totals import Counting, JournalTotals, are_disjoint, text_of, totals_in

_SYNC_EVERY_S = 0.5
_COUNT_EVERY = 5_000
"""After so many events their totals are written: at most so many lines are read for a status."""
_BLOCK = 2**22


class JournalWriter:
    """Appends the events of one worker. A line is in the file after ``flush``; at most half a second later on the disk.

    What a killed process wrote is kept by the system. Only a node that fails loses lines that are not on the disk: its
    trials are made again then. From time to time it writes the totals of the journal into a file beside it.
    """

    def __init__(self, folder: SearchFolder, worker: int, terms: SearchTerms) -> None:
        # It is open as long as the worker works. A worker's number is new, so its journal is empty.
        self._file = open(folder.journal(worker), "ab", buffering=0)  # noqa: SIM115
        self._totals, self._counting, self._uncounted = folder.totals(worker), Counting(terms), 0
        self._lines: list[str] = []
        self._synced = 0.0
        self._is_dirty = False

    def add(self, event: TrialBegin | TrialEnd) -> None:
        """Add an event to the next flush."""
        self._lines.append(event.line())
        self._counting.add(event)
        self._uncounted += 1

    def flush(self, durable: bool = False) -> None:
        """Write all added events at once; ``durable``: and wait until the disk has them. Raises OSError."""
        if self._lines:
            self._write(("\n".join(self._lines) + "\n").encode())
            self._lines.clear()
            self._is_dirty = True
        if self._is_dirty and (durable or time.monotonic() - self._synced > _SYNC_EVERY_S):
            os.fsync(self._file.fileno())
            self._synced, self._is_dirty = time.monotonic(), False
        if self._uncounted >= _COUNT_EVERY:
            self._write_totals()

    def _write_totals(self) -> None:
        """Write the totals, after what they count is on the disk."""
        self._uncounted = 0
        self.flush(durable=True)
        totals = self._counting.totals(self._file.tell())
        with contextlib.suppress(OSError):  # without them the journal is read
            write_text(self._totals, text_of(totals), durable=False)

    def _write(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            view = view[self._file.write(view) or 0 :]

    def close(self) -> None:
        """Write what is left, and close the file. Raises OSError."""
        self.flush(durable=True)
        if self._uncounted:
            self._write_totals()
        self._file.close()


class JournalReader:
    """Reads claims and journals into a table; a further ``read`` adds only what is new."""

    def __init__(self, folder: SearchFolder) -> None:
        self.folder = folder
        self.table = TrialTable()
        self.claimed = 0
        """The number of the newest claim."""
        self.fresh = 0
        """The number of the next trial that no claim has."""
        self._places: dict[int, int] = {}

    def read(self, journals: bool = True, claims: bool = True) -> TrialTable:
        """Return the table with everything that was recorded until now, in the ``claims`` and in the ``journals``.

        The journals alone know every trial that has begun.
        """
        if claims:
            self._read_claims()
        if journals:
            for worker in self.folder.journals():
                self._read_journal(worker)
        return self.table

    def read_rest(self) -> list[JournalTotals]:
        """Return the totals of all journals, and put into the table only the trials that they do not count.

        If totals contradict each other or a journal, there are none, and the table has every trial.
        """
        parts = []
        for worker in self.folder.journals():
            totals = self._usable_totals(worker)
            if totals:
                self._places[worker] = totals.bytes
                for event in totals.rest:
                    self.table.add(event, worker)
                parts.append(totals)
            self._read_journal(worker)
        if are_disjoint(parts, self.table.numbers):
            return parts
        self.table, self._places = TrialTable(), {}
        self.read(claims=False)
        return []

    def _usable_totals(self, worker: int) -> JournalTotals | None:
        """Return the totals of a journal that has every byte that they count."""
        totals = totals_in(json_object(read_text(self.folder.totals(worker))))
        try:
            size = os.stat(self.folder.journal(worker)).st_size
        except OSError:
            return None
        return totals if totals and size >= totals.bytes else None

    def _read_claims(self) -> None:
        for number, values in self.folder.claims(self.claimed):
            self.claimed = number
            worker = values.get("worker", 0)
            first, last = values.get("from", 0), values.get("to", 0)
            for trial in range(first, last):
                self.table.claim(trial, 1, worker)
            for trial, attempt in values.get("again", ()):
                self.table.claim(trial, attempt, worker)
            self.fresh = max(self.fresh, last)

    def _read_journal(self, worker: int) -> None:
        place = self._places.get(worker, 0)
        try:
            with open(self.folder.journal(worker), "rb") as file:
                file.seek(place)
                rest = b""
                while block := file.read(_BLOCK):
                    lines = (rest + block).split(b"\n")
                    rest = lines.pop()  # a line that is still being written, or was cut short
                    for line in lines:
                        event = event_in(line)
                        if event is not None:
                            self.table.add(event, worker)
                            self.fresh = max(self.fresh, event.number + 1)
                    place += sum(map(len, lines)) + len(lines)
        except OSError:
            pass
        self._places[worker] = place
