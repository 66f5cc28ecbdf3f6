"""Deletes run directories (``runs clean``), and writes the list of runs again (``runs rebuild``)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch import runs
from hpclaunch.actions.following.identity import obstacle, other_users
from hpclaunch.actions.following.inspect import size_of
from hpclaunch.core.errors import Fault, NotFound, Refused, unwritable
from hpclaunch.core.files import json_object, read_text
from hpclaunch.core.locks import locked
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.core.run_states import FINAL
from hpclaunch.runs import Run
from hpclaunch.runs.create import REQUEST

if TYPE_CHECKING:
    from hpclaunch.actions.system import System
    from hpclaunch.runs import Rebuilt

_ENDED = FINAL | {"INCOMPLETE"}
_UNFINISHED_AFTER = timedelta(hours=1)
"""A directory that stays INCOMPLETE for longer belongs to an interrupted submission."""


@record
class Deletion:
    """A run directory to delete, and its size in bytes."""

    run: Run
    size: int


def of_folder(system: System, found: Sequence[Run]) -> list[Run]:
    """Return the runs of the current folder: those that were submitted there or below, or whose directories are."""
    here = system.cwd.resolve()
    return [run for run in found if run.path.is_relative_to(here) or _submission_folder(run).is_relative_to(here)]


def _submission_folder(run: Run) -> Path:
    """Return the folder in which the run was submitted; that of its directory if this is not known."""
    folder = json_object(read_text(run.home / REQUEST)).get("cwd")
    return Path(folder) if isinstance(folder, str) else run.home


def of_this_user(found: Sequence[Run]) -> list[Run]:
    """Return the runs whose directories belong to this user: nobody deletes those of others."""
    return [run for run in found if _owner_of(run.path) == os.geteuid()]


def refuse_others(found: Sequence[Run]) -> None:
    """Raise Refused if a directory belongs to another user."""
    others = [run for run in found if run not in of_this_user(found)]
    if others:
        step = "ls -ld names its owner"
        raise Refused([Fault(where=str(run.path), what="belongs to another user", next=step) for run in others])


def _owner_of(path: Path) -> int:
    try:
        return os.lstat(path).st_uid
    except OSError:
        return os.geteuid()  # it is gone; `delete` says so


def cleanable(found: Sequence[Run], older_than: timedelta, keep: int, now: datetime) -> tuple[list[Run], list[Run]]:
    """Return (runs whose directory can be deleted, runs that are old enough but are kept), in the order of ``found``.

    It has the newest first. Runs that have ended can be deleted, and directories that were never finished. A run that
    is UNKNOWN may still be running, and one that is RENDERED may have been submitted by hand. A run that is not known
    as this user's is always kept, and is none of the ``keep`` newest: its record may have any time.
    """
    own = [run.path for run in found if other_users(run) is None]
    newest, own_paths = set(own[:keep]), set(own)
    old = [run for run in found if run.path not in newest and _age(run, now) >= older_than]
    ended = [
        run
        for run in old
        if run.index < 0
        and run.state in _ENDED
        and run.path in own_paths
        and (run.state != "INCOMPLETE" or _age(run, now) > _UNFINISHED_AFTER)
    ]
    return ended, [run for run in old if run not in ended]


def explain_kept(run: Run) -> Fault:
    """Return why this run's directory is kept, and what to do."""
    name = run.label
    fault = other_users(run) if run.final else obstacle(run)
    if fault:
        return fault
    if run.index >= 0:
        array = run.home.name
        what = f"{name} is one run of the job array {array}, which can only be deleted completely"
        return Fault(what=what, next=f"hpclaunch runs clean {array}")
    steps = {
        "RENDERED": f"check that it was not submitted by hand, then: rm -r {shell_word(str(run.path))}",
        "UNKNOWN": f"it may still be running; to ask the scheduler again: hpclaunch status {name}; if its end "
        f"stays unknown: hpclaunch runs forget {name}",
        "SUBMITTING": f"to see whether it was queued: hpclaunch status {name}",
        "INCOMPLETE": "a submission may still be writing it; try again in an hour",
    }
    return Fault(what=f"{name} is {run.state} and is kept", next=steps.get(run.state, f"hpclaunch cancel {name}"))


def _age(run: Run, now: datetime) -> timedelta:
    try:
        return now - datetime.strptime(run.created, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return timedelta(0)


def measure(found: Sequence[Run]) -> list[Deletion]:
    """Return the runs with the size of their directories."""
    return [Deletion(run=run, size=size_of(run.path)) for run in found]


def delete(system: System, deletions: Sequence[Run], tell: Callable[[str], None]) -> list[Run]:
    """Delete run directories and remove them from the list of runs; a run that was started again meanwhile is kept.

    Returns the deleted runs. Raises Refused if a directory could not be deleted.
    """
    deleted: list[Run] = []
    faults: list[Fault] = []
    for run in deletions:
        with locked(run.path):
            try:
                current = runs.load(run.path)
            except NotFound as error:
                tell(f"{run.label} is missing or damaged, and is not touched: {error.faults[0].what}")
                continue
            if (current.state, current.job_id) != (run.state, run.job_id) or run.path.is_symlink():
                tell(f"{run.label} has changed meanwhile, and is kept")
                continue
            try:
                shutil.rmtree(run.path)
                deleted.append(run)
            except OSError as error:
                faults += unwritable(error.filename or run.path, error, "cannot be deleted").faults
    runs.forget(system.index, [run.path for run in deleted])
    runs.unlist_own(system.index.parent, deleted)
    if faults:
        raise Refused(faults)
    return deleted


def rebuild(system: System, folders: Sequence[Path]) -> Rebuilt:
    """Write the list of runs again from the run directories. Raises Refused."""
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
