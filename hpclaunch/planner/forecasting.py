"""Site + Job + what was typed + what is known of the model -> Forecast; every rule that was applied is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import MOST_NODES, batch_cap, node_cap
from hpclaunch.guidelines.choice import Choice, choose
from hpclaunch.guidelines.dataset import judge_dataset
from hpclaunch.guidelines.efficiency import ENOUGH_STEPS, CriticalBatch, explain
from hpclaunch.guidelines.framework import choose_framework, choose_updates
from hpclaunch.guidelines.precision import PrecisionAdvice
from hpclaunch.guidelines.reasoning import Reason
from hpclaunch.planner.assumptions import assumed_of
from hpclaunch.planner.machine import node_of
from hpclaunch.planner.prediction import SMALLEST, Predictor, critical_batch_of, epochs_model_of, timing_of
from hpclaunch.planner.proposal import command_of, enough_for, infeasible, length_of, shared_evenly
from hpclaunch.planner.question import Question, Trial, trials_of
from hpclaunch.planner.settings import Recipe, precision_for, recipe_for, said
from hpclaunch.planner.strategy import UNLIMITED, explain_refusal, other_node_type, split_of, strategy_of
from hpclaunch.planner.values import Forecast, Row, Section
from hpclaunch.planner.workload import Workload, nothing_typed, workload_of
from hpclaunch.resolve.command import parameter_words
from hpclaunch.resolve.decisions import Decisions


def forecast(question: Question) -> Forecast:
    """Return the plan of a job. Raises Refused for a request that the site takes on no number of nodes."""
    trials = trials_of(question)
    refuse_impossible(question, trials)
    first = next(trial for trial in trials if not trial.faults)
    if question.case.job.training is None or question.figures is None:
        return _unknown(question, trials, first)
    work = workload_of(question.case.job, question.case.job.training, question.case.request.settings)
    node = node_of(question.case.site.node_types[first.sizing.node_type], first.sizing.layout)
    try:
        strategy = strategy_of(work, node, question.figures)
    except Refused as refusal:
        nearest = other_node_type(question, work, question.figures, first.sizing.node_type)
        bare = _unknown(question, trials, first)
        return replace(
            bare, known=True, summary="the model fits no GPU here", refusals=explain_refusal(refusal, nearest)
        )
    whole = math.ceil(strategy.parallelism.gpus_per_replica / node.ranks)
    tried = trials_of(question, whole) if whole > 1 and question.typed_nodes is None else trials
    noise = question.evidence.noise
    critical = critical_batch_of(work, noise)
    epochs_model, remark = epochs_model_of(work, critical.samples)
    predictor = Predictor(
        question=question,
        work=work,
        node=node,
        figures=question.figures,
        strategy=strategy,
        cap=batch_cap(work.samples, typed=question.global_batch, noise=noise, critical=critical),
        critical=critical,
        epochs_model=epochs_model,
        timing=timing_of(question, work, node, question.figures),
    )
    rows = predictor.rows(tried)
    return _told(
        predictor,
        [*trials, *(trial for trial in tried if trial.nodes not in {one.nodes for one in trials})],
        first,
        rows,
        (*node.assumed, *question.figures.doubts, *([remark] if remark else [])),
    )


def refuse_impossible(question: Question, trials: Sequence[Trial]) -> None:
    """Raise Refused with every reason, if no node count is taken, a typed one is not, or a parameter is not known."""
    decisions = Decisions()
    parameter_words(question.case.job, question.case.request, decisions)
    if question.case.job.training is not None:
        decisions.faults += nothing_typed(question.case.job, question.case.job.training, question.case.request.settings)
    typed = question.typed_nodes
    faulty = [trial for trial in trials if trial.faults and (typed is None or trial.nodes == typed)]
    if typed is not None and faulty:
        raise Refused([*faulty[-1].faults, *decisions.faults])
    if len(faulty) == len(trials):
        raise Refused([*trials[0].faults, *decisions.faults])
    if decisions.faults:
        raise Refused(decisions.faults)


def _unknown(question: Question, trials: Sequence[Trial], first: Trial) -> Forecast:
    """The plan of a job of which nobody knows the model: one node, and the guidelines' 64 at most."""
    nodes = question.typed_nodes or first.nodes
    cap = node_cap(_most(trials), typed=question.typed_nodes)
    kept = _kept_batch(question, next((trial for trial in trials if trial.nodes == nodes), first))
    missing = "training" if question.case.job.training is None else "training.model or training.figures"
    why = f"what its model needs is not known ({question.unknown or f'the job file has no {missing}'})"
    return Forecast(
        job=question.case.job.name,
        site=question.case.site.name,
        node_type=first.sizing.node_type,
        nodes=nodes,
        typed=question.typed_nodes is not None,
        known=False,
        summary=f"{count(nodes, 'node')}: {why}",
        rows=tuple(_bare(trial) for trial in trials if trial.nodes == nodes),
        command=command_of(question, nodes, ()),
        sections=(
            _framework(),
            *([Section(title="batch", reasons=kept)] if kept else []),
            Section(title="nodes", reasons=(cap.reason,), remarks=(why,)),
        ),
        warnings=tuple(said((*kept, cap.reason))),
    )


