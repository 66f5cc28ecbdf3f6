"""One run as ``run.json`` and ``states.jsonl`` record it: reading and changing it; it asks no scheduler."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from hpclaunch.core import inside
from hpclaunch.core.array_size import MOST_RUNS
from hpclaunch.core.errors import Fault, NewerFormat
from hpclaunch.core.files import append_line, json_object, write_text
from hpclaunch.core.locks import locked
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.core.run_states import FINAL
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.runs.start_numbers import of_newest
from hpclaunch.runs.unreadable import damaged_record, missing_record

if TYPE_CHECKING:
    from typing_extensions import Unpack

FORMAT = 2
"""The highest number of a record's format. A record without a number is older, and is read as format 1. Only an array
that was split has format 2: an older hpclaunch would take the jobs of its runs for those of others."""
UNKNOWN_CLUSTER = "unknown"
"""The name of a submitting machine's cluster that nothing told."""
RECORD = "run.json"
HISTORY = "states.jsonl"
METRICS = "metrics.jsonl"
JOB_ID = re.compile(r"[0-9]{1,18}(_[0-9]{1,9})?|by-hand-[0-9]{1,18}")
STATE = re.compile("[A-Z_]{1,40}")
_LONGEST_REASON = 4000
"""The most characters of a reason, which may be a program's whole output: a record has a limit when it is read."""
_PART = "[0-9,-]*"
_LARGEST_RECORD = 6 * 2**20
"""Bytes of run.json or of spec.json; JSON takes 24 times its size in memory at most."""
MOST_IN_PARTS = 4 * 2**20
"""Characters in all ``parts`` of an array, so that its record can be read again."""
_LARGEST_EDITION = 2**53
_FROM_SCHEDULER = {"from_scheduler": True}
"""Marks fields that a scheduler reports, again and again: a line of the history is enough to record them."""
_LINES = json.JSONEncoder(separators=(",\n  ", ": "))


class JobPlace(NamedTuple):
    """Where a job is: on which cluster, and from which other one it was sent there (empty: from none)."""

    cluster: str
    via: str


class Start(NamedTuple):
    """A start of an array: its job, the indices of the runs that it covers (``0,5-9``; empty: all), and its offset.

    ``offset``: the index of the run that is task 0 of the job.
    """

    job_id: str
    part: str = ""
    offset: int = 0

    def task_id(self, index: int) -> str:
        """Return the scheduler's ID of the run with this index; empty without a job."""
        return f"{self.job_id}_{index - self.offset}" if self.job_id else ""


