"""Site + job + request + the model's figures -> Forecast, which explains every rule that was applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import MOST_NODES, batch_cap, node_cap
from hpclaunch.guidelines.candidates import Candidate
from hpclaunch.guidelines.choice import beats, is_dear, is_late
from hpclaunch.guidelines.communication import Group
from hpclaunch.guidelines.epochs import presumed_critical_batch
from hpclaunch.guidelines.precision import HALVES
from hpclaunch.guidelines.published_decoders import doubt_of
from hpclaunch.guidelines.reasoning import Reason
from hpclaunch.planner.choice.decision import PlanDecision, add_marginals, candidates_of, decide, is_part_of_node
from hpclaunch.planner.choice.ladder import Ladder, ladder_of, too_few_words
from hpclaunch.planner.choice.proposal import command_of, length_of, measuring_command, measuring_program, what_it_takes
from hpclaunch.planner.choice.rows import further_rows, rows_of
from hpclaunch.planner.explaining.assumptions import assumed_of
from hpclaunch.planner.explaining.headlines import headlines_of, trust_of
from hpclaunch.planner.explaining.notes import notes_of
from hpclaunch.planner.explaining.saving import checkpoints_of
from hpclaunch.planner.explaining.sections import Outcome, framework_section, ladder_reasons, most_nodes, sections_of
from hpclaunch.planner.explaining.settings import precision_for, warnings_of
from hpclaunch.planner.explaining.split import split_of
from hpclaunch.planner.fitting.fit import strategy_of
from hpclaunch.planner.fitting.machine import links_in_words, node_for
from hpclaunch.planner.job.epochs import epochs_model_of, epochs_remark, facts_of, known_batches
from hpclaunch.planner.job.question import (
    MOST_TRIED,
    Question,
    Trial,
    counts_between,
    counts_beyond,
    parts_of_a_node,
    question_for,
    trial_of,
    trials_of,
)
from hpclaunch.planner.job.recipe import Recipe, recipe_at
from hpclaunch.planner.job.workload import Workload, nothing_typed, workload_of
from hpclaunch.planner.speed.mfu import mfu_of
from hpclaunch.planner.speed.one_process import worst_of
from hpclaunch.planner.speed.prediction import Predictor, timing_of
from hpclaunch.planner.values import Forecast, PlanRow, PlanSection, StatisticalEfficiency
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.program.command import parameters_of


def forecast(question: Question) -> Forecast:
    """Return the plan of a job. Raises Refused for a request that the site accepts with no node count."""
    plan = _plan(question)
    if question.figures is not None and question.figures.decoder is not None:
        plan = _plan_decoder(plan, question)
    return replace(plan, headlines=headlines_of(plan))


def _plan_decoder(plan: Forecast, question: Question) -> Forecast:
    """Return the plan of a decoder in tokens; for a program of one's own, if the job is not what trains it."""
    assert question.figures is not None and question.figures.decoder is not None
    plan = replace(plan, tokens_per_sample=question.figures.decoder.context)
    training = question.case.job.training
    if training is None or not question.own_program:
        return plan
    from hpclaunch.planner.own_program import with_own_program  # few jobs are decoders

    work = workload_of(question.case.job, training, question.case.request.settings)
    return with_own_program(plan, question, work, trials_of(question))


