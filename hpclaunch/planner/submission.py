"""What ``submit`` uses of the planner: the recipe, and the node count where none is given, with reason and objections.

With a given node count it is light: it predicts the time of that count alone, to compare it with the walltime, and
reads no measurement where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hpclaunch.config.job import AS_WRITTEN
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.records import record
from hpclaunch.core.spec import HOROVOD, Pairs, RunRecipe
from hpclaunch.guidelines.batch import Batch
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.parallelism import Room
from hpclaunch.planner.choice.run_recipe import Applied, RunQuestion, apply_recipe, batches_of
from hpclaunch.planner.fitting.room import room_of
from hpclaunch.planner.job.recipe import is_few
from hpclaunch.planner.job.workload import divided_batch, stored_figures, workload_of
from hpclaunch.planner.measured.calibrations import has_measurements
from hpclaunch.resolve.case import Advice, Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.folders import is_synthetic
from hpclaunch.resolve.nodes.sizing import Sizing, sizing_of
from hpclaunch.resolve.program.recipes import as_typed, named_settings, rated, recipe_name_of
from hpclaunch.resolve.program.sweep import axes_of
from hpclaunch.resolve.strategies import models_of

if TYPE_CHECKING:
    from hpclaunch.planner.job.question import Evidence, Question
    from hpclaunch.planner.speed.prediction import PlannedTraining
    from hpclaunch.planner.speed.walltime import PredictedTraining
    from hpclaunch.planner.values import Forecast


@record
class _SizedRun:
    """A run with the layout that it really has; ``evidence`` is None where nothing of its job was measured."""

    case: Case
    sizing: Sizing
    figures: ModelFigures | None
    evidence: Evidence | None


def advice_for(case: Case, *, given: bool) -> tuple[Advice, Pairs]:
    """Return the planner's advice, and the parameters that it changes in the job.

    ``given``: the request or the job names a node count. The planner chooses one only for Horovod. A model that does
    not fit as the job holds it gets what the ladder says: another node type, or parameters (``planner.choice.ladder``).
    """
    figures = stored_figures(case.job) or _looked_up_figures(case)
    run = _sized_run(case, figures)
    question, horovod = _question(run), case.request.strategy in (None, HOROVOD)
    if figures is None or not horovod or (given and (question.fits or not question.is_whole)):
        return _add_recipe(Advice(), run, question)
    from hpclaunch.planner.forecasting import forecast
    from hpclaunch.planner.job.question import Question
    from hpclaunch.planner.measured.finished_runs import evidence_for

    asked = as_typed(case)
    divided = divided_batch(case.job, asked.request)
    try:
        plan = forecast(
            Question(
                case=asked,
                figures=figures,
                evidence=evidence_for(asked),
                global_batch=divided,
                own_program=False,  # what is submitted is the job
            )
        )
    except Refused:  # resolve finds these limits of the site again, with every other reason
        return _add_recipe(Advice(), run, question)
    advice, row = _node_advice(plan, asked), plan.chosen
    if not advice.objections:
        case = replace(case, job=case.job.with_defaults(plan.rung_settings))
    run = _sized_run(replace(case, advice=advice), figures)
    question = replace(_question(run), held_by=plan.rung_settings if not advice.objections else ())
    question = replace(question, why=_rung_words(plan))
    batch = row.batch if row and not given else None
    if batch is not None:
        question = replace(question, planned=batch)
    return _add_recipe(advice, run, question)


def advice_as_written(case: Case) -> Advice:
    """Return the advice for a run with the settings of its job file on the nodes that it has: nothing but a warning."""
    run = _sized_run(case, stored_figures(case.job) or _looked_up_figures(case))
    question = _question(run)
    return Advice(
        recipe=RunRecipe(name=AS_WRITTEN), warnings=_one_process_warnings(run, question, batches_of(question))
    )


def _rung_words(plan: Forecast) -> tuple[str, ...]:
    """Return why the model is held as it is: nothing if it fits as it is, else what was too little, and what is set."""
    rung = plan.rung
    if rung is None or rung.memory is None or not plan.climbs:
        return ()
    from hpclaunch.planner.amounts import memory_of

    first, gpus = (
        plan.ladder[0].memory,
        f"each {plan.device}" if rung.gpus == 1 else f"every {rung.gpus} {plan.device}s",
    )
    assert first is not None
    what = " ".join(f"{key}={text}" for key, text in rung.settings)
    held = f"{rung.name}: {gpus} of {rung.node_type} hold{'s' if rung.gpus == 1 else ''} a replica"
    held += f", {memory_of(rung.memory)} on each{f' ({what})' if what else ''}"
    kind = (plan.parallelism.reason.verdict,) if plan.parallelism else ()
    return (f"one {plan.device} of {plan.ladder[0].node_type} does not hold the model: {memory_of(first)}", held, *kind)


def _sized_run(case: Case, figures: ModelFigures | None) -> _SizedRun:
    sizing = sizing_of(replace(case, needs_account=False), Decisions())
    return _SizedRun(case=case, sizing=sizing, figures=figures, evidence=_evidence_of(case))


def _question(run: _SizedRun) -> RunQuestion:
    """Return the question for the recipe."""
    case, request, sizing = run.case, run.case.request, run.sizing
    return RunQuestion(
        job=rated(case),
        name=recipe_name_of(case),
        named=named_settings(case),
        typed=request.settings,
        axes=axes_of(case.job, request),
        replicas=models_of(request, sizing.layout),
        room=_room_of_every_rank(case, sizing),
        figures=run.figures,
        noise=run.evidence.noise if run.evidence else None,
    )


def _room_of_every_rank(case: Case, sizing: Sizing) -> Room | None:
    """Return the memory that every rank has, on nodes of all types; None if it is not known."""
    rooms = [room_of(case.node(one.node_type), one.layout) for one in sizing.components]
    known = [room for room in rooms if room is not None]
    return min(known, key=lambda room: room.gpu_bytes) if len(known) == len(rooms) else None


def _add_recipe(advice: Advice, run: _SizedRun, question: RunQuestion) -> tuple[Advice, Pairs]:
    """Return the advice with the recipe, and the parameters that it changes."""
    if question.name == AS_WRITTEN:
        warnings = _one_process_warnings(run, question, batches_of(question))
        return replace(advice, recipe=RunRecipe(name=AS_WRITTEN), warnings=warnings), ()
    found = apply_recipe(question)
    predicted = _predict(run, question, found)
    warnings = (
        *found.warnings,
        *_walltime_warnings(run, predicted),
        *_one_process_warnings(run, question, found.batches),
    )
    advice = replace(advice, recipe=found.recipe, followers=found.followers, warnings=warnings)
    # The runs of a sweep may differ in their speed, and have one record.
    rate = predicted[0].rate if len(predicted) == 1 and not question.axes else None
    return replace(advice, predicted=rate), found.settings


def _is_predictable(run: _SizedRun, question: RunQuestion) -> bool:
    """Whether the planner's models hold for the run."""
    horovod = run.case.request.strategy in (None, HOROVOD)
    of_one_type = not run.sizing.further  # the slowest nodes set the pace, and nothing says by how much
    return run.figures is not None and question.fits and horovod and not is_synthetic(run.case) and of_one_type