def _kept_batch(question: Question, trial: Trial) -> tuple[Reason, ...]:
    """What typed nodes or a typed batch make of the global batch size, as far as the job says; also without a model."""
    if question.case.job.training is None:
        return ()
    work = workload_of(question.case.job, question.case.job.training, question.case.request.settings)
    ranks = trial.nodes * trial.sizing.layout.tasks_per_node
    typed = question.typed_nodes is not None or "batch_size_per_rank" in work.typed
    own = work.per_rank * work.accumulation * ranks if work.per_rank and typed else None
    if question.global_batch is None and own is None:
        return ()
    critical = CriticalBatch(samples=work.critical_batch, origin=work.epochs_origin)
    batch = question.global_batch or own
    return (batch_cap(work.samples, typed=batch, noise=question.evidence.noise, critical=critical).reason,)


def _bare(trial: Trial) -> Row:
    ranks = trial.nodes * trial.sizing.layout.tasks_per_node
    return Row(nodes=trial.nodes, ranks=ranks, obstacles=trial.refused)


def _most(trials: Sequence[Trial]) -> int | None:
    """The most nodes that the site takes, where that is fewer than the guidelines' cap."""
    most = max(trial.nodes for trial in trials if not trial.faults)
    return most if most < MOST_NODES else None


def _framework() -> Section:
    framework, updates = choose_framework(), choose_updates()
    return Section(
        title="framework and updates",
        reasons=(framework.reason, updates.reason),
        declined=(*framework.declined, *updates.declined),
    )


@record
class _Decision:
    """The chosen row; ``choice`` None where nothing could be predicted."""

    row: Row
    choice: Choice | None
    summary: str
    refusals: tuple[Fault, ...] = ()


def _told(
    predictor: Predictor,
    trials: Sequence[Trial],
    first: Trial,
    rows: list[Row],
    assumed: tuple[str, ...],
) -> Forecast:
    question, work = predictor.question, predictor.work
    decision = _decide(predictor, first, rows)
    row = decision.row
    recipe = Recipe(settings=(), sections=())
    if row.batch is not None:
        epochs = predictor.epochs_model.epochs(row.batch.total)
        recipe = recipe_for(row.batch, work, predictor.critical, question.evidence.noise, epochs)
    formats = precision_for(work, predictor.node, predictor.figures, _number_formats(question, work))
    sections = _sections(predictor, trials, decision, recipe, formats)
    warnings = [text for section in sections for text in said(section.reasons)]
    warnings += list(decision.choice.warnings) if decision.choice else []
    floor = min(predictor.smallest, predictor.strategy.largest)
    if row.batch is not None and row.batch.per_rank < floor and not predictor.own_batch:
        warnings.append(f"{row.batch.per_rank} samples a rank are few: fewer ranks would each compute more efficiently")
    if row.batch is not None and "batch_size_per_rank" not in work.names:
        given = f"it must itself take {count(row.batch.per_rank, 'sample')} a rank and step"
        warnings.append(
            f"{question.case.job.name} has no parameter for the batch size per rank: {given} (training.names)"
        )
    trial = next(trial for trial in trials if trial.nodes == row.nodes)
    length = length_of(question, trial, row.candidate)
    warnings += [length.warning] if length.warning else []
    split = None
    if row.batch is not None:
        split = split_of(predictor.strategy, work, predictor.node, predictor.figures, row.batch)
    return Forecast(
        job=question.case.job.name,
        site=question.case.site.name,
        node_type=first.sizing.node_type,
        nodes=row.nodes,
        typed=question.typed_nodes is not None,
        known=True,
        summary=decision.summary,
        parallelism=predictor.strategy.parallelism,
        split=split,
        rows=tuple(_with_marginals(rows, decision.choice)),
        unit=first.bill.unit,
        settings=recipe.settings,
        command=command_of(question, row.nodes, recipe.settings, length.walltime),
        jobs=length.jobs,
        sections=sections,
        precision=formats.name,
        precision_words=formats.suggestion,
        measured=question.evidence.origin,
        queue=question.queue.words,
        assumed=assumed_of(predictor, row, assumed),
        warnings=tuple(dict.fromkeys(warnings)),
        refusals=decision.refusals,
    )


