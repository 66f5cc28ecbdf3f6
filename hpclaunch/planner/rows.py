"""The row of every trial: the batch that suits its ranks, and what is predicted for it; it chooses no node count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import MICRO_BATCHES, Batch, PerRank, possible_batches, typed_batch
from hpclaunch.planner.prediction import Predictor
from hpclaunch.planner.question import Trial
from hpclaunch.planner.recipe import in_pipeline, own_batch
from hpclaunch.planner.values import PlanRow


def rows_of(predictor: Predictor, trials: Sequence[Trial]) -> list[PlanRow]:
    """Return a row for every trial, up to the node count where the batch cannot be divided any further.

    More ranks never get a smaller global batch than fewer ranks.
    """
    rows: list[PlanRow] = []
    before = 0
    for trial in trials:
        row = _row(predictor, trial, before)
        rows.append(row)
        if row.batch is not None:
            before = row.batch.total
        elif before:
            break  # strong scaling ends here, or the site's limit is reached: more nodes cannot help
    return rows


def _row(predictor: Predictor, trial: Trial, before: int) -> PlanRow:
    """Return the row of one trial; ``before``: the global batch of the trial with fewer ranks (0: the first one)."""
    ranks = trial.nodes * trial.ranks_per_node
    whole = trial.sizing.layout.whole_nodes
    empty = PlanRow(nodes=trial.nodes, ranks=ranks, whole_nodes=whole, obstacles=trial.refused)
    if trial.faults:
        return empty
    largest = predictor.largest_on(ranks)
    obstacle = _no_replica(predictor.strategy.gpus, ranks, largest)
    if obstacle:
        return replace(empty, obstacles=(obstacle,))
    replicas, stages = ranks // predictor.strategy.gpus, predictor.work.pipeline_stages
    # The samples of a replica in a pipeline are several micro-batches, each of which must fit.
    most = largest if stages == 1 else largest * MICRO_BATCHES * stages
    try:
        batches = [in_pipeline(batch, predictor.work, largest) for batch in _batches(predictor, replicas, before, most)]
    except ValueError as error:
        return replace(empty, obstacles=(str(error),))
    if not batches:
        return replace(empty, obstacles=(_why_none(predictor, replicas, before),))
    if predictor.timing is None:
        return replace(empty, batch=batches[-1])
    throughputs = [predictor.throughput(trial, batch) for batch in batches]
    candidates = [
        predictor.candidate(trial, batch, predicted) for batch, predicted in zip(batches, throughputs, strict=True)
    ]
    best = predictor.best(candidates)
    return replace(empty, batch=best.batch, throughput=throughputs[candidates.index(best)], candidate=best)


def _no_replica(gpus: int, ranks: int, largest: int) -> str:
    """Return why the ranks do not hold whole replicas of the model; empty if they do."""
    if ranks < gpus:
        return f"a replica needs {gpus} GPUs"
    if ranks % gpus:
        return f"{ranks} ranks are not whole replicas of {gpus} GPUs"
    return "" if largest else f"{ranks} ranks are too few to share the optimizer's state"


def _batches(predictor: Predictor, replicas: int, before: int, largest: int) -> list[Batch]:
    """Return the batches to choose from: only the typed one or the job's own, if there is one.

    ``largest``: the samples of a replica that fit its memory. The first trial may use a batch per rank below the
    smallest. Raises ValueError if a typed batch does not divide evenly.
    """
    cap = predictor.cap.batch
    total = predictor.question.global_batch
    if total is not None:
        return [typed_batch(total, replicas, largest=largest)]
    own = own_batch(predictor.work, replicas, largest) if predictor.own_batch else None
    if own is not None:
        # With a typed batch per rank, the node count is still hpclaunch's choice: it ends where B reaches the bound.
        is_free = predictor.question.typed_nodes is None
        return [] if is_free and before and own.total > cap else [own]
    limits = PerRank(smallest=predictor.smallest, largest=largest)
    found = possible_batches(cap, replicas, limits, at_least=max(1, before))
    if found or before:
        return found
    few = possible_batches(cap, replicas, PerRank(smallest=1, largest=largest))
    return few or [Batch(per_rank=1, replicas=replicas)]


def _why_none(predictor: Predictor, replicas: int, before: int) -> str:
    """Return why more ranks cannot share a global batch."""
    cap, own = f"a global batch of at most {predictor.cap.batch}", predictor.work.per_rank
    if predictor.own_batch and own:
        return f"{cap} leaves each rank fewer than the {count(own, 'sample')} that were typed"
    if before <= predictor.strategy.largest * replicas and predictor.cap.batch // replicas >= predictor.smallest:
        return f"{cap} leaves {count(replicas, 'rank')} less than the {before} samples of fewer ranks"
    return f"{cap} leaves each rank fewer than {predictor.smallest} samples"