def _plan(question: Question) -> Forecast:
    trials = trials_of(question)
    refuse_impossible(question, trials)
    first = next(trial for trial in trials if not trial.faults)
    if question.case.job.training is None or question.figures is None:
        return _plan_without_model(question, trials, first)
    ladder = ladder_of(question, question.figures)
    if ladder.question is None:
        return _plan_of_a_misfit(question, ladder, _plan_without_model(question, trials, first))
    question = ladder.question
    assert question.case.job.training is not None and question.figures is not None
    tried = _trials_of_the_rung(question, ladder, trials)
    first = next((trial for trial in tried if not trial.faults), first)
    work = workload_of(question.case.job, question.case.job.training, question.case.request.settings)
    node = node_for(question, first.sizing.node_type, first.sizing.layout)
    strategy = strategy_of(work, node.room, question.figures, first.nodes * first.ranks_per_node)
    timing = timing_of(question, work, node, question.figures)
    if strategy.gpus == 1 and not work.shard_optimizer and timing is not None:
        tried = [*parts_of_a_node(question, first), *tried]
    noise = question.evidence.noise
    predictor = Predictor(
        question=question,
        work=work,
        node=node,
        figures=question.figures,
        strategy=strategy,
        cap=batch_cap(work.samples, known_batches(work, noise), typed=question.global_batch),
        facts=facts_of(work, noise),
        timing=timing,
    )
    rows = rows_of(predictor, tried)
    decision = decide(predictor, first, rows)
    if decision.choice is not None and decision.choice.best is None and question.typed_nodes is None:
        tried, rows, decision = _search_further(predictor, ladder.whole, first, tried, rows)
    if decision.choice is not None and question.typed_nodes is None:
        tried, rows, decision = _search_in_memory(predictor, first, tried, rows, decision)
    if decision.choice is not None and decision.choice.best is None:
        decision = _add_what_it_takes(predictor, ladder.whole, decision)
    outcome = Outcome(
        predictor=predictor,
        trials=(*tried, *(trial for trial in trials if trial not in tried)),
        ladder=ladder,
        rows=tuple(rows),
        decision=decision,
        recipe=_recipe_of(predictor, decision.row),
        formats=precision_for(work, node, question.figures, _number_formats(question, work)),
    )
    batch = decision.row.batch
    remark = epochs_remark(work, batch.total, predictor.facts) if batch else ""
    return _forecast_of(outcome, first, (*node.assumed, *question.figures.doubts, *([remark] if remark else [])))


def _search_further(
    predictor: Predictor, whole: int, first: Trial, tried: list[Trial], rows: list[PlanRow]
) -> tuple[list[Trial], list[PlanRow], PlanDecision]:
    """Return trials, rows and decision with further node counts, where none of the doublings is feasible.

    They lie between a count that is late and the next one that is too dear, or are more than 64 if all are late. Of the
    new rows only the chosen one is kept.
    """
    question, objective = predictor.question, predictor.question.objective
    further: list[Trial] = []
    known = [row for row in rows if row.candidate is not None]
    for fewer, more in pairwise(known):
        assert fewer.candidate is not None and more.candidate is not None
        if is_late(fewer.candidate, objective) and is_dear(more.candidate, objective):
            inside = parts_of_a_node(question, first, every=True) if fewer.nodes == 1 and predictor.is_whole else []
            further += [trial for trial in inside if fewer.ranks < trial.ranks_per_node < more.ranks]
            further += counts_between(question, whole, fewer.nodes, more.nodes)
    found = further_rows(predictor, further)
    last = known[-1].candidate
    if (
        last is not None
        and last.nodes * 2 > MOST_NODES
        and all(is_late(run, objective) for run in candidates_of(known))
    ):
        for trial in counts_beyond(question, whole):
            further.append(trial)
            made = further_rows(predictor, [trial])
            found += made
            if not made or made[0].candidate is None or made[0].candidate.done_s >= last.done_s:
                break
            last = made[0].candidate
            if not is_late(last, objective):
                break
    decision = decide(predictor, first, _order_rows([*rows, *found]))
    kept = [row for row in found if row is decision.row]
    return [*tried, *further], _order_rows([*rows, *kept]), decision


def _search_in_memory(
    predictor: Predictor, first: Trial, tried: list[Trial], rows: list[PlanRow], decision: PlanDecision
) -> tuple[list[Trial], list[PlanRow], PlanDecision]:
    """Return trials, rows and decision with the fewest nodes that keep the data set, where these are more than 64.

    Only such nodes can be more than 64 and cheaper: they no longer wait for the reading. They are taken if they are
    better in time and cost than what was chosen, or if nothing was.
    """
    nodes = predictor.fewest_that_keep
    if not MOST_NODES < nodes <= MOST_TRIED or any(row.nodes == nodes for row in rows):
        return tried, rows, decision
    trial = trial_of(predictor.question, nodes)
    for row in further_rows(predictor, [] if trial.faults else [trial]):
        assert row.candidate is not None and decision.choice is not None
        best = decision.choice.best
        if best is None or beats(row.candidate, best):
            wider = _order_rows([*rows, row])
            found = decide(predictor, first, wider)
            if found.row is row:
                return [*tried, trial], wider, found
    return tried, rows, decision