def _number_formats(question: Question, work: Workload) -> tuple[str, ...]:
    """What the job's parameter for the number format allows; nothing where it has none."""
    name = work.names.get("precision")
    return tuple(map(str, question.case.job.parameters[name].choices)) if name else ()


def _decide(predictor: Predictor, first: Trial, rows: list[Row]) -> _Decision:
    question = predictor.question
    possible = [row for row in rows if row.batch is not None]
    typed = question.typed_nodes
    if typed is not None:
        possible = [row for row in possible if row.nodes == typed]
    if not possible:
        row = rows[-1] if typed else rows[0]
        counts = f"{count(row.nodes, 'node')} cannot be" if typed else "no node count works"
        what = f"{counts}: {'; '.join(row.obstacles)}"
        nearest = _nearest_batch(predictor, row) or _nearest_nodes(predictor, row)
        fault = Fault(what=what, next=nearest or "another --node-type, or a smaller batch")
        return _Decision(row=row, choice=None, summary=what, refusals=(fault,))
    candidates = [row.candidate for row in possible if row.candidate is not None]
    if not candidates:
        row = possible[0]
        said_so = "as typed" if typed else f"the speed of {predictor.node.device} is not known"
        return _Decision(row=row, choice=None, summary=f"{count(row.nodes, 'node')}: {said_so}")
    all_candidates = [row.candidate for row in rows if row.candidate is not None]
    overall = choose(all_candidates, question.objective)
    choice = choose(candidates, question.objective, single=predictor.alone(first))
    row = next(row for row in possible if row.nodes == choice.nearest.nodes)
    refusals = () if choice.best else (infeasible(choice, question.objective),)
    told = replace(choice, appraised=overall.appraised)
    return _Decision(row=row, choice=told, summary=_summary(predictor, rows, row, choice), refusals=refusals)


def _nearest_batch(predictor: Predictor, row: Row) -> str:
    """What to type in place of a global batch size that cannot be shared out; nothing where it is not to blame."""
    replicas = row.ranks // predictor.strategy.parallelism.gpus_per_replica
    typed = predictor.question.global_batch
    return shared_evenly(predictor.question, replicas) if typed and replicas and typed % replicas else ""


def _nearest_nodes(predictor: Predictor, row: Row) -> str:
    """What to type in place of nodes that are too few for one replica; nothing where they are not to blame."""
    whole = math.ceil(predictor.strategy.parallelism.gpus_per_replica / predictor.node.ranks)
    return enough_for(predictor.question, whole) if row.nodes < whole else ""


def _summary(predictor: Predictor, rows: list[Row], row: Row, choice: Choice) -> str:
    nodes = count(row.nodes, "node")
    if predictor.question.typed_nodes is not None:
        return f"{nodes}, as typed"
    if choice.best is None:
        return f"{nodes}, the nearest to what is wished"
    tried = [one for one in rows if one.batch is not None]
    batch = row.batch.total if row.batch else 0
    if len(tried) == 1 and len(rows) > 1 and not rows[-1].batch:
        why = rows[-1].obstacles[0]
        return f"{nodes}, B = {batch}: more would leave {why}" if why.startswith("fewer") else f"{nodes}: {why}"
    weight = predictor.question.objective.weight
    return f"{nodes}, B = {batch}: least time^{weight:.2g} x cost^{1 - weight:.2g} of {len(tried)} node counts"