@record
class Run:
    """One submission, as its run directory records it.

    - ``state``: INCOMPLETE while the directory is being made, RENDERED when it is complete, SUBMITTING until the
      scheduler answers, NOT_SUBMITTED if it refuses, then as Slurm spells it. UNKNOWN: no source knows the state.
    - ``host``, ``user``, ``uid``: where and by whom it was submitted (``uid``: the user's number, as text).
    - ``token``: by which the user's own list of runs knows the directory (``runs/ownership.py``).
    - ``cluster``, ``controller``: Slurm's ClusterName, and the host of its controller, where the job has its ID.
      With ``via``, which is the cluster of the submitting machine, it is another one, which the scheduler's programs
      there reach too. Until its answer names the one that has the job, it may be several names, joined by commas.
    - ``repaired``: when a person changed the record of the ended run; ``reason`` says who, why, and what it was before.
    - ``submitted``: when the present job was submitted, at the earliest (UTC, by the clock of the submitting host).
    - ``allocation``: the job in which the run began (``submit --here``); its own ``job_id`` is that of a start by hand.
    - ``printed``: what the scheduler's program printed at the last submission, beside the job ID.
    - ``held``: what the scheduler held of the job after it (partition, qos, account, walltime, nodes), and ``differs``
      in words what had been asked for otherwise. They are read back once, and empty if it did not answer.
    - ``nodes``: those of the last start. ``excluded``: the nodes that a further start must avoid, and
      ``excluded_because`` the evidence against each.
    - ``earlier``: the job IDs of earlier starts.
    - ``tasks``: of a job array, which is one record for all its runs, their number.
    - ``parts``, ``offsets``: what the record holds of an array's starts beside their jobs; read them as ``starts``.
    - ``counts``, ``waits_for``: of an array whose runs were looked at, state -> how many of its runs are in it, the
      most active state first; and the reason for which most of the others wait. ``reason`` says both in words.
    - ``claim``: the number of the claim by which its last start by hand was noticed; 0: none was, or it is an array.
    - ``index``: the index of a run in its array, else -1.
    - ``inode``: that of the directory, for a run that this process made; else 0.
    - ``edition``: how often the record was written. A line of the history names the edition that it updates.
    """

    path: Path
    name: str
    site: str
    scheduler: str
    created: str
    state: str = field(default="RENDERED", metadata=_FROM_SCHEDULER)
    job_id: str = ""
    exit_code: str = field(default="", metadata=_FROM_SCHEDULER)
    reason: str = field(default="", metadata=_FROM_SCHEDULER)
    host: str = ""
    user: str = ""
    uid: str = ""
    token: str = ""
    cluster: str = ""
    controller: str = ""
    via: str = ""
    submitted: str = ""
    repaired: str = ""
    git: str = ""
    submission: str = ""
    printed: str = ""
    held: Mapping[str, str] = field(default_factory=dict)
    differs: str = ""
    allocation: str = ""
    nodes: str = field(default="", metadata=_FROM_SCHEDULER)
    excluded: str = ""
    excluded_because: str = ""
    earlier: tuple[str, ...] = ()
    tasks: int = 0
    counts: Mapping[str, int] = field(default_factory=dict, metadata=_FROM_SCHEDULER)
    waits_for: str = field(default="", metadata=_FROM_SCHEDULER)
    parts: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()
    claim: int = 0
    index: int = -1
    edition: int = 0
    inode: int = 0

    @property
    def place(self) -> JobPlace:
        """Where the job is."""
        return JobPlace(self.cluster, self.via)

    @property
    def starts(self) -> tuple[Start, ...]:
        """The starts of an array, oldest first; the last is the present one, which may have no job ID yet."""
        jobs = (*self.earlier, self.job_id)
        parts = (*self.parts, *[""] * (len(jobs) - len(self.parts)))
        offsets = (*self.offsets, *[0] * (len(jobs) - len(self.offsets)))
        return tuple(map(Start, jobs, parts, offsets))

    @property
    def label(self) -> str:
        """The name for users, as one word of the shell: a command with it may be typed as it is shown."""
        return shell_word(self.id)

    @property
    def id(self) -> str:
        """The name as it is: that of the directory; for a run of an array ``ARRAY/0007``."""
        return self.path.name if self.index < 0 else f"{self.path.parent.name}/{self.path.name}"

    @property
    def home(self) -> Path:
        """The folder that holds script, code and spec: the run directory; for a run of an array that of the array."""
        return self.path if self.index < 0 else self.path.parent

    def name_of(self, name: str) -> str:
        """Return the name of a file of the run itself, relative to ``home``."""
        return name if self.index < 0 else f"{self.path.name}/{name}"

    @property
    def final(self) -> bool:
        """Whether the run has ended: its state cannot change any more by itself."""
        return self.state in FINAL

    @property
    def script(self) -> Path:
        """The file that was submitted."""
        return self.home / "job.sh"

    @property
    def start_command(self) -> str:
        """The command that starts the script by hand. Raises NotFound for an unknown scheduler."""
        clusters = self.spec().get("clusters")
        words = scheduler_row(self.scheduler).start_words(clusters if isinstance(clusters, str) else "")
        return shlex.join([*words, str(self.script)])

    def logs(self, rank: int | None = None) -> list[Path]:
        """Return the job's logs of all starts, oldest first; with ``rank`` the log of that rank, one for all starts."""
        found = self._logs_in(self.name_of("logs"))
        if rank is not None:
            return [path for path in found if path.name == f"rank-{rank}.out"]
        files = [path for path in found if not path.name.startswith("rank-")]
        if self.index >= 0:
            # The scheduler writes a log for each job ID into the folder of the whole array.
            log = scheduler_row(self.scheduler).log
            named = [self.home / "logs" / log.format(job_id) for job_id in (*self.earlier, self.job_id) if job_id]
            files += [path for path in named if inside.changed_at(self.home, f"logs/{path.name}") is not None]
        return sorted(files, key=_age)

    def _logs_in(self, folder: str) -> list[Path]:
        """Return the log files in a folder; none if this user may not read it."""
        names = [f"{folder}/{name}" for name in inside.names_in(self.home, folder) if name.endswith(".out")]
        return [self.home / name for name in names if inside.changed_at(self.home, name) is not None]

    def metrics(self) -> Iterator[dict[str, Any]]:
        """Yield the events in metrics.jsonl, without a line that is still being written, or of a superseded start."""
        return of_newest(inside.json_lines(self.home, self.name_of(METRICS)))

    def spec(self) -> dict[str, Any]:
        """Return the spec that the script was rendered from, as plain values; empty if it cannot be read.

        Nobody may change it: the runs of an array share it, and it is read once for all of them.
        """
        file = f"{self.home}/spec.json"
        try:
            about = os.lstat(file)
        except OSError:
            return {}
        return _spec_in(file, about.st_ino, about.st_mtime_ns)

    def parameters(self) -> dict[str, str]:
        """Return the values of the job's parameters by name, without those of a sweep (see ``swept``)."""
        pairs = self.spec().get("parameters")
        known = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2] if isinstance(pairs, list) else []
        return {str(name): str(value) for name, value in known}

    def history(self) -> list[dict[str, Any]]:
        """Return every recorded state with its time, oldest first."""
        return list(inside.json_lines(self.home, self.name_of(HISTORY)))

    def attempts(self) -> list[str]:
        """Return the names JOBID.RESTART of all starts that left a marker file, in order."""
        folder = f"{self.path}/attempts"
        names = inside.names_in(self.home, self.name_of("attempts"))
        markers = ("started", "exit-code")
        begun = [name for name in names if any(os.path.exists(f"{folder}/{name}/{marker}") for marker in markers)]
        return sorted(begun, key=_order)

    def exit_codes(self) -> dict[str, int]:
        """Return start (JOBID.RESTART) -> the script's exit code, from the marker files in the run directory."""
        codes = {}
        for attempt in self.attempts():
            text = inside.read_text(self.home, self.name_of(f"attempts/{attempt}/exit-code")).strip()
            if re.fullmatch("[0-9]{1,3}", text):
                codes[attempt] = int(text)
        return codes

    def has_completed(self, start: str) -> bool:
        """Return whether this start (JOBID.RESTART) has completed the run; its exit code alone does not tell.

        The script of a start marks it after every rank has ended with 0. An older hpclaunch, which had no folder
        ``ranks``, left this mark without a text.
        """
        folder = f"{self.path}/attempts/{start}"
        mark = inside.read_text(self.home, self.name_of(f"attempts/{start}/completed"))
        if mark.partition(" ")[0].strip() == start:
            return True
        is_older = os.path.isfile(f"{folder}/completed") and not os.path.isdir(f"{folder}/ranks")
        return is_older and self.exit_codes().get(start) == 0

    def last_exit_code(self, job_id: str) -> int | None:
        """Return the exit code of that job's last start; None if it has not written one."""
        attempts = [name for name in self.attempts() if name.rpartition(".")[0] == job_id]
        return self.exit_codes().get(attempts[-1]) if attempts else None

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values, with the run directory's path."""
        fields = {name: getattr(self, name) for name in _TEXTS if name not in _NOT_SHOWN}
        values = {"run": self.id, "run_dir": str(self.path), **fields, "earlier": list(self.earlier)}
        if self.held:
            values["held"] = dict(self.held)
        if self.tasks:
            values |= {"tasks": self.tasks, "parts": list(self.parts)}
        return {**values, "offsets": list(self.offsets)} if self.offsets else values


