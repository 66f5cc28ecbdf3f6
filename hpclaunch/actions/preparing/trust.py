"""Trust in project folders: what of a project may run on this machine without another question; it runs nothing.

Reading a project's files needs no trust. A program of the project does, before it runs on the machine where the user
types: what ``plan`` starts to measure a model, what ``data fetch`` starts to make data, and what the project adds to a
run without a scheduler. Trust is asked for once and kept by path outside the project.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.config.catalog import JOB, SITE
from hpclaunch.config.settings import OF_PROJECT, PROJECT_FILE
from hpclaunch.core.consents import keeper_of, make_private
from hpclaunch.core.errors import Fault, NotFound, Refused
from hpclaunch.core.files import append_line, read_text, write_text
from hpclaunch.core.folders import state_folder
from hpclaunch.core.protection import weak_places
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.runs.code_files import code_files

if TYPE_CHECKING:
    from hpclaunch.actions.system import System
    from hpclaunch.config.fileformat import Environment
    from hpclaunch.config.job import Job
    from hpclaunch.resolve.case import Case

_FILE = "trusted-folders.txt"
"""One folder a line, as JSON text, because a path may hold any character."""
_MOST_SHOWN = 20
_CODE = (".py", ".sh", ".so")
"""The endings of files that a job's program may run or import."""


def trusted_folders(environment: Mapping[str, str]) -> list[Path]:
    """Return the folders that the user trusts, sorted; skips damaged lines.

    A list that somebody else can change counts as empty.
    """
    keeper = keeper_of(environment)
    if weak_places(_file(environment), keeper.home):
        return []
    folders = map(_folder_in, read_text(_file(environment)).splitlines())
    return sorted({folder for folder in folders if folder is not None})


def _file(environment: Mapping[str, str]) -> Path:
    return state_folder(environment) / _FILE


def _folder_in(line: str) -> Path | None:
    try:
        text = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return Path(text) if isinstance(text, str) and text.startswith("/") else None


def is_trusted(environment: Mapping[str, str], folder: Path) -> bool:
    """Whether the user trusts exactly this folder, wherever links lead to it from, and nobody else can change it."""
    path = _real_path(folder)
    return path in trusted_folders(environment) and not keeper_of(environment).doubtful(path)


def _real_path(folder: Path) -> Path:
    return Path(os.path.realpath(folder))


def trust_folder(environment: Mapping[str, str], folder: Path, despite_group: bool = False) -> Path:
    """Trust a folder from now on, and return its path without links.

    With ``despite_group`` also if others can change it, and then its files are taken as those of a folder that only
    this user can change. Raises Refused, and ChangeableByOthers for such a folder without ``despite_group``.
    """
    path, file, keeper = _real_path(folder), _file(environment), keeper_of(environment)
    if not path.is_dir():
        raise Refused(Fault(where=str(path), what="is not a folder", next="name the folder of a project"))
    if not despite_group:
        keeper.require(path, path, outcome="is not trusted")
    try:
        if despite_group:
            keeper.consent(path)
        make_private(file)
        keeper.require_own(file)
        if path not in trusted_folders(environment):
            append_line(file, json.dumps(str(path)))
    except OSError as error:
        raise _unwritable(file, error) from None
    return path


def remove_trust(environment: Mapping[str, str], folder: Path) -> Path:
    """Trust a folder no longer, and return its path. Raises NotFound if it is not trusted, and Refused."""
    path, file = _real_path(folder), _file(environment)
    folders = trusted_folders(environment)
    try:
        was_consented = keeper_of(environment).withdraw(path)
    except OSError as error:
        raise _unwritable(file, error) from None
    if path not in folders and not was_consented:
        raise NotFound(Fault(where=str(path), what="is not a trusted folder", next="hpclaunch trust --list"))
    try:
        write_text(file, "".join(f"{json.dumps(str(other))}\n" for other in folders if other != path))
    except OSError as error:
        raise _unwritable(file, error) from None
    return path


def _unwritable(file: Path, error: OSError) -> Refused:
    what = f"the list of trusted folders cannot be written: {error.strerror}"
    return Refused(Fault(where=str(file), what=what, next="set XDG_STATE_HOME to a folder of yours"))


@record
class Program:
    """Something of a project that would run on this machine, in words; trust in any of ``folders`` allows it."""

    words: str
    folders: tuple[Path, ...]


def model_refusal(system: System, case: Case) -> str:
    """Return why the project's code and set-up may not run to measure the case's model; empty if they may.

    Asks the user if nothing was decided before.
    """
    model = case.job.training.model if case.job.training else None
    programs = [*_job_programs(system, case.job, f"the model {model}"), *_project_programs(system, case)]
    return _refusal(system, programs) or _code_of_others(system, case.job)


def data_refusal(system: System, job: Job) -> str:
    """Return why the job's program that makes its data set may not run on this machine; empty if it may.

    Asks the user if nothing was decided before: who fetches data does not expect that a project's code runs.
    """
    make = job.data.make if job.data else None
    if make is None:
        return ""
    return _refusal(system, _job_programs(system, job, f"the program {make.program}")) or _code_of_others(system, job)


