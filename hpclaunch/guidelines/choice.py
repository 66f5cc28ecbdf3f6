"""How many nodes: time and cost of each candidate, what is feasible, the best trade-off; it queues nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import Batch
from hpclaunch.guidelines.candidates import LONGEST_S, SOURCE, Candidate, time_words
from hpclaunch.guidelines.reasoning import GUIDELINES, Number, Reason

WORTHWHILE = 0.6
"""Doubling the nodes is worth it while the throughput per node stays at least this share of what it was before."""
SAME = 0.03
"""Trade-offs that differ by less than the model's own error count as equal."""
ROUNDING = 1e-3
"""A difference in time or cost that no printed figure shows."""
EDGE = 1e-6
"""A part of a step, so that trade-offs which only rounding tells apart are in the same one."""


@record
class Objective:
    """The objective: weight of time against cost (0 < w < 1), deadline (seconds from now), budget (cost).

    ``most_nodes``: the node limit of the site.
    """

    weight: float = 0.5
    deadline_s: float | None = None
    budget: float | None = None
    most_nodes: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.weight < 1:
            raise ValueError(f"the weight of time must be between 0 and 1, not {self.weight}")


def trade_off(run: Candidate, weight: float) -> float:
    """Return J = (time + wait)^w x cost^(1 - w); smaller is better. Source: ``SOURCE``."""
    return float(run.done_s**weight * run.cost.middle ** (1 - weight))


def marginal_efficiency(smaller: Candidate, larger: Candidate) -> float:
    """Return time(p/2) / (2 time(p)): 1 if a doubling of the ranks halves the time, 1/2 if it gains nothing.

    It is at most 1, also where more nodes hold the data set in their memory and are more than twice as fast: that part
    of the gain is not one of more ranks. Another ratio of ranks is converted to one doubling. Raises ValueError unless
    ``larger`` has more ranks.
    """
    if larger.ranks <= smaller.ranks:
        raise ValueError("marginal efficiency compares a candidate with one of fewer ranks")
    kept = smaller.time_s.middle * smaller.ranks / (larger.time_s.middle * larger.ranks)
    return min(1.0, float(kept ** (1 / math.log2(larger.ranks / smaller.ranks))))


@record
class Appraisal:
    """A candidate with its trade-off (smaller is better), marginal efficiency (None: the first) and obstacles.

    ``dearer``: it costs more than the candidate with fewer ranks; on a node that is charged as a whole, it may not.
    """

    candidate: Candidate
    trade_off: float
    marginal: float | None
    obstacles: tuple[str, ...]
    dearer: bool = True

    @property
    def worthwhile(self) -> bool:
        """Whether throughput per rank stayed high enough at the last doubling, or the doubling costs nothing."""
        return self.marginal is None or self.marginal >= WORTHWHILE or not self.dearer


@record
class NodeChoice:
    """The best feasible candidate, or None and the ``nearest`` one; the appraisal of all; warnings."""

    best: Candidate | None
    nearest: Candidate
    appraised: tuple[Appraisal, ...]
    warnings: tuple[str, ...]
    reason: Reason


def choose(candidates: Sequence[Candidate], objective: Objective, *, single: Candidate | None = None) -> NodeChoice:
    """Return the best feasible candidate: worthwhile ones first, of these the one with the least J.

    Candidates in the same step of 3 % count as equal: then fewer nodes come first, then a batch size per rank that is a
    multiple of 8, then the smaller batch. Node counts beyond a doubling that was not worth it are chosen only if no
    other meets the deadline, or if they are both faster and no dearer. So a larger budget never gives a slower run, nor
    a later deadline a dearer one. ``single`` is one process, with which the choice is compared. Raises ValueError
    without candidates.
    Source: ``SOURCE``.
    """
    if not candidates:
        raise ValueError("there is nothing to choose from")
    appraised = _appraise(sorted(candidates, key=lambda run: run.size), objective)
    feasible = [appraisal for appraisal in appraised if not appraisal.obstacles]
    worth = [appraisal for appraisal in _worth_doubling(appraised) if not appraisal.obstacles]
    pool = worth or feasible
    nearest = min(
        appraised, key=lambda appraisal: (_excess(appraisal.candidate, objective), appraisal.trade_off)
    ).candidate
    best = _best_of(pool, feasible) if pool else None
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
            candidate=run,
            trade_off=trade_off(run, objective.weight),
            marginal=None if before is None or before.ranks == run.ranks else marginal_efficiency(before, run),
            obstacles=tuple(_obstacles(run, objective)),
            dearer=before is None or run.cost.middle > before.cost.middle,
        )
        for before, run in zip(befores, candidates, strict=True)
    ]


