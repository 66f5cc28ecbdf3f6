"""The story of ``plan``: what is known is gathered here, and judged in ``planner``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from hpclaunch.actions.submit import Ground, ground_of, is_foreign
from hpclaunch.actions.system import System
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import Request

if TYPE_CHECKING:
    from hpclaunch.config.site import Site
    from hpclaunch.guidelines.choice import Wishes
    from hpclaunch.guidelines.figures import ModelFigures
    from hpclaunch.planner.values import Forecast


def plan_job(
    system: System,
    request: Request,
    wishes: Wishes,
    *,
    global_batch: int | None = None,
    calibration: Path | None = None,
) -> Forecast:
    """Load what the files say and return the plan. Raises HpclaunchError.

    No program is asked, but for a look at a model that nobody has looked at, and the site's own scheduler about its
    queue. Nothing is written but what that look, and a look at finished runs, found.
    """
    from hpclaunch.planner.forecasting import forecast
    from hpclaunch.planner.measured.evidence import read_evidence
    from hpclaunch.planner.measured.finished_runs import evidence_for
    from hpclaunch.planner.question import Question
    from hpclaunch.planner.workload import divided_batch

    known = ground_of(system, request)
    site, job, settings, around = known.site, known.job, known.settings, known.around
    figures, unknown = _figures(system, request, known)
    measured = read_evidence(calibration) if calibration else evidence_for(site, job, request, settings, around)
    question = Question(
        site=site,
        job=job,
        request=request,
        settings=settings,
        around=around,
        figures=figures,
        unknown=unknown,
        evidence=measured,
        wishes=wishes,
        global_batch=global_batch or divided_batch(job, request),
    )
    if figures is not None and _may_be_asked(site, known.elsewhere):
        from hpclaunch.actions.queue import queue_of

        question = replace(question, queue=queue_of(system, question, known))
    found = forecast(question)
    if site.status != "retired":
        return found
    gone = f"{site.name} is retired: its scripts can be rendered, not submitted"
    return replace(found, warnings=(*found.warnings, gone))


def _may_be_asked(site: Site, elsewhere: str) -> bool:
    """Whether the scheduler's programs are here, and are the site's own."""
    row = scheduler_row(site.scheduler)
    return row.has_queue and not is_foreign(site.status, elsewhere) and which(row.start_command) is not None


def _figures(system: System, request: Request, ground: Ground) -> tuple[ModelFigures | None, str]:
    """Return what the model needs, or why nobody knows. It is looked at in the environment that the job has here."""
    from hpclaunch.planner.measured.model_figures import Look, NotFoundOut, find_figures, known_figures, own_python

    job, site, around, elsewhere = ground.job, ground.site, ground.around, ground.elsewhere
    known = known_figures(job, system.environment)
    if known is not None or job.training is None or job.training.model is None:
        return known, ""
    from hpclaunch.resolve.python_environment import interior_of

    inside = interior_of(site, job, request, ground.settings, around)
    reason = f"this machine is {elsewhere}'s" if elsewhere else inside.closed
    looks = [] if reason else [Look(interior=inside, words=f"{inside.words[0]} as at {site.name}")]
    looks += [look for look in own_python(around.python) if look.interior != inside]
    system.tell(f"looking at {job.training.model}, once: what it needs is not in the job file")
    try:
        return find_figures(job, system.environment, looks), ""
    except NotFoundOut as error:
        return None, "; ".join(filter(None, (reason, str(error))))
