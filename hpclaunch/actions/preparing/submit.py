"""``submit`` and ``render`` up to the script: load, advise, resolve, render.

It writes nothing but compiled templates and what it has read of YAML files, into the user's cache folder.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.actions.preparing.advice import advised
from hpclaunch.actions.preparing.load import load
from hpclaunch.actions.preparing.programs import program_job
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.folders import cache_folder
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import JobSpec, Request, Script
from hpclaunch.core.units import format_walltime
from hpclaunch.resolve.case import Case

if TYPE_CHECKING:
    from hpclaunch.config.job import Job
    from hpclaunch.core.job_script import JobScript


@record
class Prepared:
    """A resolved and rendered case: the spec, the script, and notices for the user.

    If there are ``faults``, there is no script. ``is_program``: its program can be that of a rank, which is not so of a
    batch script, a notebook or a launcher.
    """

    case: Case
    spec: JobSpec
    script: Script
    notices: tuple[str, ...]
    faults: tuple[Fault, ...] = ()
    is_program: bool = True

    @property
    def text(self) -> str:
        """The script that is shown and submitted."""
        return self.script.text

    @property
    def job_script(self) -> JobScript:
        """The script as its scheduler reads it."""
        from hpclaunch.core.job_script import read_job_script  # a dry run shows the text alone

        return read_job_script(self.text, scheduler_row(self.spec.scheduler))


def prepare(system: System, request: Request, runs_dir: str | None = None, job: Job | None = None) -> Prepared:
    """Load, advise, resolve and render. It runs no program and writes no run directory.

    Raises HpclaunchError for a file that cannot be used. Reasons against the request are returned in ``faults``, so
    that they can be raised together with those that a look at the machine adds.
    """
    job = job or program_job(system, request)
    case = with_predecessors(system, load(system, request, runs_dir, job))
    return prepare_case(system, case if request.as_is else advised(case))


def with_predecessors(system: System, case: Case) -> Case:
    """Return the case with the runs and jobs that it waits for, as recorded. Raises InvalidRequest and NotFound."""
    if not (case.request.after or case.request.after_any):
        return case
    from hpclaunch.actions.preparing.predecessors import recorded_predecessors  # reads the list of runs

    return replace(case, context=replace(case.context, predecessors=recorded_predecessors(system, case.request)))


def prepare_case(system: System, case: Case) -> Prepared:
    """Resolve and render a loaded case; it reads no job or site file and does not ask the planner.

    It looks at the program that the user hands over, which may be a batch script or a launcher.
    """
    if case.request.as_is:
        spec, faults = _foreign_spec(case)
        unsuitable, doubts = list[Fault](), list[str]()
    else:
        from hpclaunch.resolve import resolve

        spec, found = resolve(case)
        unsuitable, doubts = _look_at_program(case, spec)
        faults = [*unsuitable, *found]
    notices = [*spec.warnings, *case.context.notices, *doubts]
    if case.context.other_site:
        notices.append(f"this machine belongs to {case.context.other_site}, but the script is for {spec.site}")
    script, from_templates = (Script(text="", library=""), []) if faults else _render(system, spec)
    return Prepared(
        case=case,
        spec=spec,
        script=script,
        notices=(*notices, *from_templates),
        faults=tuple(faults),
        is_program=not unsuitable,
    )


def _look_at_program(case: Case, spec: JobSpec) -> tuple[list[Fault], list[str]]:
    """Return the faults and the notices about a program that the user hands over; a job with a job file has none."""
    if not case.job.source_only:
        return [], []
    from hpclaunch.actions.preparing.handed_over import (  # 3 ms, with the table of launchers
        doubtful_lines,
        unsuitable_program,
    )

    return unsuitable_program(case, spec), doubtful_lines(case, spec)


def _foreign_spec(case: Case) -> tuple[JobSpec, list[Fault]]:
    """Return the spec of a foreign batch script, which is only read. Raises Refused if it cannot be."""
    from hpclaunch.config.batch_script import head_of
    from hpclaunch.config.job import read_script
    from hpclaunch.resolve.as_is import as_is_spec

    path = Path(case.context.cwd) / case.request.target
    try:
        text = read_script(path).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Refused(Fault(where=case.request.target, what=f"the batch script cannot be read: {reason}")) from None
    return as_is_spec(case, head_of(text), text.split("\n", 1)[0].rstrip("\r"))


def follow_live_limit(system: System, prepared: Prepared) -> Prepared:
    """Return the submission; a run that can restart becomes a chain if the scheduler now allows less time per job.

    The site file may say more than the partition allows today. Only submissions ask the scheduler: the script of a dry
    run depends on files alone (decision 13), so the user gets a notice of the difference.
    """
    from hpclaunch.actions.preparing.this_machine import misplaced
    from hpclaunch.schedulers import scheduler_of

    spec, context = prepared.spec, prepared.case.context
    if prepared.faults or not spec.restarts.most or not spec.walltime or misplaced(prepared.case, spec):
        return prepared
    scheduler = scheduler_of(spec.scheduler)
    with scheduler.asking(spec.clusters):
        limits = [scheduler.longest_walltime(one.partition, one.qos) for one in spec.components]
    longest = min((limit for limit in limits if limit is not None), default=None)
    if longest is None or longest >= spec.walltime:
        return prepared
    followed = prepare_case(system, replace(prepared.case, context=replace(context, longest_job=longest)))
    for notice in followed.notices:
        if notice not in prepared.notices:
            system.warn(f"the scheduler allows {format_walltime(longest)} per job now: {notice}")
    return followed


def follow_predecessors(system: System, prepared: Prepared) -> Prepared:
    """Return the submission with the present states of the runs that it waits for.

    Only submissions ask the scheduler: the script of a dry run depends on what is recorded (decision 13).
    """
    case = prepared.case
    if not case.context.predecessors:
        return prepared
    from hpclaunch.actions.preparing.predecessors import present_predecessors
    from hpclaunch.actions.preparing.this_machine import misplaced

    if misplaced(case, prepared.spec):
        return prepared
    now = present_predecessors(system, case.request, case.site.scheduler, prepared.spec.clusters)
    if now == case.context.predecessors:
        return prepared
    followed = prepare_case(system, replace(case, context=replace(case.context, predecessors=now)))
    for notice in followed.notices:
        if notice not in prepared.notices:
            system.warn(notice)
    return followed


def _render(system: System, spec: JobSpec) -> tuple[Script, list[str]]:
    """Return the script with its library, and a notice if a template of the user replaces the bundled one."""
    from hpclaunch.render import library, override_of, render, sampler  # takes 40 ms, which a refusal does not need

    roots, check = system.catalog.template_roots(), system.catalog.require
    override = override_of(spec, roots)
    notices = [f"the template {override} replaces the bundled one"] if override else []
    text = render(spec, roots, cache=template_cache(system), check=check)
    beside = sampler(roots) if spec.samples else ""
    return Script(text=text, library=library(spec, roots, check), sampler=beside), notices


def standalone(system: System, prepared: Prepared) -> Prepared:
    """Return the submission with a script that contains its library; with faults, unchanged. Raises InvalidFile."""
    from hpclaunch.render import render

    if not prepared.text:
        return prepared
    roots, check = system.catalog.template_roots(), system.catalog.require
    text = render(prepared.spec, roots, standalone=True, cache=template_cache(system), check=check)
    return replace(prepared, script=replace(prepared.script, text=text))


def template_cache(system: System) -> Path:
    """Return the folder of compiled templates."""
    return cache_folder(system.environment) / "templates"