def _predict(run: _SizedRun, question: RunQuestion, found: Applied) -> list[PredictedTraining]:
    """Return the predicted speed and time of every different training of the run, as far as they can be predicted."""
    if not _is_predictable(run, question):
        return []
    from hpclaunch.planner.speed.walltime import predict_trainings

    return predict_trainings(_planner_question(run), run.sizing, _trainings(question, found.batches))


def _walltime_warnings(run: _SizedRun, predicted: Sequence[PredictedTraining]) -> tuple[str, ...]:
    """Return the warning about a walltime that may be too short, if the time of the run is predicted."""
    if not predicted:
        return ()
    from hpclaunch.planner.speed.walltime import walltime_warning

    warning = walltime_warning(predicted, run.sizing)
    return (warning,) if warning else ()


def _one_process_warnings(
    run: _SizedRun, question: RunQuestion, batches: Sequence[tuple[Pairs, Batch]]
) -> tuple[str, ...]:
    """Return the warning about ranks that are hardly faster than one process; none for a batch of the planner."""
    judged = [(typed, batch) for typed, batch in batches if is_few(question.work(typed), batch)]
    if not judged or not _is_predictable(run, question) or question.is_planned(question.work(question.settings)):
        return ()
    from hpclaunch.planner.speed.one_process import one_process_warning

    warning = one_process_warning(_planner_question(run), run.sizing, _trainings(question, judged))
    return (warning,) if warning else ()