def _add_what_it_takes(predictor: Predictor, whole: int, decision: PlanDecision) -> PlanDecision:
    """Return the decision with what the run would take, where nothing is feasible; with typed nodes, of more nodes."""
    question, choice = predictor.question, decision.choice
    if choice is None or choice.best is not None:
        return decision
    others: list[Candidate] = []
    if question.typed_nodes is not None and choice.nearest.beyond:
        others = candidates_of(further_rows(predictor, counts_beyond(question, whole, question.typed_nodes)))
    return replace(decision, refusals=what_it_takes(choice, question.objective, others))


def _order_rows(rows: Sequence[PlanRow]) -> list[PlanRow]:
    return sorted(rows, key=lambda row: (row.nodes, row.ranks))


def _trials_of_the_rung(question: Question, ladder: Ladder, usual: list[Trial]) -> list[Trial]:
    """Return the trials with what the taken rung sets: as many nodes as replicas need, and one replica if that is all.

    ``usual``: those of the typed request.
    """
    if ladder.rung is None or (ladder.rung.verdict == "taken" and ladder.whole == 1 and ladder.is_usual):
        return usual
    if question.typed_nodes is None and ladder.rung.name == "model parallel":
        return [trial_of(question, ladder.whole)]
    return trials_of(question, ladder.whole)


def _plan_of_a_misfit(question: Question, ladder: Ladder, bare: Forecast) -> Forecast:
    """Return the plan of a job whose model fits the site in no way: the ladder, and what would make it fit."""
    name = question.case.job.name
    memory = "GPUs" if bare.gpus_per_node else "memory"
    what = f"the model of {name} does not fit the {memory} of {question.case.site.name}, as {name} can divide it"
    fault = Fault(
        what=what,
        where=f"{question.case.site.name} {bare.node_type}",
        next=_what_would_fit(ladder, question.typed_nodes),
    )
    reasons = ladder_reasons(ladder.rungs)
    return replace(
        bare,
        known=True,
        summary="the model does not fit",
        command="",
        ladder=ladder.rungs,
        sections=(PlanSection(title="ladder", reasons=reasons), *bare.sections),
        refusals=(fault,),
    )


def _what_would_fit(ladder: Ladder, typed: int | None) -> str:
    """Return what to do so that a rung that would fit can be taken; the last resort if none would.

    ``typed``: the node count. More nodes come first, since nothing of the job changes with them.
    """
    would = [rung for rung in ladder.rungs if rung.memory is not None and rung.memory.fits]
    larger = next((rung for rung in would if rung.why == too_few_words(rung.nodes, typed)), None)
    if larger is not None:
        return f"--nodes {larger.nodes} can hold one replica"
    if not would:
        return ladder.rungs[-1].why
    return f"{would[0].name} {would[0].why.removeprefix('it ')} (hpclaunch docs planning-details, The ladder)"


def refuse_impossible(question: Question, trials: Sequence[Trial]) -> None:
    """Raise Refused with every reason if no node count or not the typed one is accepted, or a parameter is bad."""
    decisions = Decisions()
    parameters_of(question.case.job, question.case.request, decisions)
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


