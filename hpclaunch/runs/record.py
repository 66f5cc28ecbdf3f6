"""One run as ``run.json`` and ``states.jsonl`` record it, how it is read and changed; it asks no scheduler."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from dataclasses import MISSING, field, fields, replace
from pathlib import Path
from typing import Any

from hpclaunch.core.errors import Fault, NotFound, NotPermitted
from hpclaunch.core.files import append_line, json_lines, json_object, locked, read_text, write_text
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import MOST_RUNS

FINAL = frozenset(
    {
        *("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"),
        *("DEADLINE", "NOT_SUBMITTED"),
    }
)
"""States that do not change by themselves. NOT_SUBMITTED is hpclaunch's own: nothing of the run was ever queued."""
RECORD = "run.json"
HISTORY = "states.jsonl"
JOB_ID = re.compile(r"[0-9]{1,18}(_[0-9]{1,9})?|by-hand-[0-9]{1,18}")
STATE = re.compile("[A-Z_]{1,40}")
_PART = re.compile("[0-9,-]*")
_HEARD_OF = {"heard": True}
"""Marks what a scheduler tells of a job, again and again: a line of the history is enough to record it."""
_LINES = json.JSONEncoder(separators=(",\n  ", ": "))


@record
class Run:
    """One submission, by way of its directory.

    ``state`` is INCOMPLETE while the directory is being made, RENDERED when it is there, SUBMITTING while the scheduler
    has not answered, NOT_SUBMITTED where it refused, then as Slurm spells it; UNKNOWN where nobody could say.
    ``nodes`` are those of the last start; ``earlier`` are job ids of starts before this one, ``excluded`` the nodes
    that a further start avoided. Of a job array, which is one record for all its runs, ``tasks`` is their number and
    ``parts`` which of them each start is for (0,5-9; empty: all). ``index`` is that of a run in its array, else -1.
    ``edition`` counts how often the record was written; a line of the history tells which edition it is news of.
    """

    path: Path
    name: str
    site: str
    scheduler: str
    created: str
    state: str = field(default="RENDERED", metadata=_HEARD_OF)
    job_id: str = ""
    exit_code: str = field(default="", metadata=_HEARD_OF)
    reason: str = field(default="", metadata=_HEARD_OF)
    host: str = ""
    git: str = ""
    submission: str = ""
    nodes: str = field(default="", metadata=_HEARD_OF)
    excluded: str = ""
    earlier: tuple[str, ...] = ()
    tasks: int = 0
    parts: tuple[str, ...] = ()
    index: int = -1
    edition: int = 0

    @property
    def label(self) -> str:
        """What a person calls it: the name of its directory, for a run of an array with that of the array."""
        return self.path.name if self.index < 0 else f"{self.path.parent.name}/{self.path.name}"

    @property
    def home(self) -> Path:
        """The folder with what was submitted (script, code, spec): its directory, for a run of an array the array's."""
        return self.path if self.index < 0 else self.path.parent

    @property
    def final(self) -> bool:
        """Whether the state can no longer change by itself."""
        return self.state in FINAL

    @property
    def script(self) -> Path:
        """The file that was submitted."""
        return self.home / "job.sh"

    @property
    def start_command(self) -> str:
        """What a person types to start the script by hand. Raises NotFound for a scheduler that is not known."""
        return shlex.join([scheduler_row(self.scheduler).start_command, str(self.script)])

    def logs(self, rank: int | None = None) -> list[Path]:
        """Return the log files of all starts, oldest first: the job's; or the one of a rank, which all starts share."""
        found = (self.path / "logs").glob("*.out" if rank is None else f"rank-{rank}.out")
        kept = [path for path in found if path.is_file() and (rank is not None or not path.name.startswith("rank-"))]
        if self.index >= 0 and rank is None:
            log = scheduler_row(self.scheduler).log
            named = [self.home / "logs" / log.format(job_id) for job_id in (*self.earlier, self.job_id) if job_id]
            kept += [path for path in named if path.is_file()]
        return sorted(kept, key=_age)

    def metrics(self) -> list[dict[str, Any]]:
        """Return what the ranks wrote to metrics.jsonl; a line that is still being written is left out."""
        return json_lines(self.path / "metrics.jsonl")

    def spec(self) -> dict[str, Any]:
        """Return what the script was rendered from, as plain values; empty where it cannot be read."""
        return json_object(read_text(self.home / "spec.json"))

    def parameters(self) -> dict[str, str]:
        """Return the job's parameters with their values, by name; those of a sweep are not among them (``swept``)."""
        pairs = self.spec().get("parameters")
        known = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2] if isinstance(pairs, list) else []
        return {str(name): str(value) for name, value in known}

    def history(self) -> list[dict[str, Any]]:
        """Return every state that was recorded, with its time, oldest first."""
        return json_lines(self.path / HISTORY)

    def attempts(self) -> list[str]:
        """Return the names JOBID.RESTART of all starts that left a mark, in order."""
        folder = f"{self.path}/attempts"
        try:
            names = os.listdir(folder)
        except OSError:
            return []
        marks = ("started", "exit-code")
        return sorted(
            (name for name in names if any(os.path.exists(f"{folder}/{name}/{m}") for m in marks)), key=_order
        )

    def exit_codes(self) -> dict[str, int]:
        """Return attempt -> the script's exit code, from the marks that the script leaves in the run directory."""
        codes = {}
        for attempt in self.attempts():
            text = read_text(self.path / "attempts" / attempt / "exit-code").strip()
            if re.fullmatch("[0-9]{1,3}", text):
                codes[attempt] = int(text)
        return codes

    def last_exit_code(self, job_id: str) -> int | None:
        """Return the exit code of that job's last start; None while it runs, or where it left none."""
        attempts = [name for name in self.attempts() if name.rpartition(".")[0] == job_id]
        return self.exit_codes().get(attempts[-1]) if attempts else None

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values, with the paths a program would want."""
        fields = {name: getattr(self, name) for name in _TEXTS}
        told = {"run": self.label, "run_dir": str(self.path), **fields, "earlier": list(self.earlier)}
        return {**told, "tasks": self.tasks, "parts": list(self.parts)} if self.tasks else told


_TEXTS = tuple(one.name for one in fields(Run) if one.type == "str")
_MUST = tuple(one.name for one in fields(Run) if one.name in _TEXTS and one.default is MISSING)
_HEARD = tuple(one.name for one in fields(Run) if one.metadata == _HEARD_OF)


def load(path: Path) -> Run:
    """Return the run in that directory, its state as the history last tells it.

    Raises NotFound if there is none, or if its record cannot be read; NotPermitted if this user may not read it.
    """
    file = f"{path}/{RECORD}"  # a thousand runs are read at once: text is quicker than paths
    record = json_object(read_text(file))
    missing = [name for name in _MUST if name not in record]
    if missing:
        raise _missing_record(path, file, missing)
    texts: dict[str, Any] = {name: str(record[name]) for name in _TEXTS if name in record}
    earlier = record.get("earlier", [])
    earlier = tuple(map(str, earlier)) if isinstance(earlier, list) else ()
    tasks, parts = record.get("tasks", 0), record.get("parts", [])
    array: dict[str, Any] = {"tasks": tasks} if isinstance(tasks, int) and 0 < tasks <= MOST_RUNS else {}
    if array and isinstance(parts, list):
        array["parts"] = tuple(map(str, parts))
    job_ids = [name for name in (texts.get("job_id", ""), *earlier) if name]
    if not all(map(_PART.fullmatch, array.get("parts", ()))):
        raise NotFound(Fault(where=file, what="the record cannot be read: a part of the array is none"))
    if not all(map(JOB_ID.fullmatch, job_ids)) or not STATE.fullmatch(texts.get("state", "RENDERED")):
        raise NotFound(Fault(where=file, what="the record cannot be read: a job id or state is none"))
    edition = record.get("edition")
    if isinstance(edition, int):
        array["edition"] = edition
        texts.update(_last_heard(path, edition))
    return Run(path=path, earlier=earlier, **texts, **array)


def _last_heard(path: Path, edition: int) -> dict[str, str]:
    """Return what the last line of the history tells, if it is news of this edition of the record; else nothing.

    A line that was cut short, or is still being written, is as if it were not there. Where a process ended between
    writing the record and its line, the last line is of an earlier edition, and the record says more.
    """
    for line in reversed(read_text(f"{path}/{HISTORY}").split("\n")[:-1]):
        heard = json_object(line)
        if STATE.fullmatch(str(heard.get("state", ""))):
            return {name: str(heard.get(name, "")) for name in _HEARD} if heard.get("edition") == edition else {}
    return {}


def _missing_record(path: Path, file: str, missing: list[str]) -> NotFound:
    """Return why there is no record to read: none of ours, another person's, damaged."""
    try:
        os.stat(file)
        permitted = os.access(file, os.R_OK)
    except PermissionError:
        permitted = False
    except (OSError, ValueError):
        if not os.path.isdir(path) or os.access(path, os.R_OK):
            return NotFound(Fault(where=str(path), what="is not a run directory", next="hpclaunch runs list"))
        permitted = False
    if not permitted:
        what = "you may not read this: it belongs to another user, or its permissions exclude you"
        place = file if os.access(path, os.R_OK | os.X_OK) else str(path)
        return NotPermitted(Fault(where=place, what=what, next=f"ls -ld {shlex.quote(place)} names its owner"))
    what = f"the record cannot be read: it has no {', '.join(missing)}"
    left = f"what the run left is in {path}; hpclaunch submit {path / 'code'} or a copy of it begins anew"
    return NotFound(Fault(where=file, what=what, next=left))


