"""What ``submit`` takes from a forecast when nobody says how many nodes: the count, one line why, and objections."""

from __future__ import annotations

from hpclaunch.core.errors import Fault, Refused
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.planner.forecasting import forecast
from hpclaunch.planner.question import Evidence, Question
from hpclaunch.planner.values import Forecast
from hpclaunch.planner.workload import divided_batch, workload_of
from hpclaunch.resolve.case import Advice, Case


def advice_for(case: Case, figures: ModelFigures, evidence: Evidence) -> Advice:
    """Return the planner's advice. A model that must be split is refused: no job can run that way yet.

    No node count is advised where a person or the job said it, nor where the request is refused whatever it is.
    """
    job, target = case.job, case.request.target
    question = Question(case=case, figures=figures, evidence=evidence, global_batch=divided_batch(job, case.request))
    try:
        found = forecast(question)
    except Refused:
        return Advice()  # the site's own limits, which resolve finds with every other reason
    if found.split is not None and found.parallelism is not None:
        fault = Fault(
            what=f"the model needs {found.split.gpus} GPUs for one replica, and {job.name} cannot be split over GPUs",
            where=f"{case.site.name} {found.node_type}",
            allowed="a model that one GPU holds",
            next=f"try {', '.join(found.split.try_first)}; hpclaunch plan {target} --explain",
        )
        return Advice(nodes=found.nodes, objections=(fault,))
    if question.typed_nodes is not None:
        return Advice(objections=found.refusals)
    measured = f"; measured: {found.measured}" if found.measured else ""
    why = f"{found.summary}{_own_batch(found, case)}{measured}; next: hpclaunch plan {target} --explain"
    return Advice(nodes=found.nodes, why=why, objections=found.refusals)


def _own_batch(found: Forecast, case: Case) -> str:
    """What the batch is as submitted, where the plan's is another: only the node count is taken from the plan."""
    row, job = found.chosen, case.job
    if job.training is None or row is None or row.batch is None:
        return ""
    work = workload_of(job, job.training, case.request.settings)
    if work.global_batch is not None:
        return ""  # it was planned for
    own = work.per_rank * work.accumulation * row.ranks if work.per_rank else row.batch.total
    return "" if own == row.batch.total else f"; as submitted, with the job's own batch per rank, B = {own}"