def _plan_without_model(question: Question, trials: Sequence[Trial], first: Trial) -> Forecast:
    """Return the plan of a job whose model is not known: one node, or the typed count, capped by the guidelines."""
    nodes = question.typed_nodes or first.nodes
    cap = node_cap(most_nodes(trials), typed=question.typed_nodes)
    kept = _typed_batch_reasons(question, next((trial for trial in trials if trial.nodes == nodes), first))
    missing = "training" if question.case.job.training is None else "training.model or training.figures"
    why = f"the figures of its model are not known ({question.unknown or f'the job file has no {missing}'})"
    return Forecast(
        job=question.case.job.name,
        site=question.case.site.name,
        node_type=first.sizing.node_type,
        nodes=nodes,
        typed=question.typed_nodes is not None,
        gpus_per_node=gpus_of(first),
        known=False,
        summary=f"{count(nodes, 'node')}: {why}",
        rows=tuple(_row_of(trial) for trial in trials if trial.nodes == nodes),
        command=command_of(question, nodes, ()),
        measuring=measuring_program(question) if question.case.job.training is None else "",
        sections=(
            framework_section(question),
            *([PlanSection(title="batch", reasons=kept)] if kept else []),
            PlanSection(title="nodes", reasons=(cap.reason,), remarks=(why,)),
        ),
        warnings=tuple(warnings_of((*kept, cap.reason))),
    )


def _typed_batch_reasons(question: Question, trial: Trial) -> tuple[Reason, ...]:
    """What typed nodes or a typed batch make of the global batch size, as far as the job says; also without a model."""
    if question.case.job.training is None:
        return ()
    work = workload_of(question.case.job, question.case.job.training, question.case.request.settings)
    ranks = trial.nodes * trial.sizing.layout.tasks_per_node
    typed = question.typed_nodes is not None or "batch_size_per_rank" in work.typed
    own = work.total_of(ranks) if typed else None
    if question.global_batch is None and own is None:
        return ()
    known = known_batches(work, question.evidence.noise)
    return (batch_cap(work.samples, known, typed=question.global_batch or own).reason,)


def _row_of(trial: Trial) -> PlanRow:
    ranks = trial.nodes * trial.sizing.layout.tasks_per_node
    return PlanRow(nodes=trial.nodes, ranks=ranks, obstacles=trial.refused)


def _forecast_of(outcome: Outcome, first: Trial, doubts: tuple[str, ...]) -> Forecast:
    """Return the plan; ``first``: the smallest trial that the site takes; ``doubts``: what its models assume."""
    predictor, row, decision = outcome.predictor, outcome.row, outcome.decision
    question, work = predictor.question, predictor.work
    sections = sections_of(outcome)
    part = row.ranks if is_part_of_node(predictor, row) else None
    trial = _trial_of_row(outcome, row)
    length = length_of(question, trial, row.candidate)
    warnings = [text for section in sections for text in warnings_of(section.reasons)]
    warnings += [*(decision.choice.warnings if decision.choice else ()), *_batch_warnings(predictor, row)]
    warnings += [length.warning] if length.warning else []
    warnings += _rate_warnings(outcome)
    settings = (
        *question.case.job.formats,
        *outcome.ladder.settings,
        *(outcome.recipe.settings if outcome.recipe else ()),
    )
    split = None if row.batch is None else split_of(predictor, row.batch)
    return Forecast(
        job=question.case.job.name,
        site=question.case.site.name,
        node_type=first.sizing.node_type,
        nodes=row.nodes,
        ranks_per_node=part,
        typed=question.typed_nodes is not None,
        gpus_per_node=gpus_of(first),
        trust=trust_of(question.evidence),
        efficiency=_efficiency_of(predictor, row),
        checkpoints=checkpoints_of(predictor, row),
        batch_alone=predictor.best_batch_alone if row.throughput and not predictor.is_split else None,
        known=True,
        summary=decision.summary,
        parallelism=predictor.strategy.parallelism,
        split=split,
        ladder=outcome.ladder.rungs,
        rung_settings=outcome.ladder.settings,
        rows=tuple(add_marginals(outcome.rows, decision.choice)),
        unit=first.bill.unit,
        settings=settings,
        recipe=outcome.recipe,
        command=""
        if row.candidate and row.candidate.beyond
        else command_of(question_for(question, part), row.nodes, settings, length.walltime),
        measuring=""
        if question.evidence.points or outcome.ladder.settings or split
        else measuring_command(question, work),
        jobs=length.jobs,
        sections=sections,
        precision=outcome.formats.name,
        precision_words=outcome.formats.suggestion,
        measured=question.evidence.origin,
        links=links_in_words(predictor.node.links),
        queue=question.queue.words,
        assumed=assumed_of(predictor, row, doubts),
        notes=notes_of(predictor, trial, row),
        warnings=tuple(dict.fromkeys(warnings)),
        refusals=(*_too_large_batch(predictor, row), *decision.refusals),
        mfu=mfu_of(predictor, row.throughput.samples_per_s, row.ranks) if row.throughput else None,
    )


