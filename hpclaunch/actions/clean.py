"""The story of ``runs clean`` and ``rebuild``: deleting run directories, and writing the list of runs again."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch import runs
from hpclaunch.actions.inspect import size_of
from hpclaunch.core.errors import Fault, NotFound, Refused
from hpclaunch.core.records import record
from hpclaunch.runs import FINAL, Run

if TYPE_CHECKING:
    from hpclaunch.actions.system import System
    from hpclaunch.runs import Rebuilt

_ENDED = FINAL | {"INCOMPLETE"}
_UNFINISHED_AFTER = timedelta(hours=1)
"""A directory that is INCOMPLETE for longer belongs to a submission that was interrupted."""


@record
class Doomed:
    """A run directory that cleaning would delete, and its size in bytes."""

    run: Run
    size: int


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
    """Write the list of runs again from their directories. Raises Refused."""
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
