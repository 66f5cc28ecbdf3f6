"""The journals of a search's workers: one writer each, one event a line, and a reader that continues where it was."""

from __future__ import annotations

import contextlib
import os
import time
import zlib

from hpclaunch.core.files import json_object, write_text
from hpclaunch.search.events import Event, event_in
from hpclaunch.search.folder import SearchFolder
from hpclaunch.search.table import TrialTable
from hpclaunch.search.terms import SearchTerms
from hpclaunch.search.totals import JournalTotals, TotalsCounter, count_each_trial_once, text_of, totals_in

_SYNC_EVERY_S = 0.5
_COUNT_EVERY = 5_000
_COUNT_EVERY_S, _FEWEST_EVENTS = 30.0, 200
"""Totals are written after so many events, and after so many seconds if there are enough new events: so many lines of
each journal are read for a status."""
_MOST_UNCOUNTED = 10_000
_BLOCK = 2**22


class JournalWriter:
    """Appends the events of one worker. A line is in the file after ``flush``; at most half a second later on the disk.

    What a killed process wrote is kept by the system. Only a node that fails loses lines that are not on the disk: its
    trials are made again then. The writer also writes the totals of the journal into a second file, after
    ``count_every`` events and at the end.
    """

    def __init__(self, folder: SearchFolder, worker: int, terms: SearchTerms, count_every: int = _COUNT_EVERY) -> None:
        # It is open as long as the worker works. The number of a worker is new, so its journal is empty.
        self._file = open(folder.journal(worker), "ab", buffering=0)  # noqa: SIM115
        self._totals, self._terms, self._counter = folder.totals(worker), terms, TotalsCounter(terms)
        self._count_every, self._to_count, self._counted = count_every, 0, time.monotonic()
        self._size = self._crc = 0
        self._lines: list[str] = []
        self._synced = 0.0
        self._is_dirty = False

    def add(self, event: Event) -> None:
        """Add an event to the next flush."""
        self._lines.append(event.line())
        self._counter.add(event)
        self._to_count += 1

    def flush(self, durable: bool = False) -> None:
        """Write all added events at once; ``durable``: and wait until the disk has them. Raises OSError."""
        if self._lines:
            self._write(("\n".join(self._lines) + "\n").encode())
            self._lines.clear()
            self._is_dirty = True
        if self._is_dirty and (durable or time.monotonic() - self._synced > _SYNC_EVERY_S):
            os.fsync(self._file.fileno())
            self._synced, self._is_dirty = time.monotonic(), False
        if self._are_totals_due():
            self._write_totals()

    def _write(self, content: bytes) -> None:
        self._size, self._crc = self._size + len(content), zlib.crc32(content, self._crc)
        view = memoryview(content)
        while view:
            view = view[self._file.write(view) or 0 :]

    def _are_totals_due(self) -> bool:
        is_late = self._to_count >= _FEWEST_EVENTS and time.monotonic() - self._counted > _COUNT_EVERY_S
        return self._to_count >= self._count_every or is_late

    def _write_totals(self) -> None:
        """Write the totals, after the disk has what they count."""
        self._to_count, self._counted = 0, time.monotonic()
        if self._counter.uncounted > _MOST_UNCOUNTED:
            return  # such totals would save a reader nothing
        self.flush(durable=True)
        with contextlib.suppress(OSError):  # without them the journal is read
            totals = self._counter.totals(self._size, self._crc)
            write_text(self._totals, text_of(totals, self._terms), durable=False)

    def close(self) -> None:
        """Write what is left, and close the file. Raises OSError."""
        self.flush(durable=True)
        if self._to_count:
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

    def add_counted(self, worker: int, totals: JournalTotals) -> None:
        """Add the events of a new journal that its totals do not count; the next read begins after the counted part."""
        self._places[worker] = totals.bytes
        for event in totals.uncounted:
            self.table.add(event, worker)

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
            with os.fdopen(self.folder.open_journal(worker), "rb") as file:
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


def read_with_totals(folder: SearchFolder, terms: SearchTerms) -> tuple[TrialTable, list[JournalTotals]]:
    """Return the totals of the journals, and a table of the trials that no totals count.

    If two journals mention one trial that is counted, the list is empty and the table has every trial.
    """
    reader, parts = JournalReader(folder), []
    for worker in folder.journals():
        totals = totals_in(json_object(folder.totals_text(worker)), terms)
        if totals and _crc_of(folder, worker, totals.bytes) == totals.crc:
            reader.add_counted(worker, totals)
            parts.append(totals)
    table = reader.read(claims=False)
    if count_each_trial_once(parts, table.numbers):
        return table, parts
    return JournalReader(folder).read(claims=False), []


def _crc_of(folder: SearchFolder, worker: int, size: int) -> int | None:
    """Return the CRC-32 of the first bytes of a journal; None if it has fewer."""
    crc = 0
    try:
        with os.fdopen(folder.open_journal(worker), "rb") as file:
            while size and (block := file.read(min(size, _BLOCK))):
                crc, size = zlib.crc32(block, crc), size - len(block)
    except OSError:
        return None
    return None if size else crc
