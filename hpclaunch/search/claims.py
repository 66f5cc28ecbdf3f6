"""The claims of a search as files in its folder, and which workers have ended."""

from __future__ import annotations

import os
from typing import Any

from hpclaunch.runs.leases import process_lives, this_process
from hpclaunch.search.folder import SearchFolder
from hpclaunch.search.journal import JournalReader


class FolderClaims:
    """The claims of one worker beside those of the others (`scheduling.ClaimStore`)."""

    def __init__(self, folder: SearchFolder, worker: int) -> None:
        self._reader = JournalReader(folder)
        self._folder, self._worker = folder, worker
        self.workers = 1
        self.read_all()

    @property
    def fresh(self) -> int:
        """The first trial that no claim has, as of the last refresh."""
        return self._reader.fresh

    @property
    def reader(self) -> JournalReader:
        """The reader of claims and journals."""
        return self._reader

    def refresh(self) -> None:
        """Look for claims of other workers."""
        self._reader.read(journals=False)

    def read_all(self) -> None:
        """Look for claims, events and ends of other workers."""
        self._reader.read()
        workers = self._folder.workers()
        self._reader.table.dead.update(ended_among(workers))
        self.workers = max(1, len(workers) - len(self._reader.table.dead))

    def due_again(self) -> list[tuple[int, int]]:
        """Return (trial, attempt) of every start that is due again."""
        self.read_all()
        return self._reader.table.due_again()

    def add(self, first: int, last: int, again: list[tuple[int, int]]) -> bool:
        """Make the next claim; False if another worker made it. Raises OSError."""
        values: dict[str, Any] = {"worker": self._worker, "from": first, "to": last}
        if again:
            values["again"] = again
        made = self._folder.add_claim(self._reader.claimed + 1, values)
        self._reader.read(journals=False)
        return made


def ended_among(workers: dict[int, dict[str, Any]]) -> set[int]:
    """Return the numbers of the workers that are recorded as ended."""
    return {number for number, values in workers.items() if values.get("ended")}


def begin_worker(folder: SearchFolder, run: str, start: str) -> tuple[int, list[int]]:
    """Record this process as a worker. Returns its number, and the workers of this host that ended without a word.

    ``run``: the run directory of the worker, ``start``: the start of that run (job ID and restart). Only one start of a
    run works at a time (decision 27), so workers of its earlier starts have ended. A worker of the same start has ended
    if its process on this host has. Raises OSError.
    """
    lost_here = []
    for number, values in folder.workers().items():
        if values.get("ended"):
            continue
        lives = process_lives(str(values.get("process", "")))
        is_earlier = values.get("run") == run and values.get("start") != start
        if lives is False or (is_earlier and lives is None):
            folder.end_worker(number, f"lost; found by a worker of {start}")
            if lives is False:
                lost_here.append(number)
    process = this_process()
    values = {"run": run, "start": start, "host": os.uname().nodename, "process": process}
    return folder.add_worker(values), lost_here
