"""How many nodes: time and cost of each candidate, what is feasible, the best trade-off; it queues nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.core.records import record
from hpclaunch.core.units import count, format_walltime
from hpclaunch.guidelines.batch import Batch
from hpclaunch.guidelines.efficiency import Pareto
from hpclaunch.guidelines.reasoning import Interval, Number, Origin, Reason, combined

SOURCE = "J = (time + wait)^w cost^(1-w), minimal at B = B_crit w / (1 - w) (McCandlish et al. 2018, Pareto law)"
WORTHWHILE = 0.6
"""Doubling the nodes is worth it while a node then still does this share of the work it did before."""
SAME = 0.03
"""Trade-offs that differ by less are the same: it is the model's own error."""
EPOCHS_SPREAD = 0.064
"""Relative half-width (80 %) of epochs from run to run: 5 % standard deviation (CosmoFlow in MLPerf HPC, median)."""
HOUR = 3600.0


@record
class Objective:
    """What is wanted: weight of time against cost (0 < w < 1), deadline (seconds from now), budget (cost).

    ``most_nodes``: what the site's limits allow.
    """

    weight: float = 0.5
    deadline_s: float | None = None
    budget: float | None = None
    most_nodes: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.weight < 1:
            raise ValueError(f"the weight of time is between 0 and 1, not {self.weight}")


@record
class Bill:
    """What a node costs an hour, in ``unit``; the longest walltime of one job in seconds (None: no limit)."""

    per_node_hour: float = 1.0
    unit: str = "node-hour"
    walltime_s: float | None = None


@record
class Candidate:
    """A run on that many nodes: time to the target and wait before it (seconds), cost, jobs in its chain."""

    nodes: int
    batch: Batch
    samples_per_s: Interval
    epochs: Interval
    time_s: Interval
    wait_s: float
    node_hours: Interval
    cost: Interval
    unit: str
    jobs: int
    reason: Reason

    @property
    def done_s(self) -> float:
        """Seconds from now until it is done, as likely as not."""
        return self.time_s.middle + self.wait_s


@record
class TrainingLength:
    """How long a job trains on any number of nodes: epochs by batch, ``samples`` an epoch, seconds outside the steps.

    ``origin``: of the epochs model; ``overhead_s``: start-up, staging, evaluation.
    """

    epochs_model: Pareto
    samples: int
    origin: Origin = "given"
    overhead_s: float = 0.0


def candidate(
    nodes: int, batch: Batch, samples_per_s: Interval, length: TrainingLength, bill: Bill, *, wait_s: float = 0.0
) -> Candidate:
    """Return what a run on ``nodes`` nodes would take, with the uncertainty of throughput and of epochs.

    time = overhead + epochs x samples / throughput; cost by nodes x time.
    """
    epochs, overhead_s = length.epochs_model.epochs(batch.total), length.overhead_s
    training = epochs * length.samples / samples_per_s.middle
    slow = samples_per_s.middle / samples_per_s.low - 1
    half = combined(slow, EPOCHS_SPREAD)
    time_s = Interval(
        low=overhead_s + training / (1 + half),
        middle=overhead_s + training,
        high=overhead_s + training * (1 + half),
        origin=samples_per_s.origin,
    )
    hours = _times(time_s, nodes / HOUR)
    jobs = max(1, math.ceil(time_s.middle / bill.walltime_s)) if bill.walltime_s else 1
    chain = f"; longer than one job may run: a chain of {jobs} jobs, joined by checkpoints" if jobs > 1 else ""
    return Candidate(
        nodes=nodes,
        batch=batch,
        samples_per_s=samples_per_s,
        epochs=_around(epochs, EPOCHS_SPREAD, length.origin),
        time_s=time_s,
        wait_s=wait_s,
        node_hours=hours,
        cost=_times(hours, bill.per_node_hour),
        unit=bill.unit,
        jobs=jobs,
        reason=Reason(
            rule="time = overhead + epochs x samples / throughput",
            numbers=(
                Number(name="B", value=batch.total, unit="samples"),
                Number(name="throughput", value=samples_per_s.middle, unit="samples/s", origin=samples_per_s.origin),
                Number(name="epochs", value=epochs, unit="epochs", origin=length.origin),
                Number(name="N", value=length.samples, unit="samples", origin="given"),
            ),
            verdict=f"{count(nodes, 'node')}: {_spelled(time_s.low)} to {_spelled(time_s.high)}{chain}",
            source=SOURCE,
        ),
    )


