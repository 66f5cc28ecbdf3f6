"""``plan``: collects what is known of a job and a site; ``planner`` draws the conclusions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from hpclaunch.actions.preparing.load import load
from hpclaunch.actions.preparing.programs import program_job
from hpclaunch.actions.preparing.this_machine import is_foreign
from hpclaunch.actions.system import System
from hpclaunch.config.job import looks_like_path
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.spec import Request
from hpclaunch.resolve.program.recipes import as_typed, recipe_faults

if TYPE_CHECKING:
    from hpclaunch.guidelines.choice import Objective
    from hpclaunch.guidelines.figures import ModelFigures
    from hpclaunch.planner.job.question import Evidence, Question, Queue
    from hpclaunch.planner.values import Forecast
    from hpclaunch.resolve.case import Case


def plan_job(
    system: System,
    request: Request,
    objective: Objective,
    *,
    global_batch: int | None = None,
    calibration: Path | None = None,
    work: float | None = None,
) -> Forecast:
    """Load the files and return the plan. ``global_batch`` in samples; ``work`` as in `plan_case`.

    Raises HpclaunchError.
    """
    case = load(system, request, job=program_job(system, request))
    return plan_case(system, case, objective, global_batch, calibration, work)


def plan_case(
    system: System,
    case: Case,
    objective: Objective,
    global_batch: int | None = None,
    calibration: Path | None = None,
    work: float | None = None,
) -> Forecast:
    """Return the plan of a loaded case. ``global_batch`` in samples. Raises HpclaunchError.

    ``work``: how much a program without a ``training`` section is to train, in the unit of its measured rates. The
    settings of a recipe that the request names count as typed.

    It runs only two programs: a look at the job's model, if its figures are unknown, and the site's scheduler,
    for its queue, on the site's own machines. It writes only what it measured: the model's figures and those of
    finished runs.
    """
    from hpclaunch.planner.forecasting import forecast
    from hpclaunch.planner.job.question import Question
    from hpclaunch.planner.job.workload import divided_batch
    from hpclaunch.planner.measured.calibrations import with_key
    from hpclaunch.planner.measured.finished_runs import evidence_for, with_links

    faults = recipe_faults(case)
    if faults:
        raise Refused(faults)
    case = with_key(as_typed(case))
    site, request = case.site, case.request
    if case.job.training is None:
        if missing := _missing_script(system, case):
            raise Refused(missing)
        found = _plan_of_program(case, objective, global_batch, calibration, work)
        if found is not None:
            return found
    if work is not None:
        raise Refused(_unused_work(case))
    figures, unknown = figures_of(system, case)
    if calibration is not None and figures is None:
        raise Refused(_unused_calibration(calibration, case))
    question = Question(
        case=case,
        figures=figures,
        unknown=unknown,
        evidence=with_links(_evidence_in(calibration, case), case) if calibration else evidence_for(case),
        objective=objective,
        global_batch=global_batch or divided_batch(case.job, request),
    )
    if figures is not None and case.site.scheduler_row.has_queue:
        question = replace(question, queue=_queue(system, question))
    plan = forecast(question)
    if site.status != "retired":
        return plan
    warning = f"the site {site.name} is retired: scripts can be rendered for it, but not submitted"
    return replace(plan, warnings=(*plan.warnings, warning))


def _plan_of_program(
    case: Case, objective: Objective, global_batch: int | None, calibration: Path | None, work: float | None
) -> Forecast | None:
    """Return the plan of a program by its measured points; None if it was not measured."""
    from hpclaunch.planner.job.question import Question
    from hpclaunch.planner.measured.calibration_file import read_calibration
    from hpclaunch.planner.measured.calibrations import place_of
    from hpclaunch.planner.program_plan import ProgramFacts, ProgramPoint, plan_of_program

    place = calibration
    if place is None and case.calibration_key:
        kept = place_of(case.context.environment, case.calibration_key)
        place = kept if kept.is_file() else None
    if place is None:
        return None
    measured = read_calibration(place)
    points = tuple(
        ProgramPoint(
            nodes=point.nodes,
            ranks_per_node=point.ranks_per_node,
            per_rank=point.per_rank * point.accumulation,
            low=point.low or point.samples_per_s,
            high=point.high or point.samples_per_s,
        )
        for point in measured.points
    )
    facts = ProgramFacts(
        points=points,
        unit=measured.unit,
        own_batch=measured.own_batch,
        batch_argument=measured.batch_argument,
        arguments=measured.arguments,
        overhead_s=measured.overhead_s,
        amount=work,
        origin=measured.origin or str(place),
    )
    question = Question(case=case, figures=None, objective=objective, global_batch=global_batch)
    return plan_of_program(question, facts)


def _evidence_in(place: Path, case: Case) -> Evidence:
    """Return the evidence in a calibration file. Raises Refused if it is that of a program without a job file."""
    from hpclaunch.planner.measured.calibration_file import evidence_of, read_calibration

    measured = read_calibration(place)
    if measured.unit != "samples" or measured.own_batch or measured.batch_argument or measured.arguments:
        what = f"{place} has the measurements of a program of its own, and {case.job.name} is a job"
        from hpclaunch.planner.choice.proposal import profile_command

        hint = f"{profile_command(case.request)}; or leave --calibration out"
        raise Refused(Fault(where="--calibration", what=what, next=hint))
    return evidence_of(measured, measured.origin or str(place))


def _missing_script(system: System, case: Case) -> list[Fault]:
    """Return why there is no script at the typed path, as ``submit`` says it."""
    if not case.job.source_only or case.job.recorded or not looks_like_path(case.request.target):
        return []
    from hpclaunch.runs.snapshot import missing_script

    return missing_script(system.cwd / case.request.target)


def _unused_work(case: Case) -> Fault:
    """Return why ``--work`` has no effect."""
    from hpclaunch.planner.choice.proposal import profile_command

    name = case.job.name
    if case.job.training is not None:
        what, hint = f"the job file of {name} says how much it trains", "leave --work out, or --set its epochs"
        return Fault(where="--work", what=what, next=hint)
    return Fault(where="--work", what=f"{name} was not measured", next=profile_command(case.request))


def _unused_calibration(calibration: Path, case: Case) -> Fault:
    """Return why a plan of this job cannot use measured points: it has no figures to which they belong."""
    return Fault(
        where="--calibration",
        what=f"{calibration} cannot be used, as nothing is known of the model of {case.job.name}",
        next="a job file with the model's figures (hpclaunch docs job-files), or leave --calibration out",
    )


def _queue(system: System, question: Question) -> Queue:
    """Return the waits in the site's queue. A scheduler is asked only on a machine that is known to be the site's."""
    from hpclaunch.planner.job.question import Queue

    unknown = _why_not_asked(question.case)
    if unknown:
        return Queue(unknown=unknown)
    from hpclaunch.actions.measuring.queue import queue_of

    return queue_of(system, question)


def _why_not_asked(case: Case) -> str:
    """Return why the scheduler of this machine cannot know the site's queue; empty if it can."""
    site, context = case.site, case.context
    if is_foreign(site.status, context.other_site):
        return f"this machine is {context.other_site}'s" if context.other_site else f"{site.name} is retired"
    if not context.at_site:
        return f"this machine is not known to be one of {site.name}'s"
    command = site.scheduler_row.start_command
    return "" if which(command) else f"this machine has no {command}"


def figures_of(system: System, case: Case) -> tuple[ModelFigures | None, str]:
    """Return the model's figures, or why they are unknown. The model is measured in the job's environment here."""
    from hpclaunch.planner.measured.model_figures import Look, NotFoundOut, find_figures, known_figures, own_python

    job, other_site = case.job, case.context.other_site
    known = known_figures(job, system.environment)
    if known is not None or job.training is None or job.training.model is None:
        return known, ""
    from hpclaunch.actions.preparing.trust import model_refusal
    from hpclaunch.resolve.python_environment import python_environment_of

    refused = model_refusal(system, case)
    if refused:
        return None, f"the model was not looked at: {refused}"
    environment = python_environment_of(case)
    reason = f"this machine is {other_site}'s" if other_site else environment.closed
    words = f"{environment.words[0]} as at {case.site.name}"
    looks = [] if reason else [Look(environment=environment, words=words)]
    looks += [look for look in own_python(case.context.python) if look.environment != environment]
    system.tell(f"measuring the model {job.training.model} once, as its figures are not in the job file")
    try:
        return find_figures(job, system.environment, looks), ""
    except NotFoundOut as error:
        return None, "; ".join(filter(None, (reason, str(error))))
