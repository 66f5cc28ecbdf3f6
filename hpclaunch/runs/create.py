"""Makes a run directory: script, code, spec, and the circumstances of the submission; it submits nothing."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.files import send_text, sync_folder, write_new
from hpclaunch.core.records import record
from hpclaunch.core.spec import LIBRARY, SAMPLER, JobSpec, Script
from hpclaunch.runs.directories import exchanged, make_directory
from hpclaunch.runs.ownership import new_token
from hpclaunch.runs.record import Run, save
from hpclaunch.runs.snapshot import FROM_OUTSIDE, Snapshot, copy
from hpclaunch.runs.sweep_values import write_values

REQUEST = "request.json"
CODE_FILES = "code_files"
"""The key in environment.json of the names of the user's files that were copied to code/."""
FOLDERS = ("logs", "attempts", "checkpoints")
_RECORDED_VARIABLES = (
    "CONDA_DEFAULT_ENV",
    "CONDA_PREFIX",
    "LMOD_SYSTEM_NAME",
    "LOADEDMODULES",
    "SLURM_JOB_ID",
    "VIRTUAL_ENV",
)
"""Variables that name the user's software. No other variable is recorded, as some hold secrets."""


@record
class Submission:
    """Where a run comes from: the submitting host, folder and environment, the state of the code, and the request."""

    host: str
    folder: str = ""
    git: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)


def create(
    spec: JobSpec,
    script: Script,
    snapshot: Snapshot,
    submission: Submission,
    announce: Callable[[Run], None] = lambda run: None,
) -> Run:
    """Write the run directory (mode 0700): code, script, spec, request and environment.

    Its record is written first, as INCOMPLETE; then ``announce`` is called, which lists the run. The directory of a
    sweep holds the directories of all its runs, which the script makes as the runs begin. Raises Refused if the
    directory exists or cannot be written; a half-written directory is left for inspection.

    Only the directory's name is waited for. All other files are sent to the disk, and are safe there when the record
    says SUBMITTING, which is waited for before any scheduler is asked (`actions.queueing.hand_over`): at most six calls
    of fsync for a submission, where each may take a second.
    """
    path = Path(spec.run_dir)
    run = Run(
        path=path,
        name=spec.name,
        site=spec.site,
        scheduler=spec.scheduler,
        created=spec.created,
        state="INCOMPLETE",
        reason="the run directory is not complete yet, and nothing is queued",
        host=submission.host,
        user=_user_name(),
        uid=str(os.getuid()),
        token=new_token(),
        git=submission.git,
        tasks=spec.sweep.count if spec.sweep else 0,
    )
    try:
        _make_folder_of_runs(path.parent)
        made = make_directory(path)
        sync_folder(path.parent)
        run = save(replace(run, inode=made.st_ino), write=write_new)
        announce(run)
        _fill(spec, script, snapshot, submission)
        run = save(replace(run, state="RENDERED", reason=""), write=send_text)
        if not os.path.samestat(made, os.lstat(path)):
            raise exchanged(path)
        return run
    except FileExistsError:
        if os.path.isdir(path.parent):
            raise Refused(Fault(where=str(path), what="this run directory exists already", next="try again")) from None
        what = "the place for run directories is not a folder"
        raise Refused(_wrong_folder(path.parent, what)) from None
    except OSError as error:
        what = f"the run directory cannot be written: {error.strerror or error}"
        raise Refused(_wrong_folder(path, what)) from None


def _make_folder_of_runs(folder: Path) -> None:
    """Make the folder of run directories.

    Whoever may write into the folder around it may make runs there too, and delete only their own.
    """
    if os.path.isdir(folder):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir()
    except FileExistsError:  # another process was faster
        if os.path.isdir(folder):
            return
        raise
    around = folder.parent.stat().st_mode
    shared = (stat.S_IRWXG if around & stat.S_IWGRP else 0) | (stat.S_IRWXO if around & stat.S_IWOTH else 0)
    if shared:
        with contextlib.suppress(OSError):
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) | shared | stat.S_ISVTX)


def _wrong_folder(path: Path, what: str) -> Fault:
    return Fault(where=str(path), what=what, next="--runs-dir FOLDER", subject="shared paths")


def _fill(spec: JobSpec, script: Script, snapshot: Snapshot, submission: Submission) -> None:
    path = Path(spec.run_dir)
    for folder in FOLDERS[:1] if spec.sweep else FOLDERS:
        (path / folder).mkdir()
    if spec.sweep:
        write_values(path, spec.sweep)
    copy(snapshot, path / "code")
    write_new(path / LIBRARY, script.library)
    if script.sampler:
        write_new(path / SAMPLER, script.sampler, send=False)  # a run without it only has no samples
    write_new(path / "job.sh", script.text)
    if spec.hosts:
        write_new(path / "hosts", "".join(f"{line}\n" for line in spec.hosts))
    write_new(path / "spec.json", json.dumps(spec.to_json(), indent=2) + "\n")
    write_new(path / REQUEST, json.dumps(submission.request, indent=2) + "\n")
    write_new(path / "environment.json", json.dumps(_submission_facts(submission, snapshot), indent=2) + "\n")


def _submission_facts(submission: Submission, snapshot: Snapshot) -> dict[str, Any]:
    """Return who submitted, where, and with which software; no variable that could hold a secret."""
    environment = submission.environment
    return {
        "user": _user_name(),
        "host": submission.host,
        "system": f"{os.uname().sysname} {os.uname().release} {os.uname().machine}",
        "folder": submission.folder,
        "python": sys.executable,
        "python_version": ".".join(map(str, sys.version_info[:3])),
        "variables": {name: environment[name] for name in _RECORDED_VARIABLES if name in environment},
        CODE_FILES: [] if snapshot.in_place else list(snapshot.files),
        **({FROM_OUTSIDE: list(snapshot.from_outside)} if snapshot.from_outside else {}),
    }


def _user_name() -> str:
    from getpass import getuser  # a dry run needs no name

    try:
        return getuser()
    except (KeyError, OSError):  # a user ID without a name, for example in a container
        return str(os.getuid())
