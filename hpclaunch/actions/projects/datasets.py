"""``data fetch``: finds a job's data set, its folder and the program that makes it, and stages it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.actions.place import choose_site, context_of
from hpclaunch.actions.preparing.trust import data_refusal
from hpclaunch.actions.projects.data_programs import program_of
from hpclaunch.actions.projects.staging import DatasetSource, stage
from hpclaunch.config.data_sets import layout_in
from hpclaunch.config.job import DATASET, load_job
from hpclaunch.config.settings import load_settings
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.spec import Request
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.folders import data_folder

if TYPE_CHECKING:
    from hpclaunch.actions.system import System


def fetch(system: System, request: Request, source: DatasetSource) -> Path:
    """Stage a job's data set and return its folder. Raises Refused, with the reason.

    It runs a program only for a job whose file names one that makes the data: for a job of the project, after the user
    trusts the project.
    """
    job = load_job(system.catalog, request.target, system.cwd)
    data = job.data_for(request.settings)
    if data is None:
        raise Refused(Fault(what=f"the job {request.target} reads no data set"))
    settings = load_settings(system.catalog)
    site = choose_site(system, request.site, settings).site
    case = Case(site=site, job=job, request=request, settings=settings, context=context_of(system, request))
    folder, _ = data_folder(case, Decisions())
    if not folder:
        raise Refused(Fault(what=f"no data folder is known at {site.name}", next="--data-dir FOLDER"))
    source = _add_program(system, case, source, Path(folder) / data.name)
    return stage(data, source, Path(folder), system.tell)


def _add_program(system: System, case: Case, source: DatasetSource, goal: Path) -> DatasetSource:
    """Return the source with the job's program that makes the data set, if its file names one. Raises Refused."""
    job, request = case.job, case.request
    data = job.data_for(request.settings)
    if data is None or data.make is None:
        _check_settings(case)
        return source
    program = program_of(job, data.make, request.settings, case.context.python)
    if layout_in(goal, data.layouts):
        program.check_kept(goal, source.path)
        return source
    refused = data_refusal(system, job)
    if refused:
        raise Refused(Fault(where=str(program.path), what=f"the program that makes the data may not run: {refused}"))
    return replace(source, program=program)


def _check_settings(case: Case) -> None:
    """Raise Refused for a setting that no program gets, and that does not choose among the job's data sets."""
    job = case.job
    names = [one.name for one in (job.data, *job.other_data) if one] if job.other_data else []
    for name, value in case.request.settings:
        if names and name == DATASET and value in names:
            continue
        what = f"no program makes the data of {job.name}, so nothing can be set"
        if names:
            what = f"only the data set can be chosen ({DATASET}), and no data set is named {value!r}"
        raise Refused(Fault(where=f"--set {name}", what=what, allowed=", ".join(names), next="leave it out"))
