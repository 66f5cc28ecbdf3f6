"""The story of the verbs about what runs left: one in full, several compared, results, and cleaning up."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpclaunch import runs
from hpclaunch.core.errors import Fault, NotFound, Refused
from hpclaunch.core.files import json_object, read_text
from hpclaunch.core.records import record
from hpclaunch.runs import FINAL, Run

if TYPE_CHECKING:
    from hpclaunch.actions.system import System
    from hpclaunch.runs import Rebuilt

_ENDED = FINAL | {"INCOMPLETE"}
_UNFINISHED_AFTER = timedelta(hours=1)
"""A directory that is INCOMPLETE for longer belongs to a submission that was interrupted."""
_STARTS = 1000


@record
class Doomed:
    """A run directory that cleaning would delete, and its size in bytes."""

    run: Run
    size: int


def everything(run: Run) -> dict[str, Any]:
    """Return all that a run's directory tells, as plain values."""
    codes = run.exit_codes()
    starts = [
        {"attempt": name, "started": _first_line(run, name), "exit_code": codes.get(name)} for name in run.attempts()
    ]
    return {
        **run.to_json(),
        "spec": run.spec(),
        "environment": json_object(read_text(run.home / "environment.json")),
        "values": runs.swept(run),
        "states": run.history(),
        "attempts": starts[-_STARTS:],
        "logs": [str(path) for path in run.logs()],
        "checkpoints": [str(path) for path in checkpoints(run)],
        "final": final_metrics(run),
        "size": size_of(run.path),
    }


def _first_line(run: Run, attempt: str) -> str:
    return (read_text(run.path / "attempts" / attempt / "started").split("\n") or [""])[0].strip()