class RecordChange(TypedDict, total=False):
    """New values of a run's fields. A field that is not named keeps its value."""

    state: str
    job_id: str
    exit_code: str
    reason: str
    nodes: str
    excluded: str
    excluded_because: str
    host: str
    user: str
    uid: str
    token: str
    cluster: str
    controller: str
    via: str
    submitted: str
    repaired: str
    submission: str
    printed: str
    held: Mapping[str, str]
    differs: str
    allocation: str
    counts: Mapping[str, int]
    waits_for: str
    earlier: tuple[str, ...]
    parts: tuple[str, ...]
    offsets: tuple[int, ...]
    claim: int


def recorded_starts(array: Run, starts: Sequence[Start]) -> RecordChange:
    """Return the change by which the record of an array has these starts; the last one has no job ID yet.

    Offsets are recorded of arrays that were divided: only a newer hpclaunch reads such a record.
    """
    change: RecordChange = {
        "parts": tuple(start.part for start in starts),
        "earlier": tuple(start.job_id for start in starts[:-1]),
    }
    if array.offsets or starts[-1].offset:
        change["offsets"] = tuple(start.offset for start in starts)
    return change


_NOT_SHOWN = ("token", "waits_for")
"""Texts of the record that no document has: one is a key, and ``reason`` says the other."""
_TEXTS = tuple(attribute.name for attribute in fields(Run) if attribute.type == "str")
_MUST = tuple(attribute.name for attribute in fields(Run) if attribute.name in _TEXTS and attribute.default is MISSING)
_SCHEDULER_FIELDS = tuple(attribute.name for attribute in fields(Run) if attribute.metadata == _FROM_SCHEDULER)