def save(run: Run, durable: bool = True) -> Run:
    """Write the record atomically, as its next edition, add its state to the history, and return the run."""
    run = replace(run, edition=run.edition + 1)
    write_text(f"{run.path}/{RECORD}", _as_text({**run.to_json(), "edition": run.edition}), durable)
    return _add_to_history(run)


def _add_to_history(run: Run) -> Run:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    told = {name: getattr(run, name) for name in ("state", "job_id", "exit_code", "reason", "nodes", "edition")}
    append_line(
        f"{run.path}/{HISTORY}", json.dumps({"time": now, **{key: value for key, value in told.items() if value}})
    )
    return run


def _as_text(record: dict[str, Any]) -> str:
    """Return JSON with a value a line; json's own indenting is slow, which a thousand runs feel."""
    return "{\n  " + _LINES.encode(record)[1:-1] + "\n}\n"


def change(run: Run, durable: bool = True, **news: Any) -> Run:
    """Record what is new of a run, unless another process was faster: then return what that one recorded."""
    return claim(run, durable, **news) or load(run.path)


def claim(run: Run, durable: bool = True, **news: Any) -> Run | None:
    """Record what is new of a run and return it; None if its state or job id are no longer what the caller saw.

    What need not be ``durable``, as it can be asked for again, and is no more than a scheduler tells of a job, is one
    line of the history: to make a file anew for each of a thousand runs would take longer than all the rest.
    """
    with locked(run.path):
        current = load(run.path)
        if (current.state, current.job_id) != (run.state, run.job_id):
            return None
        changed = replace(current, **news)
        if changed == current:
            return current
        heard_only = not durable and current.edition > 0 and news.keys() <= set(_HEARD)
        return _add_to_history(changed) if heard_only else save(changed, durable)


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _order(attempt: str) -> tuple[str, int]:
    job, _, restart = attempt.rpartition(".")
    return (job.zfill(20), int(restart) if re.fullmatch("[0-9]{1,9}", restart) else 0)