def checkpoints(run: Run) -> list[Path]:
    """Return what lies in the run's folder of checkpoints, by name."""
    try:
        return sorted(path for path in (run.path / "checkpoints").iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def final_metrics(run: Run) -> dict[str, Any]:
    """Return the run's last line of metrics.jsonl with the event ``end``: its result; empty if it has none."""
    ends = [event for event in run.metrics() if event.get("event") == "end"]
    return ends[-1] if ends else {}


def numbers(run: Run) -> dict[str, str]:
    """Return the values of a run's result, as text."""
    result = final_metrics(run)
    return {
        str(key): f"{value:.6g}" if isinstance(value, float) else str(value)
        for key, value in result.items()
        if isinstance(value, int | float | str) and key not in ("event", "time")
    }


def differences(found: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """Return (what, its value in each run) of all that was asked for, used or found and is not the same in all."""
    tables = [_facts(run) for run in found]
    names = list(dict.fromkeys(name for table in tables for name in table))
    rows = [(name, [table.get(name, "") for table in tables]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _facts(run: Run) -> dict[str, str]:
    spec = run.spec()
    environment = json_object(read_text(run.home / "environment.json"))
    facts = {"site": run.site, "state": run.state, "exit code": run.exit_code, "git": run.git}
    facts |= {f"environment.{name}": _flat(value) for name, value in environment.items() if name != "folder"}
    unequal_by_nature = {
        "run_dir",
        "created",
        "chdir",
        "directives",
        "choices",
        "declined",
        "warnings",
        "unverified",
        "code",
        "sweep",
        "calibration_key",
    }
    for key, value in spec.items():
        if key in unequal_by_nature:
            continue
        if isinstance(value, dict):
            facts |= {f"{key}.{inner}": _flat(content) for inner, content in value.items()}
        elif key == "command" and isinstance(value, list):
            facts |= _options(value, run)
        else:
            facts[key] = _flat(value).replace(str(run.home), "RUN")
    directives = spec.get("directives", [])
    pairs = (
        [pair for pair in directives if isinstance(pair, list) and len(pair) == 2]
        if isinstance(directives, list)
        else []
    )
    facts |= {f"--{name}": _flat(value).replace(str(run.home), "RUN") for name, value in pairs}
    facts |= {f"--{name.replace('_', '-')}": value for name, value in runs.swept(run).items()}
    return facts | {f"result.{name}": value for name, value in numbers(run).items()}


def _options(command: list[Any], run: Run) -> dict[str, str]:
    """Return a command's --name=value words one by one, and the others as one text."""
    words = [str(word).replace(str(run.home), "RUN") for word in command]
    named = dict(word.split("=", 1) for word in words if word.startswith("--") and "=" in word)
    return {**named, "command": " ".join(word for word in words if word.partition("=")[0] not in named)}


def _flat(value: Any) -> str:
    return " ".join(map(_flat, value)) if isinstance(value, list | tuple) else str(value)


def size_of(folder: Path) -> int:
    """Return the bytes that a folder's files take, links not followed."""
    total = 0
    for place, _, names in os.walk(folder, onerror=None):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue
    return total


def cleanable(found: Sequence[Run], older_than: timedelta, keep: int, now: datetime) -> tuple[list[Run], list[Run]]:
    """Return (runs whose directory may go, those that stay although they are old enough); newest first.

    Only what has ended goes: COMPLETED, FAILED, …, NOT_SUBMITTED, and what was interrupted while it was made. UNKNOWN
    may still run, RENDERED may have been submitted by hand.
    """
    ordered = sorted(found, key=lambda run: run.created, reverse=True)
    old = [run for run in ordered[keep:] if _age(run, now) >= older_than]
    ended = [
        run
        for run in old
        if run.index < 0 and run.state in _ENDED and (run.state != "INCOMPLETE" or _age(run, now) > _UNFINISHED_AFTER)
    ]
    return ended, [run for run in old if run not in ended]


def why_it_stays(run: Run) -> Fault:
    """Return why this run's directory is not deleted, and what could be done."""
    name = run.label
    if run.index >= 0:
        whole = run.home.name
        return Fault(what=f"{name} is part of {whole}, which goes as a whole", next=f"hpclaunch runs clean {whole}")
    steps = {
        "RENDERED": f"it may have been submitted by hand; if not: rm -r {shlex.quote(str(run.path))}",
        "UNKNOWN": f"hpclaunch status {name} asks again; it may still run",
        "SUBMITTING": f"hpclaunch status {name} asks whether it was queued",
        "INCOMPLETE": "it may still be in the making; try again in an hour",
    }
    return Fault(what=f"{name} is {run.state} and stays", next=steps.get(run.state, f"hpclaunch cancel {name}"))


def _age(run: Run, now: datetime) -> timedelta:
    try:
        return now - datetime.strptime(run.created, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return timedelta(0)


def measure(found: Sequence[Run]) -> list[Doomed]:
    """Return the runs with the size of their directories."""
    return [Doomed(run=run, size=size_of(run.path)) for run in found]


def delete(system: System, doomed: Sequence[Run], tell: Callable[[str], None]) -> list[Run]:
    """Delete run directories, and forget them. Each is looked at once more: one that was started again stays.

    Returns those that are gone. Raises Refused where something could not be deleted.
    """
    gone, faults = [], []
    for run in doomed:
        with runs.locked(run.path):
            try:
                current = runs.load(run.path)
            except NotFound as error:
                tell(f"{run.label} is gone or damaged, and left as it is: {error.faults[0].what}")
                continue
            if (current.state, current.job_id) != (run.state, run.job_id) or run.path.is_symlink():
                tell(f"{run.label} has changed meanwhile, and stays")
                continue
            try:
                shutil.rmtree(run.path)
                gone.append(run)
            except OSError as error:
                faults.append(Fault(where=str(error.filename or run.path), what=f"cannot be deleted: {error.strerror}"))
    runs.forget(system.index, [run.path for run in gone])
    if faults:
        raise Refused(faults)
    return gone


def rebuild(system: System, folders: Sequence[Path]) -> Rebuilt:
    """Write the list of runs anew from their directories. Raises Refused."""
    missing = [folder for folder in folders if not os.path.isdir(folder)]
    if missing:
        raise Refused([Fault(where=str(folder), what="is not a folder") for folder in missing])
    try:
        return runs.rebuild(system.index, [*(folder.resolve() for folder in folders), *system.run_folders])
    except OSError as error:
        what = f"the list of runs cannot be written: {error.strerror}"
        raise Refused(
            Fault(where=str(system.index), what=what, next="set XDG_STATE_HOME to a folder of yours")
        ) from None