def _around(middle: float, half: float, origin: Origin) -> Interval:
    return Interval(low=middle / (1 + half), middle=middle, high=middle * (1 + half), origin=origin)


def _times(interval: Interval, by: float) -> Interval:
    return Interval(low=interval.low * by, middle=interval.middle * by, high=interval.high * by, origin=interval.origin)


def _spelled(seconds: float) -> str:
    return format_walltime(math.ceil(seconds))


def trade_off(one: Candidate, weight: float) -> float:
    """Return J = (time + wait)^w x cost^(1 - w), the smaller the better. Source: ``SOURCE``."""
    return float(one.done_s**weight * one.cost.middle ** (1 - weight))


def marginal_efficiency(smaller: Candidate, larger: Candidate) -> float:
    """Return time(n/2) / (2 time(n)): how much of a node's work is left after a doubling.

    For another ratio of nodes, the same per doubling. Raises ValueError if ``larger`` has not more nodes.
    """
    if larger.nodes <= smaller.nodes:
        raise ValueError("marginal efficiency needs a larger candidate")
    kept = smaller.time_s.middle * smaller.nodes / (larger.time_s.middle * larger.nodes)
    return float(kept ** (1 / math.log2(larger.nodes / smaller.nodes)))


@record
class Appraisal:
    """A candidate, its trade-off (smaller is better), what the last doubling left (None: the first), obstacles."""

    candidate: Candidate
    trade_off: float
    marginal: float | None
    obstacles: tuple[str, ...]

    @property
    def worthwhile(self) -> bool:
        """Whether the last doubling left enough of a node's work."""
        return self.marginal is None or self.marginal >= WORTHWHILE


@record
class NodeChoice:
    """The best feasible candidate, or None with the ``nearest`` one; all of them appraised; every warning."""

    best: Candidate | None
    nearest: Candidate
    appraised: tuple[Appraisal, ...]
    warnings: tuple[str, ...]
    reason: Reason


def choose(candidates: Sequence[Candidate], objective: Objective, *, single: Candidate | None = None) -> NodeChoice:
    """Return the best feasible candidate: feasible first, then worthwhile, then the least J.

    Candidates within 3 % are the same: then fewer nodes, then a batch size per rank that is a multiple of 8, then the
    smaller batch. Nodes beyond a doubling that was not worth it are chosen only if a deadline leaves nothing else.
    ``single``: one process, against which the choice is held. Raises ValueError without candidates. Source: ``SOURCE``.
    """
    if not candidates:
        raise ValueError("there is nothing to choose from")
    appraised = _appraise(sorted(candidates, key=lambda one: one.nodes), objective)
    feasible = [one for one in appraised if not one.obstacles]
    worth = [one for one in _up_to_the_first_waste(appraised) if not one.obstacles]
    pool = worth or feasible
    nearest = min(appraised, key=lambda one: (_excess(one.candidate, objective), one.trade_off)).candidate
    best = _least(pool) if pool else None
    return NodeChoice(
        best=best.candidate if best else None,
        nearest=best.candidate if best else nearest,
        appraised=tuple(appraised),
        warnings=tuple(_warnings(best, objective, single)),
        reason=_verdict(best, nearest, objective),
    )


def _appraise(candidates: Sequence[Candidate], objective: Objective) -> list[Appraisal]:
    befores = [None, *candidates[:-1]]
    return [
        Appraisal(
            candidate=one,
            trade_off=trade_off(one, objective.weight),
            marginal=None if before is None or before.nodes == one.nodes else marginal_efficiency(before, one),
            obstacles=tuple(_obstacles(one, objective)),
        )
        for before, one in zip(befores, candidates, strict=True)
    ]


def _obstacles(one: Candidate, objective: Objective) -> list[str]:
    found = []
    if objective.most_nodes is not None and one.nodes > objective.most_nodes:
        found.append(f"{count(one.nodes, 'node')}, the limit is {objective.most_nodes}")
    if objective.deadline_s is not None and one.done_s > objective.deadline_s:
        found.append(f"done after {_spelled(one.done_s)}, the deadline is in {_spelled(objective.deadline_s)}")
    if objective.budget is not None and one.cost.middle > objective.budget:
        found.append(f"costs {one.cost.middle:.4g} {one.unit}s, the budget is {objective.budget:.4g}")
    return found


