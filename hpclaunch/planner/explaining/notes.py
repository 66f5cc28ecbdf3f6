"""Where evidence in hand overrides a rule of thumb, or advice is not followed: one line each; it chooses nothing."""

from __future__ import annotations

import math

from hpclaunch.config.job import Role
from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import MOST_NODES, below_square_root, bound_of
from hpclaunch.planner.amounts import shorten, time_of
from hpclaunch.planner.choice.rows import freer_row
from hpclaunch.planner.job.epochs import known_batches
from hpclaunch.planner.job.question import Trial
from hpclaunch.planner.speed.prediction import Predictor
from hpclaunch.planner.values import PlanRow


def notes_of(predictor: Predictor, trial: Trial, row: PlanRow) -> tuple[str, ...]:
    """Return the lines for the chosen ``row`` of a trial; none for what a person typed, which has its own words."""
    found = _better_batch(predictor, trial, row)
    if row.batch is not None and not predictor.own_batch and predictor.question.global_batch is None:
        found += [*_explain_bound(predictor, row.batch.total), *_few_samples(predictor, row)]
    if row.nodes > MOST_NODES and predictor.question.typed_nodes is None:
        found.append(f"more than the {MOST_NODES} nodes that the guidelines recommend: no fewer meet the deadline")
    return tuple(found)


def _better_batch(predictor: Predictor, trial: Trial, row: PlanRow) -> list[str]:
    """Return that another batch is sooner and cheaper than the whole printed range, where typed nodes keep the job's.

    The batch per rank stays the job's own beside typed nodes, as a person expects who changes nothing else.
    """
    freer = freer_row(predictor, trial) if row.candidate is not None else None
    if freer is None or freer.candidate is None or freer.batch is None or row.candidate is None:
        return []
    run, own, batch, names = freer.candidate, row.candidate, freer.batch, predictor.work.names
    if run.time_s.middle >= own.time_s.low or run.cost.middle >= own.cost.low:
        return []
    values: dict[Role, int] = {"batch_size_per_rank": batch.per_rank, "accumulation": batch.accumulation}
    changed = [
        f"--set {names[role]}={value}"
        for role, value in values.items()
        if role in names and (role != "accumulation" or value != predictor.work.accumulation)
    ]
    figures = f"{time_of(run.time_s.middle)} and {shorten(run.cost.middle)} {run.unit}s"
    return [f"typed nodes keep the job's own batch; {' '.join(changed)} (B = {batch.total}) would make it {figures}"]


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
