"""How often a planned job should save its state: the interval, and what the present one loses."""

from __future__ import annotations

from hpclaunch.guidelines.checkpoints import (
    DALY,
    RULE,
    CheckpointAdvice,
    Saving,
    advise_interval,
    explain_interval,
)
from hpclaunch.guidelines.reasoning import Reason
from hpclaunch.planner.job.question import Question
from hpclaunch.planner.speed.prediction import Predictor
from hpclaunch.planner.values import PlanRow, PlanSection
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.sizing import sizing_of
from hpclaunch.resolve.program.command import parameters_of

MINUTES, STEPS = "checkpoint_minutes", "checkpoint_steps"
"""The parameters of the training library by which a job saves within an epoch; it saves at the end of each, too."""


def checkpoints_of(predictor: Predictor, row: PlanRow) -> CheckpointAdvice | None:
    """Return how often to save on the chosen nodes; None if it was not measured what a checkpoint takes."""
    question = predictor.question
    save_s = question.evidence.save_s
    if not save_s:
        return None
    restart_s = question.evidence.overhead_s or 0.0
    saving = Saving(save_s=save_s, used_s=_used_interval(predictor, row), restart_s=restart_s)
    node = question.case.site.node_types[sizing_of(question.case, Decisions()).node_type]
    return advise_interval(saving, row.nodes, node.mtbf_days)


def checkpoint_sections(predictor: Predictor, row: PlanRow) -> list[PlanSection]:
    """Return the section that explains the interval; none for a job whose saving nothing is known of."""
    question = predictor.question
    advice = checkpoints_of(predictor, row)
    if advice is None and MINUTES not in question.case.job.parameters:
        return []
    reason = explain_interval(advice) if advice else _reason_without_measurement()
    return [PlanSection(title="checkpoints", reasons=(reason,), remarks=(_walltime_remark(question),))]


def _reason_without_measurement() -> Reason:
    verdict = "what a checkpoint takes is not measured yet; every finished run measures it"
    return Reason(rule=RULE, verdict=verdict, source=DALY)


def _used_interval(predictor: Predictor, row: PlanRow) -> float | None:
    """Return the seconds of training between two checkpoints as the job saves now; None if it is not known."""
    case = predictor.question.case
    values = dict(parameters_of(case.job, case.request, Decisions()).values)
    if MINUTES not in values or row.candidate is None or row.batch is None:
        return None
    per_s = row.candidate.samples_per_s.middle
    found = [predictor.work.samples / per_s]  # an epoch
    minutes, steps = float(values[MINUTES]), int(values.get(STEPS, "0"))
    found += [60 * minutes] if minutes > 0 else []
    found += [steps * row.batch.total / per_s] if steps > 0 else []
    return min(found)


def _walltime_remark(question: Question) -> str:
    if sizing_of(question.case, Decisions()).restart_request.most:
        return "the end of a job's walltime, and a preemption with a signal, repeat no step: the ranks save first"
    return "without --restarts the end of the walltime and a preemption cost the steps since the last checkpoint"
