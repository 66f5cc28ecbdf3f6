"""The row of every trial: the batch that suits its ranks, and what is predicted for it; it chooses no node count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import MICRO_BATCHES, Batch, possible_batches, typed_batch
from hpclaunch.planner.job.question import Trial, parts_of_nodes
from hpclaunch.planner.job.recipe import in_pipeline, names_batch, own_batch
from hpclaunch.planner.speed.prediction import Predictor
from hpclaunch.planner.values import PlanRow

USELESS = 2
"""Doublings, one after the other, after which no further one is tried if each made the run slower and dearer."""


def rows_of(predictor: Predictor, trials: Sequence[Trial]) -> list[PlanRow]:
    """Return a row for every trial, up to the node count where the batch cannot be divided any further.

    More ranks get no smaller global batch than fewer ranks, up to what is lost where it is shared out.
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
        if predictor.question.typed_nodes is None and _is_over(rows):
            break
    return rows


def further_rows(predictor: Predictor, trials: Iterable[Trial]) -> list[PlanRow]:
    """Return the rows of further trials, as far as they are possible."""
    rows = (_row(predictor, trial, 0) for trial in trials)
    return [row for row in rows if row.candidate is not None]


def freer_rows(predictor: Predictor, trial: Trial) -> list[PlanRow]:
    """Return the rows of typed nodes with the best batch instead of the job's own, and with fewer ranks on each node.

    A typed batch and typed ranks are kept. Empty without typed nodes, and where neither could differ.
    """
    question, work = predictor.question, predictor.work
    if question.typed_nodes is None:
        return []
    is_kept = question.global_batch is None and not names_batch(work)
    is_free = is_kept and work.per_rank is not None and work.pipeline_stages == 1
    trials = [trial] if is_free else []
    if predictor.is_whole and predictor.timing is not None:
        trials += parts_of_nodes(question, trial)
    rows = [_row(predictor, one, 0, is_free=is_free) for one in trials]
    return [row for row in rows if row.candidate is not None]


def _is_over(rows: Sequence[PlanRow]) -> bool:
    """Whether the last doublings, to several nodes, only made a run slower and dearer."""
    runs = [row.candidate for row in rows if row.candidate is not None]
    last = runs[-USELESS:]
    if len(last) < USELESS or len(runs) == USELESS or last[-1].nodes == 1:
        return False
    soonest, least = (min(values) for values in zip(*((run.done_s, run.cost.middle) for run in runs), strict=True))
    return all(run.done_s > soonest and run.cost.middle > least for run in last)


def _row(predictor: Predictor, trial: Trial, before: int, *, is_free: bool = False) -> PlanRow:
    """Return the row of one trial; ``before``: the global batch of the trial with fewer ranks (0: the first one).

    ``is_free``: every batch may be chosen, also where the job's own would be kept.
    """
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
        possible = _free_batches if is_free else _batches
        batches = [in_pipeline(batch, predictor.work, largest) for batch in possible(predictor, replicas, before, most)]
    except ValueError as error:
        return replace(empty, obstacles=(str(error),))
    if not batches:
        return replace(empty, obstacles=(_why_none(predictor, replicas),))
    if predictor.timing is None:
        return replace(empty, batch=max(batches, key=lambda batch: (batch.per_rank % 8 == 0, batch.total)))
    batch = predictor.best_batch(trial, batches)
    predicted = predictor.throughput(trial, batch)
    return replace(empty, batch=batch, throughput=predicted, candidate=predictor.candidate(trial, batch, predicted))


def _no_replica(gpus: int, ranks: int, largest: int) -> str:
    """Return why the ranks do not hold whole replicas of the model; empty if they do."""
    if ranks < gpus:
        return f"a replica needs {gpus} GPUs"
    if ranks % gpus:
        return f"{ranks} ranks are not whole replicas of {gpus} GPUs"
    return "" if largest else f"{ranks} ranks are too few to share the optimizer's state"


def _batches(predictor: Predictor, replicas: int, before: int, largest: int) -> list[Batch]:
    """Return the batches to choose from: only the typed one or the job's own, if there is one.

    ``largest``: the samples of a replica that fit its memory. Of the first trial each replica gets at least one sample.
    Raises ValueError if a typed batch does not divide evenly.
    """
    cap = predictor.cap.batch
    total = predictor.question.global_batch
    if total is not None:
        return [_typed_total(predictor, total, replicas, largest)]
    own = own_batch(predictor.work, replicas, largest) if predictor.own_batch else None
    if own is not None:
        # With a typed batch per rank, the node count is still hpclaunch's choice: it ends where B reaches the bound.
        is_free = predictor.question.typed_nodes is None
        return [] if is_free and before and own.total > cap else [own]
    return _free_batches(predictor, replicas, before, largest)


def _free_batches(predictor: Predictor, replicas: int, before: int, largest: int) -> list[Batch]:
    """Return the batches to choose from where none is typed."""
    work, cap = predictor.work, predictor.cap.batch
    # Where no time is known, nothing says what micro-batches are good for.
    accumulates = "accumulation" in work.names and work.pipeline_stages == 1 and predictor.timing is not None
    found = possible_batches(cap, replicas, largest, accumulates=accumulates)
    if not found and not before:
        return [Batch(per_rank=1, replicas=replicas)]
    # Where the cap does not divide evenly, a few samples are lost.
    return [batch for batch in found if batch.total >= before] or found


def _typed_total(predictor: Predictor, total: int, replicas: int, largest: int) -> Batch:
    """Return the parts of a typed global batch; samples per rank that are typed as well stay.

    Raises ValueError if it does not divide evenly.
    """
    work = predictor.work
    is_divided = "batch_size_per_rank" in work.names and work.global_batch is None
    if "batch_size_per_rank" not in work.typed or work.per_rank is None:
        found = typed_batch(total, replicas, largest=largest)
        if found.accumulation > 1 and is_divided and "accumulation" not in work.names:
            parts = f"{found.accumulation} micro-batches for each of {count(replicas, 'replica')}"
            raise ValueError(f"a global batch size of {total} is {parts}, and the job has no parameter for them")
        return found
    step = work.per_rank * replicas
    if total % step or ("accumulation" not in work.names and total != step):
        each = f"{count(work.per_rank, 'sample')} for each of {count(replicas, 'rank')}"
        raise ValueError(f"a global batch size of {total} does not consist of {each}")
    return Batch(per_rank=work.per_rank, replicas=replicas, accumulation=total // step)


def _why_none(predictor: Predictor, replicas: int) -> str:
    """Return why more ranks cannot share a global batch."""
    cap, own = f"a global batch of at most {predictor.cap.batch}", predictor.work.per_rank
    if predictor.own_batch and own:
        return f"{cap} leaves each rank fewer than the {count(own, 'sample')} that were typed"
    return f"{cap} has no sample for each of {count(replicas, 'rank')}"
