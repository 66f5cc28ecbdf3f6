"""The node count of a plan, or why there is none: the best row, its reason, and what to type instead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.guidelines.candidates import Candidate
from hpclaunch.guidelines.choice import Appraisal, NodeChoice, choose
from hpclaunch.planner.choice.proposal import enough_for, infeasible, shared_evenly
from hpclaunch.planner.job.question import Trial
from hpclaunch.planner.speed.prediction import Predictor
from hpclaunch.planner.values import PlanRow


@record
class PlanDecision:
    """The chosen row; ``choice`` is None where no time could be predicted."""

    row: PlanRow
    choice: NodeChoice | None
    summary: str
    refusals: tuple[Fault, ...] = ()


def decide(predictor: Predictor, first: Trial, rows: list[PlanRow]) -> PlanDecision:
    """Return the row with the best trade-off, or a refusal where no row is possible.

    ``first`` is the smallest trial that the site accepts; the choice is compared with one process there.
    """
    typed = predictor.question.typed_nodes
    possible = [row for row in rows if row.batch is not None and typed in (None, row.nodes)]
    if not possible:
        return _refuse(predictor, rows[-1] if typed else rows[0])
    if not any(row.candidate for row in possible):
        why = "as typed" if typed else f"the speed of {predictor.node.device} is not known"
        return PlanDecision(row=possible[0], choice=None, summary=f"{count(possible[0].nodes, 'node')}: {why}")
    return _choose(predictor, first, rows, possible)


def _refuse(predictor: Predictor, row: PlanRow) -> PlanDecision:
    """Return the refusal of a row that cannot be used, with what to type instead."""
    typed = predictor.question.typed_nodes
    counts = f"{count(row.nodes, 'node')} cannot be used" if typed else "no node count works"
    what = f"{counts}: {'; '.join(row.obstacles)}"
    nearest = _divisible_batch(predictor, row) or _enough_nodes(predictor, row)
    fault = Fault(what=what, next=nearest or "try another --node-type, or a smaller batch")
    return PlanDecision(row=row, choice=None, summary=what, refusals=(fault,))


def _choose(predictor: Predictor, first: Trial, rows: list[PlanRow], possible: list[PlanRow]) -> PlanDecision:
    """Return the best of the possible rows.

    The plan shows every row. Where nodes are typed only their row is possible, but each row is still appraised beside
    the others: therefore ``choose`` is called twice.
    """
    objective = predictor.question.objective
    choice = choose(candidates_of(possible), objective, single=predictor.alone(first))
    overall = choose(candidates_of(rows), objective)
    row = next(row for row in possible if row.candidate is choice.nearest)
    return PlanDecision(
        row=row,
        choice=replace(choice, appraised=overall.appraised),
        summary=_summary_of(predictor, rows, row, choice),
        refusals=() if choice.best else (infeasible(choice, objective),),
    )


def candidates_of(rows: Sequence[PlanRow]) -> list[Candidate]:
    """Return the candidates of the rows whose time is predicted."""
    return [row.candidate for row in rows if row.candidate is not None]


def _divisible_batch(predictor: Predictor, row: PlanRow) -> str:
    """Return what to type instead of a global batch size that does not divide; empty if that is not the reason."""
    replicas = row.ranks // predictor.strategy.gpus
    typed = predictor.question.global_batch
    return shared_evenly(predictor.question, replicas) if typed and replicas and typed % replicas else ""


def _enough_nodes(predictor: Predictor, row: PlanRow) -> str:
    """Return what to type instead of too few nodes for one replica; empty if that is not the reason."""
    whole = math.ceil(predictor.strategy.gpus / predictor.node.ranks)
    return enough_for(predictor.question, whole) if row.nodes < whole else ""


def _summary_of(predictor: Predictor, rows: list[PlanRow], row: PlanRow, choice: NodeChoice) -> str:
    nodes = _nodes_in_words(predictor, row)
    if predictor.question.typed_nodes is not None:
        return f"{nodes}, as typed"
    if choice.best is None:
        return f"{nodes}, the nearest to the deadline and the budget"
    tried = [other for other in rows if other.batch is not None]
    batch = row.batch.total if row.batch else 0
    if len(tried) == 1 and len(rows) > 1 and not rows[-1].batch:
        return f"{nodes}, B = {batch}; more ranks are not possible: {rows[-1].obstacles[0]}"
    if len(rows) == 1:
        return f"{nodes}, B = {batch}: one replica, which fills them"
    weight, parts = predictor.question.objective.weight, any(is_part_of_node(predictor, other) for other in tried)
    compared = f"{len(tried)} layouts" if parts else f"{len(tried)} node counts"
    return f"{nodes}, B = {batch}: the best of {compared} (least time^{weight:.2g} x cost^{1 - weight:.2g})"


def _nodes_in_words(predictor: Predictor, row: PlanRow) -> str:
    """Return the node count, or the part of one node."""
    if is_part_of_node(predictor, row):
        return f"{row.ranks} of the {predictor.node.ranks} GPUs of {'a' if row.whole_nodes else 'a shared'} node"
    return count(row.nodes, "node")


def is_part_of_node(predictor: Predictor, row: PlanRow) -> bool:
    """Whether a row uses a part of one node."""
    return row.ranks < row.nodes * predictor.node.ranks


def add_marginals(rows: Sequence[PlanRow], choice: NodeChoice | None) -> list[PlanRow]:
    """Return the rows with marginal efficiency and trade-off, and with the obstacles that the choice found."""
    appraised = {appraisal.candidate.size: appraisal for appraisal in choice.appraised} if choice else {}
    return [_add_marginal(row, appraised.get(row.candidate.size) if row.candidate else None) for row in rows]


def _add_marginal(row: PlanRow, appraisal: Appraisal | None) -> PlanRow:
    if appraisal is None:
        return row
    obstacles = (*row.obstacles, *appraisal.obstacles)
    return replace(row, marginal=appraisal.marginal, trade_off=appraisal.trade_off, obstacles=obstacles)