@lru_cache(maxsize=1)
def _spec_in(file: str, _number: int, _changed: int) -> dict[str, Any]:
    """Return the object in a file, which is another one when its number or the time of its change is."""
    return json_object(inside.read_text(os.path.dirname(file), os.path.basename(file), _LARGEST_RECORD))


def load(path: Path) -> Run:
    """Return the run in that directory, with the last state of its history.

    Raises NotFound if there is no run or its record is damaged, NotPermitted if this user may not read it, and
    NewerFormat if a newer hpclaunch wrote it.
    """
    file = f"{path}/{RECORD}"  # a thousand runs are read at once, and text is faster than Path
    record = json_object(inside.read_text(path, RECORD, _LARGEST_RECORD))
    _check_format(path, record.get("format", FORMAT))
    missing = [name for name in _MUST if name not in record]
    if missing:
        raise missing_record(path, file, missing, _LARGEST_RECORD)
    texts: dict[str, Any] = {name: str(record[name]) for name in _TEXTS if name in record}
    earlier = _text_members(record.get("earlier"))
    tasks = record.get("tasks")
    counts = _counts_in(record.get("counts"))
    numbers: dict[str, Any] = {"tasks": tasks} if isinstance(tasks, int) and 0 < tasks <= MOST_RUNS else {}
    parts = _text_members(record.get("parts")) if numbers else ()
    if not all(re.fullmatch(_PART, part) for part in parts):
        raise damaged_record(path / RECORD, "it holds an invalid part of the array")
    offsets = _offsets_in(record.get("offsets", ()), numbers.get("tasks", 0))
    if offsets is None:
        raise damaged_record(path / RECORD, "it holds an invalid offset of the array")
    job_ids = [name for name in (texts.get("job_id", ""), *earlier) if name]
    if not all(map(JOB_ID.fullmatch, job_ids)) or not STATE.fullmatch(texts.get("state", "RENDERED")):
        raise damaged_record(path / RECORD, "it holds an invalid job ID or state")
    claimed = record.get("claim")
    if isinstance(claimed, int) and 0 < claimed < _LARGEST_EDITION:
        numbers["claim"] = claimed
    edition = record.get("edition")
    if isinstance(edition, int) and abs(edition) < _LARGEST_EDITION:
        numbers["edition"] = edition
        news = _latest_news(path, edition)
        if news:
            counts = _counts_in(news.pop("counts", None))
            texts.update({name: str(value) for name, value in news.items()})
    lists: dict[str, Any] = {"earlier": earlier, "parts": parts, "offsets": offsets}
    return Run(path=path, counts=counts, held=_held_in(record.get("held")), **lists, **texts, **numbers)


def _check_format(path: Path, number: object) -> None:
    """Raise NewerFormat for the record of a newer hpclaunch, and NotFound for a number that is none."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise damaged_record(path / RECORD, "its format is not a number")
    if number > FORMAT:
        what = f"a newer hpclaunch wrote this record: it has format {number}"
        next_step = "install the version that wrote it, or a later one; this one changes nothing in the run directory"
        raise NewerFormat(Fault(where=str(path / RECORD), what=what, allowed=f"format 1 to {FORMAT}", next=next_step))


def _text_members(value: Any) -> tuple[str, ...]:
    """Return the members of a list as text; none of anything else, as a damaged record may hold."""
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _held_in(value: Any) -> dict[str, str]:
    """Return the pairs of a mapping as text; none of anything else."""
    return {name: str(text) for name, text in value.items()} if isinstance(value, dict) else {}


def _counts_in(value: Any) -> dict[str, int]:
    """Return state -> number; none of anything else, or if any of it is no state or no number."""
    if not isinstance(value, dict):
        return {}
    is_sound = all(
        STATE.fullmatch(state) and type(number) is int and 0 < number <= MOST_RUNS for state, number in value.items()
    )
    return value if is_sound else {}


def _offsets_in(value: Any, tasks: int) -> tuple[int, ...] | None:
    """Return the offsets of an array's starts; None for anything that is not the index of one of its runs."""
    if not isinstance(value, list | tuple):
        return None
    return tuple(value) if all(type(offset) is int and 0 <= offset < tasks for offset in value) else None


