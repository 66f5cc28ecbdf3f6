"""``runs adopt``: takes run directories into the user's own runs, where each is now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hpclaunch import runs
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Fault, HpclaunchError, Refused
from hpclaunch.core.users import user_name
from hpclaunch.runs import Run


def adopt(system: System, folders: Sequence[Path]) -> list[Run]:
    """Make the runs in these directories the user's own, and return them. Asks no scheduler.

    It is for a run that was moved, and for one of another home or an older version. Raises Refused, with every reason,
    for a directory that is not a run's or that belongs to another user; then none is adopted.
    """
    found: list[Run] = []
    faults: list[Fault] = []
    for folder in folders:
        try:
            found.append(_load_own_directory(Path(os.path.realpath(folder))))
        except HpclaunchError as error:
            faults += error.faults
    if faults:
        raise Refused(faults)
    return [_adopt_run(system, run) for run in found]


def _load_own_directory(path: Path) -> Run:
    run = runs.load(path)
    owners = {os.stat(file).st_uid for file in (path, path / runs.RECORD)} - {os.geteuid()}
    if owners:
        what = f"belongs to the user with uid {min(owners)}"
        raise Refused(Fault(where=str(path), what=what, next="only a directory of yours can be adopted"))
    return run


def _adopt_run(system: System, run: Run) -> Run:
    try:
        adopted = runs.adopt(system.index.parent, run, user_name())
    except OSError as error:
        what = f"cannot be adopted: {error.strerror}"
        next_step = "make both writable; another place for the list of your runs: set XDG_STATE_HOME"
        raise Refused(Fault(where=str(run.path), what=what, next=next_step)) from None
    problem = runs.remember(system.index, run.path)
    if problem:
        system.warn(problem)
    return adopted
