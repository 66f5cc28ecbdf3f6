"""The environment that a request names: it is looked up and tested before anything is queued; it starts no program."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from hpclaunch.actions.environments import kept
from hpclaunch.actions.environments.kept import KeptEnvironment
from hpclaunch.actions.python_packages import lacking_in
from hpclaunch.actions.system import System
from hpclaunch.config.fileformat import Environment
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.quoting import shell_word
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.framework import packages_of


def with_named_environment(system: System, case: Case) -> Case:
    """Return the case with the environment of its request, which then names the folder of the build.

    So a run that is made again gets the same build. Raises NotFound with the known names, ChangeableByOthers, and
    Refused for one that is not complete, is for another site, or lacks what the program needs.
    """
    assert case.request.environment is not None
    build = kept.find(system, case.request.environment)
    faults = _unfit_faults(case, build) or _missing_packages(case, build)
    if faults:
        raise Refused(faults)
    is_conda = build.value("make_with") == "conda"
    made = Environment(
        modules=build.texts("modules"),
        setup=build.texts("setup"),
        conda=str(build.folder) if is_conda else None,
        venv=None if is_conda else str(build.folder),
    )
    return replace(case, made=made, request=replace(case.request, environment=str(build.path)))


def _unfit_faults(case: Case, build: KeptEnvironment) -> list[Fault]:
    """Return why no program can run in this environment at the site of the case."""
    where, site = f"the environment {build.name}", build.value("site")
    make = f"hpclaunch environment make {shell_word(build.name)} --framework {build.value('framework') or 'NAME'}"
    if build.state != kept.COMPLETE:
        log = build.path / kept.LOG
        what = f"its build is {build.state}" + (f": {log}" if log.exists() else "")
        return [Fault(where=where, what=what, next=make)]
    if site != case.site.name:
        what = f"it was built for {site}, and this run is for {case.site.name}"
        return [Fault(where=where, what=what, next=f"another environment, made at {case.site.name}")]
    python = Path(os.path.realpath(build.folder / "bin" / "python"))
    if not python.exists() and not build.recipe.get("in_job"):
        return [Fault(where=where, what=f"its Python {python} is no longer there", next=f"{make} --again")]
    return []


def _missing_packages(case: Case, build: KeptEnvironment) -> list[Fault]:
    """Return which packages of the program the environment lacks."""
    lacking = lacking_in(build.folder, packages_of(case))
    if not lacking:
        return []
    needs = f"has no {' and no '.join(lacking)}, which {case.job.name} needs"
    what = f"it was made for {build.value('framework')}, and {needs}"
    return [Fault(where=f"the environment {build.name}", what=what, next="hpclaunch environment list names others")]