def _latest_news(path: Path, edition: int) -> dict[str, Any]:
    """Return the fields in the last line of the history if it updates this edition of the record; else none.

    A line that is incomplete is ignored. If a process ended between writing the record and the line, the last line
    belongs to an earlier edition, and the record is newer.
    """
    for line in reversed(inside.read_text(path, HISTORY).split("\n")[:-1]):
        news = json_object(line)
        if STATE.fullmatch(str(news.get("state", ""))):
            if news.get("edition") != edition:
                return {}
            return {name: news.get(name, "") for name in _SCHEDULER_FIELDS}
    return {}


Writer = Callable[[str, str], None]
"""A function of core/files.py that writes a file; it decides how long a change waits for the disk."""


def save(run: Run, durable: bool = True, write: Writer = write_text) -> Run:
    """Write the record atomically as its next edition, add its state to the history, and return the run."""
    run = replace(run, edition=run.edition + 1)
    number = FORMAT if run.offsets else 1
    values = {"format": number, **run.to_json(), "token": run.token, "edition": run.edition}
    values |= _counts_of(run)
    if run.claim:
        values["claim"] = run.claim
    (write if durable else _write_later)(f"{run.path}/{RECORD}", _as_text(values))
    return _add_to_history(run)


def utc_now() -> str:
    """Return the time as records have it: to the second, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time()))


def _add_to_history(run: Run) -> Run:
    names = ("state", "job_id", "exit_code", "reason", "nodes", "repaired", "edition")
    values = {name: getattr(run, name) for name in names}
    line = {"time": utc_now(), **{key: value for key, value in values.items() if value}, **_counts_of(run)}
    append_line(f"{run.path}/{HISTORY}", json.dumps(line))
    return run


def _counts_of(run: Run) -> dict[str, Any]:
    """Return the counts of an array as the record and its history have them; nothing of what is not known."""
    values = {"counts": dict(run.counts), "waits_for": run.waits_for}
    return {name: value for name, value in values.items() if value}


def add_note(run: Run, **words: str) -> None:
    """Add a line without a state to the history: what happened to a part of the run. Raises OSError."""
    append_line(f"{run.path}/{HISTORY}", json.dumps({"time": utc_now(), **words}), durable=True)


def _as_text(record: dict[str, Any]) -> str:
    """Return JSON with one value a line. The json module's own indenting is too slow for a thousand runs."""
    return "{\n  " + _LINES.encode(record)[1:-1] + "\n}\n"


def change(run: Run, durable: bool = True, write: Writer = write_text, **news: Unpack[RecordChange]) -> Run:
    """Record changes of a run and return it; if another process was faster, return what that one recorded."""
    return claim(run, durable, write=write, **news) or load(run.path)


def claim(
    run: Run, durable: bool = True, any_state: bool = False, write: Writer = write_text, **news: Unpack[RecordChange]
) -> Run | None:
    """Record changes of a run and return it; None if it is no longer in the start and state that the caller saw.

    A start is known by its job ID and the jobs before it: while it is submitted it has no ID yet. With ``any_state``
    the state does not count: the scheduler may have reported another one meanwhile.
    Changes that need not be ``durable`` (the scheduler can be asked again) and concern only the scheduler's fields are
    written as one line of the history. Writing a new file for each of a thousand runs would take too long.
    """
    with locked(run.path):
        current = load(run.path)
        if (current.job_id, current.earlier) != (run.job_id, run.earlier):
            return None
        if current.state != run.state and not any_state:
            return None
        if "reason" in news and "counts" not in news:
            news |= {"counts": {}, "waits_for": ""}  # it is another reason than that of the counts
        changed = replace(current, **news)
        reasons = {name: getattr(changed, name) for name in ("reason", "excluded_because", "waits_for")}
        if max(map(len, reasons.values())) > _LONGEST_REASON:
            shortened: dict[str, Any] = {name: _shorten_reason(text) for name, text in reasons.items()}
            changed = replace(changed, **shortened)
        if changed == current:
            return current
        # A line names the edition that it updates, so a record without an edition is written again.
        line_is_enough = not durable and current.edition > 0 and news.keys() <= set(_SCHEDULER_FIELDS)
        return _add_to_history(changed) if line_is_enough else save(changed, durable, write)


def _write_later(path: str, text: str) -> None:
    write_text(path, text, durable=False)


def _shorten_reason(text: str) -> str:
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]} ..."


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _order(attempt: str) -> tuple[str, int]:
    job, _, restart = attempt.rpartition(".")
    return (job.zfill(20), int(restart) if re.fullmatch("[0-9]{1,9}", restart) else 0)
