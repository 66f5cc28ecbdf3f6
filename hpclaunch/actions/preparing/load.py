"""Loads the case of a request: site, job and settings from their files, the context from this machine."""

from __future__ import annotations

import os
from dataclasses import replace

from hpclaunch.actions.place import choose_site, context_at, looked_at
from hpclaunch.actions.preparing.active_python import with_active_python
from hpclaunch.actions.system import System
from hpclaunch.config.job import Job, load_job, looks_like_path
from hpclaunch.config.settings import PROJECT_FILE, load_settings
from hpclaunch.config.site import Site
from hpclaunch.core.spec import Request
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.environment.folders import expanded, has_variables
from hpclaunch.resolve.environment.framework import needs_reading
from hpclaunch.resolve.nodes.placement import unlisted_places
from hpclaunch.resolve.program.recipes import sized
from hpclaunch.resolve.script.clusters import asked_clusters
from hpclaunch.runs.code_folder import CodeFolders
from hpclaunch.sites.detect import check_settings

_COMPACT = str.maketrans({"-": "", ":": "", "T": "-", "Z": ""})
"""2026-01-02T03:04:05Z -> 20260102-030405"""


def load(system: System, request: Request, runs_dir: str | None = None, job: Job | None = None) -> Case:
    """Return the case of a request. A given ``job`` replaces the job that the request names.

    Writes nothing, and runs a program only for a partition or QOS that the site file lacks: on the site's own machine
    its scheduler is asked for the names. Raises HpclaunchError for a file that cannot be used.
    """
    settings = load_settings(system.catalog)
    check_settings(system.catalog, settings)
    chosen = choose_site(system, request.site, settings)
    folders = CodeFolders()
    job = job or load_job(system.catalog, request.target, system.cwd, folders.content)
    job = replace(job, in_place=True) if request.code_in_place else job
    context = context_at(system, request, chosen)
    context = replace(context, notices=tuple(_own_files(system, job, request, chosen.site)))
    site, context = looked_at(chosen.site, context)
    case = Case(site=site, job=job, request=request, settings=settings, context=context, code_folders=folders)
    if request.environment is not None:
        from hpclaunch.actions.environments.named import with_named_environment  # only who names one needs it

        case = with_named_environment(system, case)
    case = sized(case)
    if request.sweep:
        from hpclaunch.actions.preparing.program_source import with_program_options  # loads a parser of Python

        case = with_program_options(case)
    if needs_reading(case):
        from hpclaunch.actions.preparing.program_source import with_program_imports  # the same

        case = with_program_imports(case)
    return with_run_dir(system, with_active_python(system, _add_live_names(case)), runs_dir)


def _add_live_names(case: Case) -> Case:
    """Return the case with the scheduler's own partitions or QOS, if one is named that the site file lacks."""
    unlisted = unlisted_places(case)
    if not unlisted:
        return case
    from hpclaunch.actions.preparing.this_machine import misplaced
    from hpclaunch.resolve.nodes.live_nodes import with_live_nodes
    from hpclaunch.schedulers import scheduler_of

    if misplaced(case):
        return case
    scheduler = scheduler_of(case.site.scheduler)
    with scheduler.asking(asked_clusters(case)[1]):
        live = scheduler.live_names(unlisted)
    return with_live_nodes(replace(case, context=replace(case.context, live=live)), unlisted.get("partition", ()))


def with_run_dir(system: System, case: Case, runs_dir: str | None = None) -> Case:
    """Return the case with the path of a new run directory, which only this case has."""
    return replace(case, context=replace(case.context, run_dir=_run_dir(system, case, runs_dir)))


def _run_dir(system: System, case: Case, runs_dir: str | None) -> str:
    """Return the path of a new run directory. Precedence of its folder: flag, variable, settings, site, ./runs."""
    offers = [system.environment.get("HPCLAUNCH_RUNS_DIR"), case.settings.offer("runs_dir", case.site.name)[1]]
    offers.append(case.site.folders.runs)
    folders = [expanded(offer, case.context) for offer in offers if offer]
    folder = runs_dir or next((folder for folder in folders if not has_variables(folder)), "runs")
    root = os.path.realpath(os.path.join(system.cwd, folder))
    when = case.context.now.translate(_COMPACT)
    return f"{root}/{case.run_name}-{when}-{system.unique()}"


def _own_files(system: System, job: Job, request: Request, site: Site) -> list[str]:
    """Return a notice for each file of the user or the project that is used instead of a bundled one."""
    from hpclaunch.config.catalog import JOB, SITE, FileFamily

    wanted: list[tuple[FileFamily, str]] = [(SITE, site.name)]
    if not job.source_only and not looks_like_path(request.target):
        wanted.append((JOB, request.target))
    files = [(family.noun, system.catalog.find(family, name)) for family, name in wanted]
    notices = [
        f"the {noun} is the {file.origin}'s own: {file.path}" for noun, file in files if file.origin != "bundled"
    ]
    for noun, name in ((SITE.noun, SITE.folder), (JOB.noun, JOB.folder), ("template", "templates")):
        for origin, folder in system.catalog.roots(name):
            if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK):
                notices.append(f"the {noun} files of the {origin} are not used, as you may not read {folder}")
    if os.path.isfile(system.cwd / PROJECT_FILE):
        notices.append(f"the project's settings apply: {system.cwd / PROJECT_FILE}")
    return notices
