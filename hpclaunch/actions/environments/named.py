"""The environment that a request names: it is looked up and tested before anything is queued; it starts no program."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from hpclaunch.actions.environments import kept
from hpclaunch.actions.environments.kept import KeptEnvironment
from hpclaunch.actions.environments.python_packages import lacking_in
from hpclaunch.actions.system import System
from hpclaunch.config.fileformat import Environment
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.quoting import shell_word
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.environment.framework import packages_of


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
    return replace(case, made=_activation(build), request=replace(case.request, environment=str(build.path)))


def _activation(build: KeptEnvironment) -> Environment:
    """Return the environment that a run of the build has."""
    made = Environment(modules=build.texts("modules"), setup=build.texts("setup"))
    if build.is_image:
        return replace(made, container=os.path.realpath(build.folder), python=build.value("python"))
    if build.value("make_with") == "conda":
        return replace(made, conda=str(build.folder))
    return replace(made, venv=str(build.folder))


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
    if not build.is_image and not python.exists() and not build.recipe.get("in_job"):
        return [Fault(where=where, what=f"its Python {python} is no longer there", next=f"{make} --again")]
    return []


def _missing_packages(case: Case, build: KeptEnvironment) -> list[Fault]:
    """Return which packages of the program the environment lacks."""
    lacking = [] if build.is_image else lacking_in(build.folder, packages_of(case))
    if not lacking:
        return []
    needs = f"has no {' and no '.join(lacking)}, which {case.job.name} needs"
    what = f"it was made for {build.value('framework')}, and {needs}"
    return [Fault(where=f"the environment {build.name}", what=what, next="hpclaunch environment list names others")]