def is_late(run: Candidate, objective: Objective) -> bool:
    """Whether a candidate is done after the deadline, or takes too long whatever the deadline is."""
    return bool(run.beyond) or (objective.deadline_s is not None and run.done_s > objective.deadline_s)


def is_dear(run: Candidate, objective: Objective) -> bool:
    """Whether a candidate costs more than the budget."""
    return objective.budget is not None and run.cost.middle > objective.budget


def _obstacles(run: Candidate, objective: Objective) -> list[str]:
    found = [run.beyond] if run.beyond else []
    if objective.most_nodes is not None and run.nodes > objective.most_nodes:
        found.append(f"{count(run.nodes, 'node')}, but the limit is {objective.most_nodes}")
    if objective.deadline_s is not None and run.done_s > objective.deadline_s:
        found.append(f"done after {time_words(run.done_s)}, but the deadline is in {time_words(objective.deadline_s)}")
    if is_dear(run, objective):
        assert objective.budget is not None
        found.append(f"costs {run.cost.middle:.4g} {run.unit}s, but the budget is {objective.budget:.4g}")
    return found


def _excess(run: Candidate, objective: Objective) -> float:
    """Return how far a candidate misses the objective: the sum of the logarithms of every ratio above 1."""
    late = run.done_s / objective.deadline_s if objective.deadline_s else 1.0
    dear = run.cost.middle / objective.budget if objective.budget else 1.0
    large = run.nodes / objective.most_nodes if objective.most_nodes else 1.0
    long = run.time_s.middle / LONGEST_S
    return sum(math.log(max(1.0, ratio)) for ratio in (late, dear, large, long)) + bool(run.beyond)


def relaxed(run: Candidate, objective: Objective) -> Objective:
    """Return the objective with deadline and budget raised as far as the candidate needs.

    They are rounded up by at most 1 %, so that the printed values can be typed; the deadline is in whole seconds.
    """
    deadline, budget = objective.deadline_s, objective.budget
    if deadline is not None and run.done_s > deadline:
        deadline = _whole_time(run.done_s)
    if budget is not None and run.cost.middle > budget:
        budget = _three_digits(run.cost.middle)
    return replace(objective, deadline_s=deadline, budget=budget)


def _whole_time(seconds: float) -> float:
    """Round up to a second, ten seconds, a minute, ten minutes or an hour: the largest that adds at most 1 %."""
    unit = max((unit for unit in (1, 10, 60, 600, 3600) if unit <= seconds / 100), default=1)
    return float(math.ceil(seconds / unit) * unit)


def _three_digits(amount: float) -> float:
    """Round up to three significant digits: 0.0001538 becomes 0.000154."""
    unit = 10.0 ** (math.floor(math.log10(amount)) - 2)
    steps = math.floor(amount / unit)
    while float(f"{steps * unit:.3g}") < amount:
        steps += 1
    return float(f"{steps * unit:.3g}")


def _worth_doubling(appraised: Sequence[Appraisal]) -> list[Appraisal]:
    wasteful = next((index for index, appraisal in enumerate(appraised) if not appraisal.worthwhile), len(appraised))
    return list(appraised[:wasteful])


def _best_of(pool: Sequence[Appraisal], feasible: Sequence[Appraisal]) -> Appraisal:
    """Return the first of the ``pool``, or of what is feasible and better than it in time and in cost."""
    best = min(pool, key=_preference)
    while better := [other for other in feasible if beats(other.candidate, best.candidate)]:
        best = min(better, key=_preference)
    return best


def beats(run: Candidate, other: Candidate) -> bool:
    """Whether a candidate is done sooner and costs no more, or as soon and costs less."""
    sooner, cheaper = run.done_s / other.done_s, run.cost.middle / other.cost.middle if other.cost.middle else 1.0
    return max(sooner, cheaper) <= 1 and min(sooner, cheaper) < 1 - ROUNDING


