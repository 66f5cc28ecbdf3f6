"""The five lines that a plan begins with: nodes, batch, rate, time and cost, each with its range and mark of trust."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import MOST_NODES, Batch
from hpclaunch.guidelines.intervals import Interval
from hpclaunch.guidelines.rates import Rate, factor
from hpclaunch.planner.amounts import range_of, shorten, time_of, time_range_of
from hpclaunch.planner.job.question import Evidence
from hpclaunch.planner.job.recipe import Recipe
from hpclaunch.planner.values import (
    Forecast,
    Headline,
    OwnProgram,
    PlanRow,
    ProgramMeasured,
    StatisticalEfficiency,
    Trust,
)

CLOSE = 0.1
"""Node counts whose trade-off is at most this much above the best one's make the range of nodes (hpclaunch's own)."""
STARTING_VALUE = 2.0
"""The rate of LARS and LAMB, or of a decoder of this size, is a starting value: its range reaches this factor to each
side (hpclaunch's own)."""
UNKNOWN = "not known"
IMPOSSIBLE = "not feasible"
"""In place of the range of nodes, where deadline, budget or a limit excludes every count that may be taken."""


def trust_of(evidence: Evidence) -> Trust:
    """Return what predictions from these measurements rest on."""
    if not evidence.points:
        return "guess"
    several = any(point.shape.nodes > 1 for point in evidence.points)
    return "measured at scale" if several else "one node measured"


def headlines_of(plan: Forecast) -> tuple[Headline, ...]:
    """Return the five lines of a plan; what is not known says so."""
    row = plan.chosen
    return (_nodes(plan, row), _batch(plan, row), _rate(plan), _time(plan, row), _cost(plan, row))


def _nodes(plan: Forecast, row: PlanRow | None) -> Headline:
    """Return the node count, and the range of those that are as good; in ranks if one of these is a part of a node."""
    ranks, value = row.ranks if row else plan.nodes, _size_in_words(plan, row)
    close = _close_rows(plan, row)
    if not close:
        why = IMPOSSIBLE if row is not None and row.candidate is not None and row.obstacles else UNKNOWN
        return Headline(name="nodes", value=value, range=why, trust=plan.trust, number=plan.nodes, unit="nodes")
    most_per_node = max(other.ranks / other.nodes for other in plan.rows)
    in_ranks = any(other.ranks / other.nodes < most_per_node for other in close)
    unit = "ranks" if in_ranks else "nodes"
    sizes = [other.ranks if in_ranks else other.nodes for other in close]
    low, high = min(sizes), max(sizes)
    better = _best_row(plan, row)
    if better is not None:
        words = f"{count(better.ranks, 'rank') if in_ranks else count(better.nodes, 'node')} is better"
    elif low < high:
        words = f"{low} to {high}{' ranks' if in_ranks else ''} are as good"
    elif plan.typed:
        words = "as typed"
    elif plan.nodes == MOST_NODES:
        words = f"best up to {MOST_NODES} nodes"
    else:
        words = "no other is as good"
    number = ranks if in_ranks else plan.nodes
    return Headline(
        name="nodes", value=value, range=words, trust=plan.trust, number=number, low=low, high=high, unit=unit
    )


def _size_in_words(plan: Forecast, row: PlanRow | None) -> str:
    """Return the size of the run: ``4 nodes x 4 GPUs = 16 ranks``, or ``2 GPUs of a shared node``."""
    ranks, noun = row.ranks if row else plan.nodes, "GPU" if plan.gpus_per_node else "CPU rank"
    if plan.ranks_per_node is not None:
        is_shared = row is not None and not row.whole_nodes
        return f"{count(ranks, noun)} of a {'shared ' if is_shared else ''}node"
    words = f"{count(plan.nodes, 'node')} x {count(ranks // plan.nodes, noun)}"
    counts_ranks = plan.nodes > 1 or (plan.gpus_per_node > 0 and ranks > 1)
    return f"{words} = {ranks} ranks" if counts_ranks else words


def _close_rows(plan: Forecast, chosen: PlanRow | None) -> list[PlanRow]:
    """Return the rows that are about as good as the chosen one; none if it is not feasible, or no time is known."""
    if chosen is None or chosen.trade_off is None or chosen.obstacles:
        return []
    least, most = chosen.trade_off / (1 + CLOSE), (1 + CLOSE) * chosen.trade_off
    known = [row for row in plan.rows if row.trade_off is not None and not row.obstacles]
    return [*(row for row in known if least <= (row.trade_off or 0.0) <= most), chosen]


def _best_row(plan: Forecast, chosen: PlanRow | None) -> PlanRow | None:
    """Return the best row if it is clearly better than the chosen one, as it can be beside a typed node count."""
    if chosen is None or chosen.trade_off is None:
        return None
    known = [row for row in plan.rows if row.trade_off is not None and not row.obstacles]
    best = min(known, key=lambda row: row.trade_off or 0.0, default=chosen)
    return best if best.trade_off is not None and best.trade_off < chosen.trade_off / (1 + CLOSE) else None


def _batch(plan: Forecast, row: PlanRow | None) -> Headline:
    batch = row.batch if row else None
    if batch is None:
        return Headline(name="batch", value=UNKNOWN, range=UNKNOWN, trust="guess", unit="samples")
    if plan.measured_program is not None:
        return _batch_of_a_program(plan.measured_program, batch)
    parts = f"{batch.replicas} x {batch.per_rank}" + (f" x {batch.accumulation}" if batch.accumulation > 1 else "")
    if plan.program is not None:
        return _tokens_of_a_step(plan.program, batch)
    low, high = _largest_useful(plan.efficiency)
    limits = UNKNOWN
    if low:
        limits = f"useful up to {low:.0f}"
        if high and round(high) > round(low):
            limits += f" to {high:.0f}"
    return Headline(
        name="batch",
        value=f"B = {batch.total} = {parts} samples{_token_words(plan, batch.total)}",
        range=limits,
        trust=_trust_of_batch(plan),
        number=batch.total,
        low=low,
        high=high,
        unit="samples",
    )


def _batch_of_a_program(program: ProgramMeasured, batch: Batch) -> Headline:
    """Return the batch of a program of which only measured points are known: nothing bounds it."""
    if program.own_batch:
        words = f"the program's own, on each of {count(batch.replicas, 'rank')}"
        return Headline(name="batch", value=words, range=words, trust="guess", unit="samples")
    return Headline(
        name="batch",
        value=f"B = {batch.total} = {batch.replicas} x {batch.per_rank} samples",
        range="as measured",
        trust="guess",
        number=batch.total,
        unit="samples",
    )


def _token_words(plan: Forecast, samples: int) -> str:
    """Return a batch of a decoder in tokens; empty for any other model."""
    return f", {shorten(float(samples * plan.tokens_per_sample))} tokens" if plan.tokens_per_sample else ""


def _tokens_of_a_step(program: OwnProgram, batch: Batch) -> Headline:
    """Return the batch of a program of one's own."""
    parts = f"{program.data} x {program.micro_batch} x {program.micro_batches}"
    return Headline(
        name="batch",
        value=f"B = {batch.total} = {parts} samples, {shorten(program.tokens_per_step)} tokens",
        range=program.batch_source,
        trust="guess",
        number=batch.total,
        low=batch.total,
        high=batch.total,
        unit="samples",
    )


def _largest_useful(efficiency: StatisticalEfficiency | None) -> tuple[float | None, float | None]:
    """Return the range of the largest useful batch: the noise scale's interval, else from sqrt(N) to B_crit."""
    if efficiency is None:
        return None, None
    noise = efficiency.noise
    if noise is not None and noise.trustworthy:
        return noise.low, noise.high
    bound, critical = float(efficiency.bound), efficiency.critical
    if critical.samples is None:
        return bound, bound
    return min(bound, critical.samples / critical.spread), max(bound, critical.samples * critical.spread)


def _trust_of_batch(plan: Forecast) -> Trust:
    noise = plan.efficiency.noise if plan.efficiency else None
    if noise is None or not noise.trustworthy:
        return "guess"
    return "one node measured" if plan.trust == "guess" else plan.trust


def _rate(plan: Forecast) -> Headline:
    recipe = plan.recipe
    if plan.program is not None:
        rate = plan.program.rate
        return Headline(
            name="rate",
            value=f"{rate:.3g}, adamw",
            range=f"{rate / STARTING_VALUE:.2g} to {rate * STARTING_VALUE:.2g}",
            trust="guess",
            number=rate,
            low=rate / STARTING_VALUE,
            high=rate * STARTING_VALUE,
        )
    if plan.measured_program is not None:
        words = "the program's own"
        return Headline(name="rate", value=words, range=words, trust="guess")
    if recipe is None or recipe.rate is None or recipe.is_foreign:
        return Headline(name="rate", value=UNKNOWN, range=UNKNOWN, trust="guess")
    low, high = _rates_to_try(recipe, recipe.rate, plan.efficiency)
    rate = recipe.other_rate or recipe.rate.scaled
    low, high = min(low, rate), max(high, rate)
    return Headline(
        name="rate",
        value=f"{rate:.3g}, {recipe.optimizer.name}{_warm_up(recipe)}",
        range="as tuned" if low == high else f"{low:.2g} to {high:.2g}",
        trust="guess",
        number=rate,
        low=low,
        high=high,
    )


def _warm_up(recipe: Recipe) -> str:
    climb = recipe.warm_up.epochs
    return f", warm-up {climb:.2g} of {recipe.epochs:.3g} epochs" if climb else ""


def _rates_to_try(recipe: Recipe, rate: Rate, efficiency: StatisticalEfficiency | None) -> tuple[float, float]:
    """Return the rates by the guidelines' rules, square root and linear; for LARS and LAMB, around their own rate."""
    if recipe.is_start:
        return rate.scaled / STARTING_VALUE, rate.scaled * STARTING_VALUE
    base = efficiency.base if efficiency else None
    growth = recipe.batch.total / base if base else 1.0
    rates = [rate.scaled, *(rate.base * factor(rule, growth) for rule in ("sqrt", "linear"))]
    return min(rates), max(rates)


def _time(plan: Forecast, row: PlanRow | None) -> Headline:
    run = row.candidate if row else None
    if run is None:
        return Headline(name="time", value=UNKNOWN, range=UNKNOWN, trust=plan.trust, unit="s")
    wait = f", after {time_of(run.wait_s)} in the queue" if run.wait_s else ""
    value, reach = f"{time_of(run.time_s.middle)}{wait}", time_range_of(run.time_s, " to ")
    return _add_numbers(Headline(name="time", value=value, range=reach, trust=plan.trust, unit="s"), run.time_s)


def _cost(plan: Forecast, row: PlanRow | None) -> Headline:
    run = row.candidate if row else None
    unit = f"{plan.unit}s"
    if run is not None and run.cost.low == run.cost.high:
        words = f"{shorten(run.cost.middle)} {plan.unit if run.cost.middle == 1 else unit}"
        least = Headline(name="cost", value=words, range="the least charge", trust=plan.trust, unit=unit)
        return _add_numbers(least, run.cost)
    if run is None:
        return Headline(name="cost", value=UNKNOWN, range=UNKNOWN, trust=plan.trust, unit=unit)
    value, reach = f"{shorten(run.cost.middle)} {unit}", range_of(run.cost, " to ")
    return _add_numbers(Headline(name="cost", value=value, range=reach, trust=plan.trust, unit=unit), run.cost)


def _add_numbers(headline: Headline, interval: Interval) -> Headline:
    return replace(headline, number=interval.middle, low=interval.low, high=interval.high)
