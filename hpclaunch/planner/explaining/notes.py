"""Where evidence in hand overrides a rule of thumb, or advice is not followed: one line each; it chooses nothing."""

from __future__ import annotations

import math

from hpclaunch.config.job import Role
from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import MOST_NODES, Batch, below_square_root, bound_of
from hpclaunch.guidelines.choice import trade_off
from hpclaunch.planner.amounts import shorten, time_of
from hpclaunch.planner.choice.rows import freer_rows
from hpclaunch.planner.job.epochs import known_batches
from hpclaunch.planner.job.question import Trial
from hpclaunch.planner.speed.prediction import Predictor
from hpclaunch.planner.values import PlanRow


def notes_of(predictor: Predictor, trial: Trial, row: PlanRow) -> tuple[str, ...]:
    """Return the lines for the chosen ``row`` of a trial; none for what a person typed, which has its own words."""
    found = _better_layout(predictor, trial, row)
    if row.batch is not None and not predictor.own_batch and predictor.question.global_batch is None:
        found += [*_explain_bound(predictor, row.batch.total), *_few_samples(predictor, row)]
    if row.nodes > MOST_NODES and predictor.question.typed_nodes is None:
        why = "no fewer meet the deadline"
        if row.nodes == predictor.fewest_that_keep:
            why = "their memory holds the data set, which fewer nodes would read again and again"
        found.append(f"more than the {MOST_NODES} nodes that the guidelines recommend: {why}")
    return tuple(found)


def _better_layout(predictor: Predictor, trial: Trial, row: PlanRow) -> list[str]:
    """Return that another batch or fewer ranks on typed nodes are sooner and cheaper than the whole printed range.

    Beside typed nodes every GPU is used with the job's own batch, as a person expects who changes nothing else.
    """
    own = row.candidate
    if own is None:
        return []
    better = [
        (run, other.batch)
        for other in freer_rows(predictor, trial)
        if (run := other.candidate) is not None
        and other.batch is not None
        and run.time_s.middle < own.time_s.low
        and run.cost.middle < own.cost.low
    ]
    if not better:
        return []
    weight = predictor.question.objective.weight
    run, batch = min(better, key=lambda one: trade_off(one[0], weight))
    fewer = [f"--tasks-per-node {run.ranks_per_node}"] if run.ranks_per_node != trial.ranks_per_node else []
    changed = _changed_parts(predictor, batch)
    usual = " and ".join([*(["use every GPU"] if fewer else []), *(["keep the job's own batch"] if changed else [])])
    figures = f"{time_of(run.time_s.middle)} and {shorten(run.cost.middle)} {run.unit}s"
    return [f"typed nodes {usual}; {' '.join([*fewer, *changed])} (B = {batch.total}) would make it {figures}"]


def _changed_parts(predictor: Predictor, batch: Batch) -> list[str]:
    """Return the flags with which the job would get the parts of a batch; none for parts that it has."""
    work = predictor.work
    values: dict[Role, int] = {"batch_size_per_rank": batch.per_rank, "accumulation": batch.accumulation}
    own: dict[Role, int | None] = {"batch_size_per_rank": work.per_rank, "accumulation": work.accumulation}
    return [
        f"--set {work.names[role]}={value}"
        for role, value in values.items()
        if role in work.names and value != own[role]
    ]


def _explain_bound(predictor: Predictor, batch: int) -> list[str]:
    """Return what allows a batch above sqrt(N)."""
    work = predictor.work
    if batch <= below_square_root(work.samples):
        return []
    known = known_batches(work, predictor.question.evidence.noise)
    bound = bound_of(work.samples, known)
    if bound.origin == "computed":
        return []
    root = f"B = {batch} is above the rule of thumb, sqrt(N) = {math.sqrt(work.samples):.0f}"
    if bound.origin == "default" and known.published is not None:
        return [f"{root}: up to {bound.batch} samples have the same epochs ({known.published.source})"]
    return [f"{root}: {bound.batch} samples are {bound.what}"]


def _few_samples(predictor: Predictor, row: PlanRow) -> list[str]:
    """Return that ranks get fewer samples than is advised, where the time of their steps is known."""
    assert row.batch is not None
    per_rank, advised = row.batch.per_rank, min(predictor.smallest, max(1, predictor.strategy.largest))
    if per_rank >= advised or row.candidate is None or row.batch.replicas == 1:
        return []
    few = f"{count(per_rank, 'sample')} for each rank are fewer than the {advised} that are advised"
    return [f"{few}; by the predicted steps, {row.batch.replicas} ranks are still worth it"]