def _with_marginals(rows: list[Row], choice: Choice | None) -> list[Row]:
    appraised = {one.candidate.nodes: one for one in choice.appraised} if choice else {}
    return [
        replace(
            row, marginal=appraised[row.nodes].marginal, obstacles=(*row.obstacles, *appraised[row.nodes].obstacles)
        )
        if row.nodes in appraised
        else row
        for row in rows
    ]


def _sections(
    predictor: Predictor,
    trials: Sequence[Trial],
    decision: _Decision,
    recipe: Recipe,
    formats: PrecisionAdvice,
) -> tuple[Section, ...]:
    question, row = predictor.question, decision.row
    dataset = judge_dataset(predictor.work.samples, predictor.figures.parameters)
    batch = predictor.cap.reason
    if row.batch is not None and predictor.own_batch and question.global_batch is None:
        # What was typed is the batch of a rank, or the nodes: only now is the global batch known.
        batch = batch_cap(
            predictor.work.samples,
            typed=row.batch.total,
            noise=question.evidence.noise,
            critical=predictor.critical,
        ).reason
    timing = list(predictor.timing.reasons) if predictor.timing else []
    epochs = (
        [explain(predictor.epochs_model, row.batch.total, predictor.work.epochs_origin)]
        if row.batch and predictor.epochs_model.critical_batch < math.inf
        else []
    )
    predicted = [row.throughput.reason] if row.throughput else []
    times = [row.candidate.reason] if row.candidate else []
    chosen = [decision.choice.reason] if decision.choice else []
    floor = f"an automatic batch leaves a rank at least {predictor.smallest} samples"
    floor += " (hpclaunch's own)" if predictor.smallest == SMALLEST else ""
    model = Section(
        title="model",
        reasons=(predictor.strategy.parallelism.reason, *_memory(predictor, row)),
        remarks=(f"figures: {predictor.figures.origin}", *_largest(predictor)),
    )
    return (
        model,
        *_measurements(question),
        Section(title="data set", reasons=(dataset.reason,), remarks=dataset.advice),
        _framework(),
        Section(title="batch", reasons=(batch, *epochs), remarks=(floor, *_unmeasured_noise(question))),
        *recipe.sections,
        Section(title="precision", reasons=(formats.reason,)),
        *([Section(title="queue", reasons=question.queue.reasons)] if question.queue.reasons else []),
        Section(
            title="nodes",
            reasons=(node_cap(_most(trials), typed=question.typed_nodes).reason, *timing, *predicted, *times, *chosen),
        ),
    )


def _unmeasured_noise(question: Question) -> tuple[str, ...]:
    """The guidelines' reason to measure the noise scale, where nobody has."""
    noise = question.evidence.noise
    if noise is not None and noise.trustworthy:
        return ()
    told = "more complex tasks have noisier gradients, and gain from larger batches"
    return (f"{told}: the noise scale that tells is measured in training ({ENOUGH_STEPS:,} steps and more)",)


def _measurements(question: Question) -> list[Section]:
    """What was measured and in which runs, and which runs were not taken in."""
    evidence = question.evidence
    if not evidence.sources:
        return []
    reason = Reason(
        rule="what was measured of this job, code, settings and node type, in every run that ended well",
        verdict=evidence.origin or "nothing that can be used",
        source="hpclaunch's own (docs/planning.md)",
    )
    return [Section(title="measurements", reasons=(reason,), remarks=evidence.sources)]


def _largest(predictor: Predictor) -> list[str]:
    """The largest micro-batch of a replica, where memory is known."""
    largest = predictor.strategy.largest
    return [] if largest == UNLIMITED else [f"the largest batch of a replica that fits: {count(largest, 'sample')}"]


def _memory(predictor: Predictor, row: Row) -> list[Reason]:
    from hpclaunch.guidelines.memory import memory

    room = predictor.node.room
    if room is None or row.batch is None:
        return []
    found = memory(
        predictor.strategy.model,
        predictor.work.optimizer,
        predictor.work.precision,
        row.batch.per_rank,
        room.gpu_bytes,
        gpus_per_replica=predictor.strategy.parallelism.gpus_per_replica,
    )
    return [found.reason]
