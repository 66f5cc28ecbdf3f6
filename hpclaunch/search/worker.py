"""A worker of a search: it keeps as many trials alive on its node as the node has slots, until none is left."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpclaunch.runs.sweep_values import encode
from hpclaunch.search.claims import FolderClaims
from hpclaunch.search.events import COMPLETED, INTERRUPTED, MACHINE, PRUNED, TrialBegin, TrialEnd
from hpclaunch.search.folder import SearchFolder, SearchRecord
from hpclaunch.search.journal import JournalWriter
from hpclaunch.search.names import texts_of
from hpclaunch.search.outcome import TrialOutcome, outcome_of
from hpclaunch.search.processes import TrialProcess, environment_of_trials, with_port
from hpclaunch.search.sampling import values_by_number
from hpclaunch.search.scheduling import Desk
from hpclaunch.search.slots import Slot
from hpclaunch.search.space import Values
from hpclaunch.search.terms import ADAPTIVE

_LOOK_S = 1.0
"""How often the reports of running trials are read, if a pruner waits for them."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


class SearchWorker:
    """One worker. ``program``: the file of bash that a trial runs; ``number``: the worker's number in the search."""

    def __init__(self, folder: SearchFolder, searched: SearchRecord, number: int, slots: Sequence[Slot]) -> None:
        self._folder, self._searched, self._terms, self._number = folder, searched, searched.terms, number
        self._free = list(reversed(slots))
        self._claims = FolderClaims(folder, number)
        self._total = searched.terms.total or 0
        self._desk = Desk(self._claims, self._total, time.monotonic, ahead=searched.terms.sampler not in ADAPTIVE)
        self._values = values_by_number(searched.terms.space, searched.terms.sampler, searched.terms.seed)
        self._journal = JournalWriter(folder, number, searched.terms)
        self._study = self._open_study()
        self._running: list[TrialProcess] = []
        self._signal = 0
        self._is_stopping = False

    def _open_study(self) -> Any:
        if not self._terms.needs_optuna:
            return None
        from hpclaunch.search.adaptive import Study

        return Study(self._terms, self._folder.optuna, self._number)

    def work(self, program: Path, environment: Mapping[str, str]) -> bool:
        """Make trials until none is left, or until a signal; returns whether nothing is left. Raises OSError."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in _SIGNALS:
            signal.signal(number, self._note_signal)
        token = f"{self._folder.path}:{self._number}"
        variables = environment_of_trials(environment, token)
        looked = time.monotonic()
        while True:
            self._pass_signal(environment)
            self._collect()
            self._journal.flush()  # what is due again is read from the journals
            begun = 0 if self._is_stopping else self._start_more(program, variables)
            self._journal.flush()
            if not self._running and not begun:
                break
            if self._study is not None and self._terms.pruner and time.monotonic() - looked >= _LOOK_S:
                self._prune()
                looked = time.monotonic()
            _sleep(reader)
        self._journal.close()
        return not self._is_stopping or self._is_complete()

    def _is_complete(self) -> bool:
        self._claims.read_all()
        return self._desk.is_exhausted and not self._claims.due_again()

    def _note_signal(self, number: int, _frame: object) -> None:
        self._signal = number

    def _pass_signal(self, environment: Mapping[str, str]) -> None:
        """Ask every running trial to end, when a signal came: by the signal that its program expects."""
        if not self._signal:
            return
        wanted = environment.get("HPCLAUNCH_SIGNAL", "")
        number = getattr(signal, f"SIG{wanted}", signal.SIGTERM) if self._signal != signal.SIGTERM else signal.SIGTERM
        self._signal, self._is_stopping = 0, True
        for trial in self._running:
            trial.ask_to_end(INTERRUPTED, number)

    def _start_more(self, program: Path, environment: Mapping[str, str]) -> int:
        """Start a trial in each free slot; returns how many were begun, those that could not be started included."""
        due = self._desk.take(len(self._free), is_idle=not self._running) if self._free else []
        for number, attempt in due:
            slot = self._free.pop()
            begin = self._begin_of(number, attempt, slot)
            trial = TrialProcess(begin, slot, self._folder.trial(number), self._terms.metric)
            self._journal.add(begin)
            words = words_of(begin.values, self._searched)
            try:
                trial.start(program, {**with_port(environment, slot), "HPCLAUNCH_SWEPT": words})
            except OSError as error:
                self._end(trial, TrialOutcome(state=MACHINE, exit_code=1, reason=f"it could not be started: {error}"))
                continue
            self._running.append(trial)
        return len(due)

    def _begin_of(self, number: int, attempt: int, slot: Slot) -> TrialBegin:
        before = self._claims.reader.table.values_of(number) if attempt > 1 else None
        values: Values | None = before.values if before else None
        if values is None and self._terms.sampler not in ADAPTIVE:
            values = self._values(number // self._terms.repeats)
            assert values is not None, f"trial {number} is beyond the end of the search"
        ask = -1
        if self._study is not None:
            values, ask = self._study.ask(values)
        assert values is not None
        gpus = ",".join(slot.gpus)
        now = round(time.time(), 3)
        return TrialBegin(number, attempt, now, values, os.uname().nodename, slot.cpu_list, gpus, ask)

    def _collect(self) -> None:
        """Record the ends of the trials that have ended."""
        still = []
        for trial in self._running:
            code = trial.ended()
            if code is None:
                still.append(trial)
                continue
            if trial.reports:
                trial.reports.read()
            missing = self._terms.metric if trial.reports and trial.reports.value is None else ""
            log = trial.end_of_log() if code and not trial.asked else ""
            self._end(trial, outcome_of(code, missing, trial.asked, log))
        self._running = still

    def _end(self, trial: TrialProcess, outcome: TrialOutcome) -> None:
        begin, value = trial.begin, trial.reports.value if trial.reports else None
        kept = value if outcome.state in (COMPLETED, PRUNED) else None
        now = round(time.time(), 3)
        end = TrialEnd(begin.number, begin.attempt, now, outcome.state, kept, outcome.exit_code, outcome.reason)
        self._journal.add(end)
        self._free.append(trial.slot)
        if self._study is not None and begin.ask >= 0:
            self._study.tell(begin.ask, outcome.state, kept)
        _write_record(trial.folder, begin, end)

    def _prune(self) -> None:
        """End the trials that the pruner gives up, by their reports."""
        for trial in self._running:
            if trial.reports is None or trial.asked:
                continue
            reports = trial.reports.read()
            verdicts = [self._study.report(trial.begin.ask, step, value) for step, value in reports]
            if any(verdicts):
                trial.ask_to_end(PRUNED, signal.SIGTERM)


def words_of(values: Values, searched: SearchRecord) -> str:
    """Return the words of a trial as its script reads them: joined by tabs, encoded as in the ``values`` of a sweep."""
    return "\t".join(map(encode, searched.words_of(texts_of(values))))


def _sleep(reader: int) -> None:
    """Wait until a signal comes (a trial has ended), for a second at most."""
    select.select([reader], [], [], _LOOK_S)
    try:
        while os.read(reader, 4096):
            pass
    except BlockingIOError:
        pass


def _write_record(folder: Path, begin: TrialBegin, end: TrialEnd) -> None:
    """Write the trial's own record; the journal is what counts, so a failure changes nothing."""
    values = {"number": begin.number, "values": begin.values, "attempt": begin.attempt, "state": end.state}
    values |= {"value": end.value, "exit_code": end.exit_code, "reason": end.reason}
    values |= {"host": begin.host, "cpus": begin.cpus, "gpus": begin.gpus, "began": begin.time, "ended": end.time}
    try:
        with open(folder / "trial.json", "w", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")
    except OSError:
        pass
