"""The virtual or conda environment that is active in the submitting shell, which a run takes if no file names another.

It looks at the names of a few folders, and starts no program.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from hpclaunch.actions.system import System
from hpclaunch.config.catalog import bundled
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.environment.framework import PACKAGES

_FRAMEWORKS = ("tensorflow", "torch", "jax", "horovod", "mpi4py")
"""Packages by which an environment shows that it is meant for training."""
_VARIABLES = ("VIRTUAL_ENV", "CONDA_PREFIX")


@record
class ActivePython:
    """An active environment: ``kind`` is ``venv`` or ``conda``, ``packages`` are the frameworks that it has.

    ``by_default``: conda activates it in every shell. ``runs_hpclaunch``: hpclaunch is installed in it.
    """

    kind: str
    folder: str
    packages: tuple[str, ...]
    by_default: bool = False
    runs_hpclaunch: bool = False


def with_active_python(system: System, case: Case) -> Case:
    """Return the case with the active environment in its request, if it takes it, else with the reason as a notice.

    Flags, the job file and the settings count more: their environment was chosen for this run, and the active one may
    be active by habit. A script for another machine takes none.
    """
    site, request, context = case.site, case.request, case.context
    program, path = site.scheduler_row.start_command, system.environment.get("PATH", "")
    starts_here = not site.scheduler_row.has_queue or shutil.which(program, path=path)
    if request.python or request.venv or request.conda or request.environment or context.other_site or not starts_here:
        return case
    active = active_python(system.environment)
    if active is None or (active.runs_hpclaunch and site.environment.python == "current"):
        return case
    reason, words = _why_not(active, case), f"the active {active.kind} {active.folder}"
    if reason:
        notice = f"{words} is not taken: {reason}; --{active.kind} {shell_word(active.folder)} takes it"
        return replace(case, context=replace(context, notices=(notice, *context.notices)))
    taken = replace(request, venv=active.folder) if active.kind == "venv" else replace(request, conda=active.folder)
    return replace(case, request=taken, context=replace(context, active=words))


def _why_not(active: ActivePython, case: Case) -> str:
    """Return why a run does not take the active environment; empty if it does."""
    job = case.job
    if job.environment.has_python:
        return f"the job {job.name} names its own Python"
    if case.settings.environment_at(case.site.name).has_python:
        return "the settings name another Python"
    lacking = [name for name in PACKAGES.get(job.framework or "", ()) if name not in active.packages]
    if lacking and Path(job.folder).parent == bundled("jobs"):
        return f"it has no {' and no '.join(lacking)}, which {job.name} needs"
    if not active.packages and active.runs_hpclaunch:
        return "it runs hpclaunch, and has none of " + ", ".join(_FRAMEWORKS)
    if not active.packages and active.by_default:
        return "conda activates it in every shell, and it has none of " + ", ".join(_FRAMEWORKS)
    return ""


def active_python(environment: Mapping[str, str]) -> ActivePython | None:
    """Return the active environment; None if there is none. Of two, the one that comes first on PATH counts."""
    folders = [os.path.normpath(folder) for folder in environment.get("PATH", "").split(os.pathsep) if folder]
    named = [(name, environment.get(name, "")) for name in _VARIABLES]
    places = {
        folders.index(os.path.normpath(f"{folder}/bin")): (name, folder)
        for name, folder in named
        if folder.startswith("/") and os.path.normpath(f"{folder}/bin") in folders
    }
    if not places:
        return None
    name, folder = places[min(places)]
    libraries = list(Path(folder).glob("lib/python3*/site-packages"))
    return ActivePython(
        kind="venv" if name == "VIRTUAL_ENV" else "conda",
        folder=folder,
        packages=tuple(name for name in _FRAMEWORKS if any((library / name).is_dir() for library in libraries)),
        by_default=name == "CONDA_PREFIX" and environment.get("CONDA_DEFAULT_ENV") == "base",
        runs_hpclaunch=os.path.realpath(folder) == os.path.realpath(sys.prefix),
    )


def without_active_python(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment as if none were active, for a run whose Python was chosen when it was submitted."""
    return MappingProxyType({name: value for name, value in environment.items() if name not in _VARIABLES})