def _rate_warnings(outcome: Outcome) -> list[str]:
    """Return the warning about a decoder's rate that is far above the published ones of its size; none otherwise."""
    recipe, figures = outcome.recipe, outcome.predictor.figures
    if (
        figures.decoder is None
        or recipe is None
        or recipe.rate is None
        or recipe.optimizer.name not in ("adam", "adamw")
    ):
        return []
    doubt = doubt_of(figures.decoder.parameters, recipe.other_rate or recipe.rate.scaled)
    return [doubt] if doubt else []


def gpus_of(trial: Trial) -> int:
    """Return the GPUs of a node that compute; 0 if the ranks use CPUs."""
    layout = trial.sizing.layout
    return 0 if layout.stand_in_gpus else layout.gpus_per_node


def _efficiency_of(predictor: Predictor, row: PlanRow) -> StatisticalEfficiency:
    """Return what a larger batch costs with the optimizer of the chosen ``row``."""
    work, facts, noise = predictor.work, predictor.facts, predictor.question.evidence.noise
    epochs_model = epochs_model_of(work, row.batch.total if row.batch else work.base_batch or 1, facts)
    return StatisticalEfficiency(
        samples=work.samples,
        base=work.base_batch,
        bound=facts.bound,
        critical=presumed_critical_batch(work.samples) if facts.critical.samples is None else facts.critical,
        noise=noise,
        epochs_model=epochs_model,
    )


def _recipe_of(predictor: Predictor, row: PlanRow) -> Recipe | None:
    if row.batch is None:
        return None
    return recipe_at(row.batch, predictor.work, predictor.question.evidence.noise)


def _trial_of_row(outcome: Outcome, row: PlanRow) -> Trial:
    """Return the trial of a row."""
    same = [trial for trial in outcome.trials if trial.nodes == row.nodes]
    return next((trial for trial in same if trial.nodes * trial.ranks_per_node == row.ranks), same[0])


def _too_large_batch(predictor: Predictor, row: PlanRow) -> tuple[Fault, ...]:
    """Return the refusal of a global batch that is larger than the data set; nothing for any other."""
    samples = predictor.work.samples
    if row.batch is None or row.batch.total <= samples:
        return ()
    fault = Fault(
        what=f"a global batch of {row.batch.total} samples is larger than the data set",
        allowed=f"at most {samples} samples",
        next="a smaller --global-batch, fewer --nodes, or fewer samples per rank",
    )
    return (fault,)


def _batch_warnings(predictor: Predictor, row: PlanRow) -> list[str]:
    """Return warnings of the batch per rank: ranks that are typed gain nothing, or the job has no parameter for it."""
    if row.batch is None:
        return []
    group = Group(nodes=row.nodes, per_node=row.ranks // row.nodes)
    is_judged = not predictor.is_split and (predictor.own_batch or predictor.question.global_batch is not None)
    slow = worst_of([(predictor, row.batch)], group) if is_judged else ""
    warnings = [slow] if slow else []
    if "batch_size_per_rank" not in predictor.work.names:
        job = predictor.question.case.job.name
        given = f"the program itself must use {count(row.batch.per_rank, 'sample')} per rank and step"
        warnings.append(f"{job} has no parameter for the batch size per rank (training.names): {given}")
    return warnings


def _number_formats(question: Question, work: Workload) -> tuple[str, ...]:
    """Return the number formats that the job's parameter allows, if it has one; of free text the usual names."""
    name = work.names.get("precision")
    if name is None:
        return ()
    return tuple(map(str, question.case.job.parameters[name].choices)) or HALVES