def _excess(one: Candidate, objective: Objective) -> float:
    """How far a candidate is from the objective: the logarithms of what it exceeds, added."""
    late = one.done_s / objective.deadline_s if objective.deadline_s else 1.0
    dear = one.cost.middle / objective.budget if objective.budget else 1.0
    large = one.nodes / objective.most_nodes if objective.most_nodes else 1.0
    return sum(math.log(max(1.0, ratio)) for ratio in (late, dear, large))


def relaxed(one: Candidate, objective: Objective) -> Objective:
    """Return the objective with deadline and budget raised, where they must be, so that the candidate keeps them.

    Rounded up by at most 1 %, so that what is printed can be typed; the deadline is in whole seconds.
    """
    deadline, budget = objective.deadline_s, objective.budget
    if deadline is not None and one.done_s > deadline:
        deadline = _whole_time(one.done_s)
    if budget is not None and one.cost.middle > budget:
        budget = _three_digits(one.cost.middle)
    return replace(objective, deadline_s=deadline, budget=budget)


def _whole_time(seconds: float) -> float:
    """The next whole second, ten seconds, minute, ten minutes or hour, whichever is still within 1 %."""
    unit = max((unit for unit in (1, 10, 60, 600, 3600) if unit <= seconds / 100), default=1)
    return float(math.ceil(seconds / unit) * unit)


def _three_digits(amount: float) -> float:
    """The next larger number of three digits: 0.0001538 becomes 0.000154."""
    unit = 10.0 ** (math.floor(math.log10(amount)) - 2)
    steps = math.floor(amount / unit)
    while float(f"{steps * unit:.3g}") < amount:
        steps += 1
    return float(f"{steps * unit:.3g}")


def _up_to_the_first_waste(appraised: Sequence[Appraisal]) -> list[Appraisal]:
    wasteful = next((index for index, one in enumerate(appraised) if not one.worthwhile), len(appraised))
    return list(appraised[:wasteful])


def _least(pool: Sequence[Appraisal]) -> Appraisal:
    least = min(one.trade_off for one in pool)
    same = [one for one in pool if one.trade_off <= least * (1 + SAME)]
    return min(same, key=lambda one: _preference(one.candidate))


def _preference(one: Candidate) -> tuple[int, bool, int]:
    return one.nodes, one.batch.per_rank % 8 != 0, one.batch.total


def _warnings(best: Appraisal | None, objective: Objective, single: Candidate | None) -> list[str]:
    if best is None:
        return []
    chosen, found = best.candidate, []
    if not best.worthwhile:
        found.append(f"the last doubling of nodes left {best.marginal:.0%} of a node's work: the deadline asks for it")
    if single is not None and chosen is not single and chosen.time_s.middle > single.time_s.middle:
        slower = chosen.time_s.middle / single.time_s.middle
        found.append(f"{slower:.2g} times slower than one process: do not distribute this run")
    if objective.deadline_s is not None and chosen.time_s.high + chosen.wait_s > objective.deadline_s:
        found.append("the deadline is met as likely as not, but not in nine cases of ten")
    if objective.budget is not None and chosen.cost.high > objective.budget:
        found.append("the budget is kept as likely as not, but not in nine cases of ten")
    return found


def _verdict(best: Appraisal | None, nearest: Candidate, objective: Objective) -> Reason:
    shown = best.candidate if best else nearest
    numbers = [
        Number(name="w", value=objective.weight, origin="given"),
        Number(name="time", value=shown.time_s.middle, unit="s", origin=shown.time_s.origin),
        Number(name="wait", value=shown.wait_s, unit="s"),
        Number(name="cost", value=shown.cost.middle, unit=shown.unit, origin=shown.cost.origin),
    ]
    if best and best.marginal is not None:
        numbers.append(Number(name="left by the last doubling", value=best.marginal))
    verdict = count(shown.nodes, "node")
    if best is None:
        verdict = f"nothing is feasible; the nearest: {verdict}, done after {_spelled(shown.done_s)}"
        verdict += f", for {shown.cost.middle:.4g} {shown.unit}s"
    return Reason(rule="feasible first, then the least J", numbers=tuple(numbers), verdict=verdict, source=SOURCE)
