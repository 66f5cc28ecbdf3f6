"""Whether a run on several ranks is hardly faster than one process with the same global batch; it chooses no layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import Batch, typed_batch
from hpclaunch.guidelines.communication import Group
from hpclaunch.guidelines.distribution import Distribution, compare_with_one
from hpclaunch.guidelines.throughput import Machine, Shape, StepTime, step_time
from hpclaunch.planner.amounts import time_of
from hpclaunch.planner.job.question import Question
from hpclaunch.planner.job.recipe import is_few
from hpclaunch.planner.speed.prediction import PlannedTraining, Predictor, predictor_of
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.sizing import Sizing, one_process_on, sizing_of

DOUBLINGS = 12
"""How often the batch per rank is doubled in search of one with which the ranks are worth it."""


def one_process_warning(question: Question, sizing: Sizing, trainings: Sequence[PlannedTraining]) -> str:
    """Return one warning about the training that gains least from its ranks; empty: all gain enough, or not known."""
    group = Group(nodes=sizing.layout.nodes, per_node=sizing.layout.tasks_per_node)
    different = {one.batch: one for one in trainings}.values()
    return worst_of(((predictor_of(question, sizing, one.work), one.batch) for one in different), group)


def worst_of(trainings: Iterable[tuple[Predictor, Batch]], group: Group) -> str:
    """Return the warning about the training that gains least from the ranks of a group; empty: all gain enough.

    Only a batch that a person typed, or one with few samples per rank, is judged: that a model is too small for the
    GPUs of its job file is no mistake of a run. If one process alone on a node was measured, its speed counts. Else it
    has a GPU as each rank has, or one rank's share of the CPUs: with all of them it could only be faster.
    """
    found: list[tuple[float, str]] = []
    for predictor, batch in trainings:
        unlike = group.ranks == 1 or predictor.timing is None or batch.replicas != group.ranks
        if unlike or not is_few(predictor.work, batch):
            continue
        alone = _predictor_alone(predictor)
        compared = _compare(predictor, alone, group, batch)
        if not compared.is_worth_it:
            found.append((compared.speed_up, _words(predictor, alone, group, batch, compared)))
    return min(found, default=(0.0, ""))[1]


def _predictor_alone(predictor: Predictor) -> Predictor:
    """Return the predictor of one process: by its own measurements on a node of its own, if there are some."""
    question = predictor.question
    if not question.evidence.alone:
        return predictor
    case = one_process_on(replace(question.case, needs_account=False))
    evidence = replace(question.evidence, points=question.evidence.alone, alone=())
    return predictor_of(replace(question, case=case, evidence=evidence), sizing_of(case, Decisions()), predictor.work)


def _batch_alone(batch: Batch, predictor: Predictor) -> Batch:
    """Return the same global batch on one process, in as few micro-batches as its memory allows, if that is known."""
    largest = predictor.strategy.largest if predictor.node.room else batch.total
    return typed_batch(batch.total, 1, largest=max(1, largest))


def _compare(predictor: Predictor, alone: Predictor, group: Group, batch: Batch) -> Distribution:
    one = _step(alone, Group(nodes=1, per_node=1), _batch_alone(batch, alone))
    return compare_with_one(_step(predictor, group, batch), one)


def _step(predictor: Predictor, group: Group, batch: Batch) -> StepTime:
    shape = Shape(
        nodes=group.nodes, ranks_per_node=group.per_node, per_rank=batch.per_rank, accumulation=batch.accumulation
    )
    timing = predictor.timing_on(group.nodes)
    return step_time(shape, predictor.moved, Machine(links=predictor.node.links), timing)


def _words(predictor: Predictor, alone: Predictor, group: Group, batch: Batch, compared: Distribution) -> str:
    """Return the warning: both times of an epoch, the share of communication, and what to type instead."""
    steps = predictor.work.samples / batch.total
    times = [time_of(steps * seconds) for seconds in (compared.ranks_s, compared.one_s)]
    origin = "from measured runs" if predictor.question.evidence.points else "nothing is measured"
    parts = f" x {batch.accumulation} micro-batches" if batch.accumulation > 1 else ""
    words = f"{batch.replicas} ranks x {count(batch.per_rank, 'sample')}{parts} are predicted to be"
    words += f" {compared.reason.verdict} than one process with the same global batch of {batch.total}:"
    words += f" {times[0]} instead of {times[1]} an epoch ({origin}); {compared.communication:.0%} of a step is"
    words += f" communication, and {compared.fixed:.0%} does not depend on the batch; one process:"
    words += f" {_typed_alone(predictor, _batch_alone(batch, alone))}"
    enough = _enough(predictor, alone, group, batch)
    return words if enough is None else f"{words}; these ranks are faster from {count(enough, 'sample')} per rank on"


def _typed_alone(predictor: Predictor, alone: Batch) -> str:
    """Return the flags of one process with this batch, as far as the job has parameters for it."""
    names, typed = predictor.work.names, ["--nodes 1 --tasks-per-node 1"]
    if predictor.work.global_batch is not None:  # the program divides its batch itself
        return typed[0]
    if "batch_size_per_rank" in names:
        typed.append(f"--set {names['batch_size_per_rank']}={alone.per_rank}")
    if "accumulation" in names and alone.accumulation != predictor.work.rows["accumulation"].default:
        typed.append(f"--set {names['accumulation']}={alone.accumulation}")
    return " ".join(typed)


def _enough(predictor: Predictor, alone: Predictor, group: Group, batch: Batch) -> int | None:
    """Return the smallest doubling of the batch per rank with which the ranks are worth it.

    None if none fits the memory of a rank, or this memory is not known.
    """
    if predictor.node.room is None:
        return None
    for doubling in range(1, DOUBLINGS + 1):
        per_rank = batch.per_rank << doubling
        larger = Batch(per_rank=per_rank, replicas=batch.replicas, accumulation=batch.accumulation)
        if per_rank > predictor.strategy.largest or larger.total > predictor.work.samples:
            return None
        if _compare(predictor, alone, group, larger).is_worth_it:
            return per_rank
    return None
