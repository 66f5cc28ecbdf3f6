"""What ``submit`` takes from a forecast when nobody says how many nodes: the count, one line why, and objections."""

from __future__ import annotations

from hpclaunch.config.job import Job
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Site
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.spec import Request, Surroundings
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.planner.forecasting import forecast
from hpclaunch.planner.question import Evidence, Question
from hpclaunch.planner.values import Forecast
from hpclaunch.planner.workload import divided_batch, workload_of

Planned = tuple[int | None, str, tuple[Fault, ...]]
"""The number of nodes (None where planning itself finds what is wrong), one line why, and what is objected."""


def planned_for(
    site: Site,
    job: Job,
    request: Request,
    settings: Settings,
    around: Surroundings,
    figures: ModelFigures,
    evidence: Evidence,
) -> Planned:
    """Return the planner's word. A model that must be split is refused: no job can run that way yet."""
    question = Question(
        site=site,
        job=job,
        request=request,
        settings=settings,
        around=around,
        figures=figures,
        evidence=evidence,
        global_batch=divided_batch(job, request),
    )
    try:
        found = forecast(question)
    except Refused:
        return None, "", ()  # the site's own limits, which are told with every other reason
    if found.split is not None and found.parallelism is not None:
        fault = Fault(
            what=f"the model needs {found.split.gpus} GPUs for one replica, and {job.name} cannot be split over GPUs",
            where=f"{site.name} {found.node_type}",
            allowed="a model that one GPU holds",
            next=f"try {', '.join(found.split.try_first)}; hpclaunch plan {request.target} --explain",
        )
        return found.nodes, "", (fault,)
    if question.typed_nodes is not None:
        return None, "", found.refusals
    measured = f"; measured: {found.measured}" if found.measured else ""
    why = f"{found.summary}{_own_batch(found, job, request)}{measured}; next: hpclaunch plan {request.target} --explain"
    return found.nodes, why, found.refusals


def _own_batch(found: Forecast, job: Job, request: Request) -> str:
    """What the batch is as submitted, where the plan's is another: only the node count is taken from the plan."""
    row = found.chosen
    if job.training is None or row is None or row.batch is None:
        return ""
    work = workload_of(job, job.training, request.settings)
    if work.global_batch is not None:
        return ""  # it was planned for
    own = work.per_rank * work.accumulation * row.ranks if work.per_rank else row.batch.total
    return "" if own == row.batch.total else f"; as submitted, with the job's own batch per rank, B = {own}"
