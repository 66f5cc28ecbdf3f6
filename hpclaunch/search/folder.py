"""The files of a search in its run directory: what was asked, the claims, the journals, the folders of trials.

    search.json              the terms of the search, how many trials run at once, and how a trial is started
    search/workers/1, 2, …   one file for each worker: the start of the run, and the process; 1.ended: it has ended
    search/claims/1, 2, …    which trials a worker makes, and no other one
    search/journal/1.jsonl   the events of worker 1, which alone writes it
    search/journal/1.totals  a summary of its finished trials, so that a status is quick; the journal is the record
    trials/012/012345/       a trial's own folder: its log, its metrics.jsonl, its checkpoints

Claims and workers are made once, by link(2), and never changed (as the leases of decision 34): of several processes
that want the same number, one gets it. So no lock is needed, on any file system. No journal has two writers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hpclaunch.core import inside
from hpclaunch.core.errors import Fault, NotFound
from hpclaunch.core.files import json_object, write_text
from hpclaunch.core.records import record
from hpclaunch.core.spec import Pairs, free_word, parameter_word
from hpclaunch.runs.leases import make_once
from hpclaunch.search.terms import SearchTerms, terms_of_json

FILE = "search.json"
TRIALS = "trials"
METRICS = "metrics.jsonl"
LOG = "log.out"
_LAST_LINES, _LONGEST_LINE, _END_OF_LOG = 12, 500, 2**14
_FORMAT = 1


@record
class SearchRecord:
    """What ``search.json`` holds: the terms, and how many trials run at once.

    ``target``: the job that is searched. ``free``: it declares no parameters, so their names are passed on as typed, or
    as ``options`` has them: (name, what stands before its value).
    """

    terms: SearchTerms
    target: str
    at_once: int
    created: str
    free: bool = False
    options: Pairs = ()

    def words_of(self, texts: Mapping[str, str]) -> list[str]:
        """Return the words with which the program gets the values of a trial."""
        if self.free:
            return [free_word(name, text, self.options) for name, text in texts.items()]
        return [parameter_word(name, text) for name, text in texts.items()]


class SearchFolder:
    """The paths of a search, and its small files. ``path`` is its run directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._search = path / "search"

    def write(self, searched: SearchRecord) -> None:
        """Write ``search.json`` and the folders. Raises OSError."""
        for name in ("workers", "claims", "journal"):
            (self._search / name).mkdir(parents=True, exist_ok=True)
        (self.path / TRIALS).mkdir(exist_ok=True)
        values = {**vars(searched), "terms": searched.terms.to_json(), "format": _FORMAT}
        write_text(self.path / FILE, json.dumps(values, indent=1) + "\n")

    def read(self) -> SearchRecord:
        """Return what ``search.json`` holds. Raises NotFound if there is none, or if it is damaged."""
        values = json_object(inside.read_text(self.path, FILE))
        if not values:
            what = "is not a search" if (self.path / "run.json").exists() else "there is no search"
            raise NotFound(Fault(where=str(self.path), what=what, next="hpclaunch search JOB --space FILE starts one"))
        try:
            if values["format"] != _FORMAT:
                raise ValueError(f"it has format {values['format']}, and this hpclaunch reads format {_FORMAT}")
            return SearchRecord(
                terms=terms_of_json(values["terms"]),
                target=str(values["target"]),
                at_once=int(values["at_once"]),
                created=str(values["created"]),
                free=values["free"] is True,
                options=tuple((str(name), str(word)) for name, word in values.get("options", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"the record of the search cannot be read: {error}"
            raise NotFound(Fault(where=str(self.path / FILE), what=what)) from None

    @property
    def optuna(self) -> Path:
        """The journal of Optuna's study."""
        return self._search / "optuna.journal"

    def journal(self, worker: int) -> Path:
        """Return the journal of a worker."""
        return self._search / "journal" / f"{worker}.jsonl"

    def totals(self, worker: int) -> Path:
        """Return the file with the totals of a worker's journal (`search.totals`)."""
        return self._search / "journal" / f"{worker}.totals"

    def open_journal(self, worker: int) -> int:
        """Return a descriptor of a worker's journal, for reading. Raises OSError."""
        return inside.open_file(self.path, f"search/journal/{worker}.jsonl")

    def totals_text(self, worker: int) -> str:
        """Return the text of a worker's totals; empty if there are none."""
        return inside.read_text(self.path, f"search/journal/{worker}.totals")

    def journals(self) -> list[int]:
        """Return the numbers of the workers that have a journal."""
        return sorted(_numbers(self._search / "journal", ".jsonl"))

    def trial(self, number: int) -> Path:
        """Return the folder of a trial."""
        return self.path / TRIALS / f"{number // 1000:03d}" / f"{number:06d}"

    def log(self, number: int) -> Path:
        """Return the log of a trial."""
        return self.trial(number) / LOG

    def last_lines(self, number: int) -> list[str]:
        """Return the last lines of a trial's log; none if it has no log."""
        name = self.log(number).relative_to(self.path).as_posix()
        text = inside.read_end(self.path, name, _END_OF_LOG).decode("utf-8", errors="replace")
        return [line[:_LONGEST_LINE] for line in text.replace("\r", "\n").splitlines()[-_LAST_LINES:]]

    def add_worker(self, values: dict[str, Any]) -> int:
        """Record a new worker and return its number. Raises OSError."""
        return self._add(self._search / "workers", values)

    def workers(self) -> dict[int, dict[str, Any]]:
        """Return number -> what is recorded of every worker; those that have ended have ``ended``."""
        found = {}
        for number in sorted(_numbers(self._search / "workers")):
            ended = inside.read_text(self.path, f"search/workers/{number}.ended").strip()
            recorded = json_object(inside.read_text(self.path, f"search/workers/{number}"))
            found[number] = {**recorded, **({"ended": ended} if ended else {})}
        return found

    def end_worker(self, number: int, why: str) -> None:
        """Record that a worker has ended; the first reason counts. Raises OSError."""
        make_once(self._search / "workers" / f"{number}.ended", why)

    def add_claim(self, number: int, values: dict[str, Any]) -> bool:
        """Make the claim with that number; False if another worker made it. Raises OSError.

        It does not wait for the disk: if a server of files fails and forgets it, the journals still tell what was made.
        """
        text = json.dumps(values, separators=(",", ":"))
        return make_once(self._search / "claims" / str(number), text, partial(write_text, durable=False)) == text

    def claims(self, after: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield every claim after that number, in order."""
        number = after + 1
        while text := inside.read_text(self._search / "claims", str(number)):
            yield number, json_object(text)
            number += 1

    def _add(self, folder: Path, values: dict[str, Any]) -> int:
        text = json.dumps(values, separators=(",", ":"))
        number = max(_numbers(folder), default=0) + 1
        while make_once(folder / str(number), text) != text:
            number += 1
        return number


def is_search(path: Path) -> bool:
    """Whether a run directory is that of a search."""
    return os.path.isfile(path / FILE)


def _numbers(folder: Path, ending: str = "") -> list[int]:
    try:
        names = [name.removesuffix(ending) for name in os.listdir(folder) if name.endswith(ending)]
    except OSError:
        return []
    return [int(name) for name in names if name.isascii() and name.isdigit()]