def run_refusal(system: System, case: Case) -> str:
    """Return why a run that starts at once on this machine may not; empty if it may.

    Asks the user if nothing was decided.
    A job or a script of the project that the user named is what the user wants to run. The question is about what the
    user did not name: what the project adds to a job from elsewhere, and a job that hides another one of that name.
    """
    job = case.job
    if _is_of_project(system, job):
        return _refusal(system, _job_programs(system, job, "the program")) if _hides_another(system, job) else ""
    folder = _real_path(Path(job.folder))
    if job.source_only and _real_path(system.cwd) in (folder, *folder.parents):
        return ""
    return _refusal(system, [*_project_programs(system, case), *_template_programs(system)])


def _is_of_project(system: System, job: Job) -> bool:
    """Whether a job is defined in the project. The bundled jobs of a checkout are not."""
    return any(origin == "project" and Path(job.folder).parent == root for origin, root in system.catalog.roots("jobs"))


def _hides_another(system: System, job: Job) -> bool:
    others = [root for origin, root in system.catalog.roots(JOB.folder) if origin != "project"]
    return any((root / JOB.entry.format(job.name)).is_file() for root in others)


def _job_programs(system: System, job: Job, program: str) -> list[Program]:
    """Return what a job of the project would run; nothing for a job from elsewhere."""
    if not _is_of_project(system, job):
        return []
    folders = (_real_path(system.cwd), _real_path(Path(job.folder)))
    lines = [f"{program} of {job.folder}", *_set_up_lines(f"job {job.name}", job.environment)]
    return [Program(words=line, folders=folders) for line in lines]


def _code_of_others(system: System, job: Job) -> str:
    """Return which programs of a project's job somebody else can change; empty if none.

    A folder that is trusted can hold a link to a file in a folder of others. Raises UnusableCode.
    """
    if not _is_of_project(system, job):
        return ""
    folder = Path(job.folder)
    found = code_files(folder)
    for name in (*found.folder_links, *(name for name in found.names if name.endswith(_CODE))):
        file = folder / name
        weak = system.keeper.doubtful(file)
        if weak:
            command = f"hpclaunch trust {shell_word(str(file.resolve().parent))} --despite-group"
            return f"others can change {file}: {'; '.join(map(str, weak))} (if you trust them: {command})"
    return ""


def _project_programs(system: System, case: Case) -> list[Program]:
    """Return what the project's settings and the project's site add to every job."""
    name = case.site.name
    own = [level for origin, level in case.settings.levels(name) if origin == OF_PROJECT]
    lines = [line for level in own for line in _set_up_lines(PROJECT_FILE, level.environment)]
    file = system.catalog.find(SITE, name)
    if file.origin == "project":
        lines.append(f"what the site {name} sets up ({file.path})")
        environments = [case.site.environment, *case.site.frameworks.values()]
        for node in case.site.node_types.values():
            environments += [*([node.environment] if node.environment else []), *node.frameworks.values()]
        lines += [line for each in environments for line in _set_up_lines(f"site {name}", each)]
    return [Program(words=line, folders=(_real_path(system.cwd),)) for line in lines]


def _set_up_lines(origin: str, environment: Environment) -> list[str]:
    """Return the values of an environment: each starts a program, or chooses which one starts."""
    values = {
        **{f"environment.{field.name}": getattr(environment, field.name) for field in fields(environment)},
        "environment.variables": [f"{name}={value}" for name, value in environment.variables.items()],
    }
    if environment.python == "current":  # the Python that runs already
        del values["environment.python"]
    return [f"{origin}, {key}: {line}" for key, value in values.items() for line in _texts(value)]


def _texts(value: object) -> list[str]:
    if not value:
        return []
    return [str(text) for text in value] if isinstance(value, list | tuple) else [str(value)]


def _template_programs(system: System) -> list[Program]:
    """Return the project's own templates, each of which can change any line of a script."""
    folders = [folder for origin, folder in system.catalog.roots("templates") if origin == "project"]
    files = [path for folder in folders for pattern in ("*.j2", "*.sh") for path in sorted(folder.glob(pattern))]
    return [Program(words=f"the template {path}", folders=(_real_path(system.cwd),)) for path in files]


def _refusal(system: System, programs: list[Program]) -> str:
    """Return why the programs may not run; empty if the user trusts the folders of all, or trusts the project now."""
    known = {folder for program in programs for folder in program.folders}
    trusted = {folder for folder in known if is_trusted(system.environment, folder)}
    doubtful = [program.words for program in programs if not trusted.intersection(program.folders)]
    if not doubtful:
        return ""
    folder = _real_path(system.cwd)
    shown = [*doubtful[:_MOST_SHOWN], *([f"and {len(doubtful) - _MOST_SHOWN} more"] if doubtful[_MOST_SHOWN:] else [])]
    system.tell(f"{folder} is not a trusted folder. This of it would run on this machine:")
    for words in shown:
        system.tell(f"  {words}")
    weak = system.keeper.doubtful(folder)
    if weak:
        system.tell(f"Others can change this folder: {'; '.join(map(str, weak))}")
    if system.confirm(f"trust this folder{' all the same' if weak else ''}, now and later? [y/N]"):
        trust_folder(system.environment, folder, despite_group=bool(weak))
        return ""
    command = f"hpclaunch trust {shell_word(str(folder))}{' --despite-group' if weak else ''}"
    return f"{folder} is not a trusted folder (to trust it: {command})"