def _preference(appraisal: Appraisal) -> tuple[int, int, int, bool, int]:
    """Return by what candidates are ordered; the steps do not depend on the others, nor does the order."""
    run, least = appraisal.candidate, appraisal.trade_off
    step = math.floor(math.log(least) / math.log1p(SAME) + EDGE) if least > 0 else -(10**9)
    return step, *run.size, run.batch.per_rank % 8 != 0, run.batch.total


def least_time(candidates: Sequence[Candidate], base_batch: float) -> Candidate:
    """Return the candidate of one node count that is done first.

    Of equal ones: a multiple of 8 per rank, and the batch that is nearest to the job's own (``base_batch``, samples),
    which its rate and epochs were tuned for. With the same nodes, the cost grows with the time, so that the least time
    is also the least J.
    """
    least = min(run.time_s.middle for run in candidates)
    same = [run for run in candidates if run.time_s.middle <= least * (1 + SAME)]
    return min(same, key=lambda run: (run.batch.per_rank % 8 != 0, abs(math.log(run.batch.total / base_batch))))


def explain_batch(batch: Batch, base_batch: float | None) -> Reason:
    """Return the verdict on a batch that ``least_time`` chose."""
    numbers = [Number(name="B", value=batch.total, unit="samples")]
    numbers += [Number(name="B0", value=base_batch, unit="samples", origin="given")] if base_batch else []
    return Reason(
        rule="of the batches within the bound, the one that is done first; of equal ones, the nearest to the job's own",
        numbers=tuple(numbers),
        verdict=f"{batch.total} samples: {batch.per_rank} for each of {count(batch.replicas, 'replica')}",
        source=f"{GUIDELINES}, batch size selection and node number selection; the choice by time is hpclaunch's own",
    )


def _warnings(best: Appraisal | None, objective: Objective, single: Candidate | None) -> list[str]:
    if best is None:
        return []
    chosen, found = best.candidate, []
    if not best.worthwhile and objective.deadline_s is not None:
        found.append(f"throughput per node fell to {best.marginal:.0%} at the last doubling, which the deadline needs")
    if single is not None and chosen.ranks > 1 and chosen.time_s.middle > single.time_s.middle:
        many, one = (f"{time_words(run.time_s.middle)} for {_cost_words(run)}" for run in (chosen, single))
        found.append(f"slower than one process ({many}, instead of {one}): do not distribute this run")
    if objective.deadline_s is not None and chosen.time_s.high + chosen.wait_s > objective.deadline_s:
        found.append("the deadline is met in at least half of all cases, but in fewer than 90 %")
    if objective.budget is not None and chosen.cost.high > objective.budget:
        found.append("the budget is kept in at least half of all cases, but in fewer than 90 %")
    return found


def _cost_words(run: Candidate) -> str:
    """Return the cost with its unit, in two digits; from 99.5 on, where .2g would write an exponent, in whole units."""
    cost = run.cost.middle
    return f"{cost:.2g} {run.unit}s" if cost < 99.5 else f"{cost:.0f} {run.unit}s"


def _verdict(best: Appraisal | None, nearest: Candidate, objective: Objective) -> Reason:
    shown = best.candidate if best else nearest
    numbers = [
        Number(name="w", value=objective.weight, origin="given"),
        Number(name="time", value=shown.time_s.middle, unit="s", origin=shown.time_s.origin),
        Number(name="wait", value=shown.wait_s, unit="s"),
        Number(name="cost", value=shown.cost.middle, unit=shown.unit, origin=shown.cost.origin),
    ]
    if best and best.marginal is not None:
        numbers.append(Number(name="throughput per node after the last doubling", value=best.marginal))
    verdict = count(shown.nodes, "node")
    if best is None:
        verdict = f"nothing is feasible; the nearest is {verdict}, done after {time_words(shown.done_s)}"
        verdict += f", for {shown.cost.middle:.4g} {shown.unit}s"
    return Reason(
        rule="the feasible node count with the least J", numbers=tuple(numbers), verdict=verdict, source=SOURCE
    )
