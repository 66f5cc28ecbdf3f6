"""The journals of a search's workers: one writer each, one event a line, and a reader that continues where it was."""

from __future__ import annotations

import os
import time
from pathlib import Path

from hpclaunch.search.events import TrialBegin, TrialEnd, event_in
from hpclaunch.search.folder import SearchFolder
from hpclaunch.search.table import TrialTable

_SYNC_EVERY_S = 0.5
_BLOCK = 2**22


class JournalWriter:
    """Appends the events of one worker. A line is in the file after ``flush``; at most half a second later on the disk.

    What a killed process wrote is kept by the system. Only a node that fails loses lines that are not on the disk: its
    trials are made again then.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 (it is open as long as the worker works)
        self._lines: list[str] = []
        self._synced = 0.0
        self._is_dirty = False

    def add(self, event: TrialBegin | TrialEnd) -> None:
        """Add an event to the next flush."""
        self._lines.append(event.line())

    def flush(self, durable: bool = False) -> None:
        """Write all added events at once; ``durable``: and wait until the disk has them. Raises OSError."""
        if self._lines:
            self._write(("\n".join(self._lines) + "\n").encode())
            self._lines.clear()
            self._is_dirty = True
        if self._is_dirty and (durable or time.monotonic() - self._synced > _SYNC_EVERY_S):
            os.fsync(self._file.fileno())
            self._synced, self._is_dirty = time.monotonic(), False

    def _write(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            view = view[self._file.write(view) or 0 :]

    def close(self) -> None:
        """Write what is left, and close the file. Raises OSError."""
        self.flush(durable=True)
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
