"""A run that continues on another number of ranks: with the same global batch, optimizer, schedule and rate."""

from __future__ import annotations

from collections.abc import Mapping

from hpclaunch.config.job import Job, Role
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.records import record
from hpclaunch.core.spec import Pairs
from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import Batch, typed_batch
from hpclaunch.guidelines.rates import factor, rule_named
from hpclaunch.planner.job.workload import Workload, workload_of


@record
class Kept:
    """The global batch of a run (samples), its parts in the new world, and the parameters that keep it."""

    batch: Batch
    settings: Pairs
    remark: str


@record
class Worlds:
    """The replicas of a run before and now, and its nodes now."""

    before: int
    now: int
    nodes: int


def kept_recipe(job: Job, parameters: Mapping[str, str], worlds: Worlds) -> Kept | None:
    """Return what keeps a run's global batch and rate with another number of replicas.

    ``job`` has ``training``; ``parameters`` are those of the run. The batch per rank does not grow: more samples of a
    rank become micro-batches, because only this batch is known to fit its memory. None: the job divides a global batch
    itself, or its batch is not known. Raises Refused, with the next node counts, if the batch cannot be divided.
    """
    before, replicas = worlds.before, worlds.now
    assert job.training is not None
    known = tuple((name, text) for name, text in parameters.items() if name in job.parameters)
    work = workload_of(job, job.training, known)
    total = work.total_of(before)
    if work.per_rank is None or total is None or work.global_batch is not None:
        return None
    if total % replicas:
        raise Refused(_indivisible(total, worlds))
    batch = typed_batch(total, replicas, largest=work.per_rank)
    if batch.accumulation > 1 and "accumulation" not in work.names:
        what = f"{job.name} has no parameter for the micro-batches of a step"
        allowed = f"at most {work.per_rank} samples per rank"
        raise Refused(Fault(what=what, where="--nodes", allowed=allowed, next="more nodes, or --recipe plan"))
    # The scaling rule of the ranks counts micro-batches like ranks, so that its factor may change with either.
    rate, remark = _rate(work, before * work.accumulation, replicas * batch.accumulation)
    wanted: dict[Role, str] = {"batch_size_per_rank": str(batch.per_rank), "accumulation": str(batch.accumulation)}
    if rate:
        wanted["learning_rate"] = rate
    changed = {work.names[role]: text for role, text in wanted.items() if role in work.names}
    settings = tuple((name, text) for name, text in changed.items() if parameters.get(name) != text)
    noun = "rank" if work.gpus_per_replica == 1 else "replica"
    return Kept(batch=batch, settings=settings, remark=f"{_batch_in_words(batch, noun)}; {remark}")


def _batch_in_words(batch: Batch, noun: str) -> str:
    parts = f" x {batch.accumulation} micro-batches" if batch.accumulation > 1 else ""
    shares = f"{count(batch.replicas, noun)} x {count(batch.per_rank, 'sample')}{parts}"
    return f"the global batch stays B = {batch.total} = {shares}"


def _rate(work: Workload, before: int, after: int) -> tuple[str, str]:
    """Return the base rate that leads to the same rate in training (empty: the same), and a remark.

    ``before`` and ``after``: the batches of a rank in one step, which the ranks' scaling rule counts.
    """
    rule = rule_named(work.scaling) or "none"
    if rule == "adascale" and before != after:
        return "", "AdaScale measures its factor again, because the batches of a step are others"
    if work.learning_rate is None or rule in ("none", "adascale") or before == after:
        return "", "the learning rate stays as well"
    kept = work.learning_rate * factor(rule, before) / factor(rule, after)
    return f"{kept:.8g}", f"the learning rate stays as well ({work.names['learning_rate']}={kept:.4g} for its rule)"


def _indivisible(total: int, worlds: Worlds) -> Fault:
    """Return the fault of a batch that the ranks cannot share, with the next node counts that can."""
    nodes, now = worlds.nodes, worlds.now  # a replica may need several nodes
    whole = [some for some in range(1, total * nodes // now + 1) if some * now % nodes == 0]
    possible = [some for some in whole if total % (some * now // nodes) == 0]
    below = [one for one in possible if one < nodes][-1:]
    above = [one for one in possible if one > nodes][:1]
    near = [f"--nodes {one}" for one in (*below, *above)]
    return Fault(
        where=f"--nodes {nodes}",
        what=f"the run's global batch of {total} does not divide among {worlds.now} ranks",
        allowed=" or ".join(near) or f"a number of ranks that divides {total}",
        next="choose one of these, or take a new recipe: --recipe plan",
    )