def _planner_question(run: _SizedRun) -> Question:
    from hpclaunch.planner.job.question import Evidence, Question

    return Question(case=run.case, figures=run.figures, evidence=run.evidence or Evidence())


def _trainings(question: RunQuestion, batches: Sequence[tuple[Pairs, Batch]]) -> list[PlannedTraining]:
    from hpclaunch.planner.speed.prediction import PlannedTraining

    return [PlannedTraining(work=question.work(typed), batch=batch) for typed, batch in batches]


def _looked_up_figures(case: Case) -> ModelFigures | None:
    """Return the figures of an earlier look at the model, if there was one."""
    if case.job.training is None or case.job.training.model is None:
        return None
    from hpclaunch.planner.measured.model_figures import known_figures

    return known_figures(case.job, case.context.environment, case.code_folders)


def _node_advice(plan: Forecast, case: Case) -> Advice:
    """Return the node count with its reason, unless it is typed; and why the request cannot run."""
    target = case.request.target
    node_type = plan.node_type if plan.rung is not None and "--node-type" in plan.rung.why else None
    divides = bool(plan.rung_settings)
    if divides and recipe_name_of(case) == AS_WRITTEN:
        words = " ".join(f"--set {key}={text}" for key, text in plan.rung_settings)
        fault = Fault(
            what=f"the model does not fit as the job file has it: {plan.ladder[0].why}",
            where="--recipe job",
            next=f"leave --recipe out, or type {words}",
        )
        return Advice(nodes=plan.nodes, objections=(fault,))
    refusals = plan.refusals
    if plan.ladder and plan.rung is None:  # the ladder shows why
        refusals = tuple(replace(fault, next=f"{fault.next}; hpclaunch plan {target} --explain") for fault in refusals)
    if plan.typed:
        return Advice(node_type=node_type, divides=divides, objections=refusals)
    measured = f"; measured: {plan.measured}" if plan.measured else ""
    why = f"{plan.summary}{_own_batch(plan, case)}{measured}; next: hpclaunch plan {target} --explain"
    return Advice(
        nodes=plan.nodes,
        node_type=node_type,
        divides=divides,
        tasks_per_node=plan.ranks_per_node,
        why=why,
        objections=refusals,
    )


def _own_batch(plan: Forecast, case: Case) -> str:
    """Return a remark if the submitted batch differs from the plan's: with the job file's own settings it may."""
    row, job = plan.chosen, case.job
    if recipe_name_of(case) != AS_WRITTEN or job.training is None or row is None or row.batch is None:
        return ""
    work = workload_of(job, job.training, case.request.settings)
    if work.global_batch is not None:
        return ""  # the plan is made for this batch
    own = work.total_of(row.ranks)
    return "" if own in (None, row.batch.total) else f"; as submitted, with the job's own batch per rank, B = {own}"


def _evidence_of(case: Case) -> Evidence | None:
    """Return the measurements of this job, if there are any."""
    if not has_measurements(case.context.environment, case.calibration_key):
        return None
    from hpclaunch.planner.measured.finished_runs import evidence_for  # takes 15 ms

    return evidence_for(case)
