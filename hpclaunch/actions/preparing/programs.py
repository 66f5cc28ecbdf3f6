"""Commands as programs of a run: those typed after ``--``, and programs on PATH. Nothing is started to find them."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from hpclaunch.actions.system import System
from hpclaunch.config.catalog import JOB
from hpclaunch.config.job import Job, command_job, looks_like_path, script_job
from hpclaunch.core.errors import Fault, NotFound
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.spec import Request
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.environment.folders import expanded


def program_job(system: System, request: Request) -> Job | None:
    """Return the job of a typed command, or of a program on PATH where no job has its name; None for any other target.

    Raises NotFound if the target is neither a job nor a script nor a program.
    """
    if request.as_is:
        return script_job(system.cwd / request.target)
    if request.is_command:
        return command_job(request.target, _folder_of(system, request.target))
    if looks_like_path(request.target):
        return None
    try:
        system.catalog.find(JOB, request.target)
    except NotFound as error:
        if find_on_path(system.environment.get("PATH", os.defpath), request.target):
            return command_job(request.target, _folder_of(system, request.target))
        (fault,) = error.faults
        allowed = f"a job ({fault.allowed}), the path of a script, or a program on PATH"
        raise NotFound(replace(fault, allowed=allowed)) from None
    return None


def _folder_of(system: System, program: str) -> Path:
    """Return the folder that the program is in; the root folder if that is not known."""
    if os.sep in program:
        return (system.cwd / program).parent
    found = find_on_path(system.environment.get("PATH", os.defpath), program)
    return Path(found).parent if found else Path("/")


def find_on_path(path: str, program: str) -> str:
    """Return the path of a program. Folders that depend on where one types do not count."""
    folders = os.pathsep.join(folder for folder in path.split(os.pathsep) if os.path.isabs(folder))
    is_name = program not in ("", ".", "..") and os.sep not in program and "\0" not in program
    return (shutil.which(program, path=folders) or "") if is_name and folders else ""


def missing_program(case: Case) -> list[Fault]:
    """Return why a command that was typed with a path cannot run, or is not on this machine, which would run it."""
    if not _is_command(case.job):
        return []
    program = case.job.command[0]
    if os.sep not in program:
        if case.site.scheduler_row.has_queue or not unseen_program(case):
            return []
        what = "there is no such program on PATH"
        return [
            Fault(where=program, what=what, allowed="a program on PATH, or a path such as ./run", next="check its name")
        ]
    place = Path(case.context.cwd) / program
    allowed = "a program, or the path of a script without -- before it"
    if not place.is_file():
        what = "the program is not a file" if place.exists() else "the program does not exist"
        return [Fault(where=str(place), what=what, allowed=allowed, next="check its path")]
    if not os.access(place, os.X_OK):
        next_step = f"chmod u+x {program}; or hpclaunch submit {program}"
        return [Fault(where=str(place), what="the program cannot be executed", allowed=allowed, next=next_step)]
    return []


def unseen_program(case: Case) -> str:
    """Return the name of a command that is not on PATH here; empty if it is, or was typed with a path."""
    program = case.job.command[0] if _is_command(case.job) else ""
    path = case.context.environment.get("PATH", os.defpath)
    return program if program and os.sep not in program and not find_on_path(path, program) else ""


def _is_command(job: Job) -> bool:
    """Whether the job is a typed command: a script of its own has a file in the job's folder."""
    return job.in_place and not job.script_in_place


def missing_python(case: Case) -> list[Fault]:
    """Return why a typed environment or interpreter is not on this machine; names are looked up by the job itself."""
    request, context = case.request, case.context
    here = Path(context.cwd)
    if request.venv and not (here / expanded(request.venv, context) / "bin/activate").is_file():
        next_step = f"python3 -m venv {shell_word(request.venv)}; or another --venv"
        what, allowed = f"{request.venv} has no bin/activate", "the folder of a virtual environment"
        return [Fault(where="--venv", what=what, allowed=allowed, next=next_step)]
    folder = request.conda if request.conda and "/" in request.conda else ""
    if folder and not (here / expanded(folder, context) / "conda-meta").is_dir():
        what, allowed = f"{folder} has no folder conda-meta", "the name or the folder of a conda environment"
        return [Fault(where="--conda", what=what, allowed=allowed, next="conda env list; then another --conda")]
    python = request.python if request.python and "/" in request.python else ""
    if python and not os.access(here / expanded(python, context), os.X_OK):
        what, allowed = (
            f"{python} is not a program that you may execute",
            "a name, a path, or current",
        )
        return [Fault(where="--python", what=what, allowed=allowed, next=f"ls -l {shell_word(python)}")]
    return []
