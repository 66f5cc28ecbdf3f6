"""What ``submit`` uses of a forecast if no node count is given: the node count, its reason, and objections."""

from __future__ import annotations

from hpclaunch.core.errors import Fault, Refused
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.planner.forecasting import forecast
from hpclaunch.planner.question import Evidence, Question
from hpclaunch.planner.values import Forecast
from hpclaunch.planner.workload import divided_batch, workload_of
from hpclaunch.resolve.case import Advice, Case


def advice_for(case: Case, figures: ModelFigures, evidence: Evidence) -> Advice:
    """Return the planner's advice. A model that must be split is refused: hpclaunch cannot run such a job yet.

    The advice has no node count if the request or the job gives one, or if the site refuses every node count.
    """
    job, target = case.job, case.request.target
    question = Question(case=case, figures=figures, evidence=evidence, global_batch=divided_batch(job, case.request))
    try:
        plan = forecast(question)
    except Refused:
        return Advice()  # resolve finds these limits of the site again, with every other reason
    if plan.split is not None and plan.parallelism is not None:
        fault = Fault(
            what=f"one replica of the model needs {plan.split.gpus} GPUs, but {job.name} cannot be split over GPUs",
            where=f"{case.site.name} {plan.node_type}",
            allowed="a model that one GPU holds",
            next=f"try {', '.join(plan.split.try_first)}; hpclaunch plan {target} --explain",
        )
        return Advice(nodes=plan.nodes, objections=(fault,))
    if question.typed_nodes is not None:
        return Advice(objections=plan.refusals)
    measured = f"; measured: {plan.measured}" if plan.measured else ""
    why = f"{plan.summary}{_own_batch(plan, case)}{measured}; next: hpclaunch plan {target} --explain"
    return Advice(nodes=plan.nodes, tasks_per_node=plan.ranks_per_node, why=why, objections=plan.refusals)


def _own_batch(plan: Forecast, case: Case) -> str:
    """Return a remark if the submitted batch differs from the plan's: ``submit`` uses only the plan's node count."""
    row, job = plan.chosen, case.job
    if job.training is None or row is None or row.batch is None:
        return ""
    work = workload_of(job, job.training, case.request.settings)
    if work.global_batch is not None:
        return ""  # the plan is made for this batch
    own = work.per_rank * work.accumulation * row.ranks if work.per_rank else row.batch.total
    return "" if own == row.batch.total else f"; as submitted, with the job's own batch per rank, B = {own}"
