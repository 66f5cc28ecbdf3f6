"""The recipe of a global batch: batch per rank, epochs, optimizer, rate, warm-up and decay; it predicts no time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from hpclaunch.config.job import Role
from hpclaunch.config.parameters import Parameter, spell
from hpclaunch.core.records import record
from hpclaunch.core.spec import Pairs
from hpclaunch.guidelines.batch import Batch, in_micro_batches, typed_batch
from hpclaunch.guidelines.efficiency import NoiseScale
from hpclaunch.guidelines.optimizers import OptimizerAdvice
from hpclaunch.guidelines.published import TaskFacts
from hpclaunch.guidelines.rates import (
    BaseRate,
    Decay,
    Rate,
    Rule,
    Warmup,
    choose_decay,
    factor,
    lamb_rate,
    lars_rate,
    rule_named,
    scale_rate,
    warm_up,
)
from hpclaunch.guidelines.reasoning import Reason
from hpclaunch.planner.job.epochs import RunEpochs, facts_of, optimizer_of, run_epochs
from hpclaunch.planner.job.workload import WRITTEN, Workload
from hpclaunch.resolve.program.recipes import ENOUGH_SAMPLES

ROLES: tuple[Role, ...] = (
    *("epochs", "steps", "batch_size_per_rank", "accumulation", "optimizer", "learning_rate", "scale_learning_rate"),
    *("warmup_epochs", "decay", "decay_power"),
)
"""The roles that a recipe decides."""
CLOSE = 1e-3
OWN_RATES: dict[str, Callable[[float], Rate]] = {"lars": lars_rate, "lamb": lamb_rate}
"""Optimizers whose publications give a rate for a batch. A rate that was tuned for another optimizer does not suit."""


@record
class Recipe:
    """The parameters to set for a batch, and the rules behind them; ``rate`` is None if the job has no rate to scale.

    ``wanted``: the values of the recipe, by parameter name; ``settings``: those that are neither typed nor the job's
    own already; ``decides``: the parameters that a recipe is about. ``kept_rate``: the rate's reason, with a warning if
    a typed rate differs; ``other_rate``: what it is in training then. ``is_start``: the rate is the optimizer's own
    starting value; ``is_foreign``: it was tuned for another optimizer, and is not known for this one. ``doubt``: a
    warning that the job's rate was tuned for another optimizer, or for no known batch; empty: neither.
    """

    batch: Batch
    settings: Pairs
    wanted: Pairs
    decides: tuple[str, ...]
    optimizer: OptimizerAdvice
    rate: Rate | None
    kept_rate: Reason | None
    other_rate: float | None
    warm_up: Warmup
    decay: Decay
    epochs: float
    is_start: bool = False
    is_foreign: bool = False
    doubt: str = ""

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons of rate, warm-up and decay."""
        return (*([self.kept_rate] if self.kept_rate else []), self.warm_up.reason, self.decay.reason)


def names_batch(work: Workload) -> bool:
    """Whether a person typed the batch, or a part of it, so that no other is chosen."""
    return not work.typed.isdisjoint(("batch_size_per_rank", "accumulation", "global_batch_size"))


def is_few(work: Workload, batch: Batch) -> bool:
    """Whether ranks may be no faster than one process: a person typed the batch, or a rank has few samples of it."""
    return names_batch(work) or batch.per_rank < ENOUGH_SAMPLES


def own_batch(work: Workload, replicas: int, largest: int) -> Batch | None:
    """Return the batch of the job's own batch per rank, or None if that is not known.

    ``largest``: the samples of a replica that fit its memory; a larger batch per rank is accumulated. A typed one is
    not: the ranks get what is typed, and the ladder sees to it that they have room for it (``planner.fitting.fit``).
    """
    total = work.total_of(replicas)
    if total is None or work.per_rank is None:
        return None
    if "batch_size_per_rank" in work.typed:
        return Batch(per_rank=work.per_rank, replicas=replicas, accumulation=work.accumulation)
    return typed_batch(total, replicas, largest=min(largest, work.per_rank))


def in_pipeline(batch: Batch, work: Workload, largest: int) -> Batch:
    """Return the batch in micro-batches for the job's pipeline; a typed division stays as it is.

    ``largest``: the samples of a replica that fit its memory.
    """
    if work.typed.isdisjoint(("batch_size_per_rank", "accumulation")):
        return in_micro_batches(batch, work.pipeline_stages, largest)
    return batch


@record
class _Rules:
    """What the rules give for a batch; ``is_start``: the rate is the optimizer's own, whatever the job's rate is.

    ``is_foreign``: the rate was tuned for another optimizer. No rule makes it one for this optimizer: it stays as the
    job has it.
    """

    optimizer: OptimizerAdvice
    is_start: bool
    is_foreign: bool
    rate: Rate | None
    warm_up: Warmup
    decay: Decay
    epochs: RunEpochs


def recipe_at(batch: Batch, work: Workload, noise: NoiseScale | None) -> Recipe:
    """Return the recipe of a batch. A typed value is kept; one for which the job has no parameter is only explained."""
    rules = _rules_at(batch, work, noise)
    possible = {
        role: text
        for role, value in _advised_values(rules, batch, work).items()
        if (text := _allowed_text(work.rows.get(role), value))
    }
    settings = {role: text for role, text in possible.items() if _must_be_set(role, text, rules, work)}
    if rules.is_start and "learning_rate" in settings and "scale_learning_rate" in possible:
        # Beside a typed rate, the planner would otherwise choose a rule again.
        settings["scale_learning_rate"] = possible["scale_learning_rate"]
    rate, scaling = rules.rate, settings.get("scale_learning_rate", work.scaling)
    other = None if rate is None or "learning_rate" in settings else _other_rate(rate, batch, work, scaling)
    doubt = "" if rate is None or rules.is_start or work.rate_is_typed else _doubt_of(work)
    kept = None if rate is None else _kept_rate(rate, other, batch.total, work)
    return Recipe(
        batch=batch,
        settings=_pairs_of(work, settings),
        wanted=_pairs_of(work, possible),
        decides=tuple(work.names[role] for role in ROLES if role in work.names),
        optimizer=rules.optimizer,
        rate=rate,
        kept_rate=replace(kept, warning=doubt) if kept and doubt else kept,
        other_rate=other,
        warm_up=rules.warm_up,
        decay=rules.decay,
        epochs=rules.epochs.made,
        is_start=rules.is_start,
        is_foreign=rules.is_foreign,
        doubt=doubt,
    )


def _must_be_set(role: Role, text: str, rules: _Rules, work: Workload) -> bool:
    """Whether a value is neither what a person typed nor what the run has without it.

    A recipe's rate is for the recipe's batch and optimizer: of another batch it is another one, unless the recipe says
    how ranks scale it.
    """
    row = work.rows[role]
    if role == "learning_rate" and work.rate_is_of_recipe and (work.rule is None or rules.is_start):
        return not same_value(row, text, spell(work.learning_rate or 0.0))
    return role not in work.typed and not same_value(row, text, spell(row.default))


def _doubt_of(work: Workload) -> str:
    """Return the warning about the job's rate: it is another optimizer's, or of no known batch; empty for any other."""
    if not work.rate_fits:
        return _foreign_rate(work)
    if work.rate_is_alone:
        name = work.names["learning_rate"]
        return f"{name}={work.learning_rate:g} is of no known batch (the recipe has no global_batch): it is not scaled"
    return ""


def _foreign_rate(work: Workload) -> str:
    """Return the warning about a rate that was tuned for another optimizer than the typed one."""
    name = work.names["learning_rate"]
    own, other = (WRITTEN.get(optimizer, optimizer) for optimizer in (work.tuned_for, work.optimizer))
    rate = f"the {'recipe' if work.rate_is_of_recipe else 'job'}'s {name}={work.learning_rate:g}"
    return f"{rate} was tuned for {own}, not for {other}: choose one with --set {name}=…"


def _rules_at(batch: Batch, work: Workload, noise: NoiseScale | None) -> _Rules:
    """Return what the rules give. The job's own schedule belongs to its own optimizer, and to no other."""
    total, base = batch.total, work.base_batch or batch.total
    facts = facts_of(work, noise)
    epochs = run_epochs(work, total, facts)
    optimizer = optimizer_of(work, total, facts)
    foreign = work.learning_rate is not None and not work.tuned_rate_fits
    is_start = optimizer.changed or (foreign and optimizer.name in OWN_RATES)
    is_foreign = work.learning_rate is not None and not work.rate_fits and not is_start
    own_warmup, own_decay = (0.0, "") if is_start else (work.warmup_epochs, work.decay)
    return _Rules(
        optimizer=optimizer,
        is_start=is_start,
        is_foreign=is_foreign,
        rate=_rate_at(batch, work, facts, start=optimizer.name if is_start else "", is_foreign=is_foreign),
        warm_up=warm_up(
            total / base, optimizer.name, epochs=epochs.made, own=own_warmup, typed=_types_warm_up(work, own_warmup)
        ),
        decay=choose_decay(optimizer.name, own=own_decay),
        epochs=epochs,
    )


def _types_warm_up(work: Workload, own: float) -> bool:
    """Whether a person typed a warm-up in epochs other than the job's; other typed parameters may decide it too."""
    row = work.rows.get("warmup_epochs")
    return own > 0 and "warmup_epochs" in work.typed and row is not None and own != row.default


def _advised_values(rules: _Rules, batch: Batch, work: Workload) -> dict[Role, str]:
    """Return the values of the recipe by role, typed and possible or not."""
    optimizer, decay = rules.optimizer, rules.decay
    wanted: dict[Role, str] = {"batch_size_per_rank": str(batch.per_rank), "accumulation": str(batch.accumulation)}
    if rules.epochs.steps is not None:
        wanted["steps"] = str(rules.epochs.steps)
    elif "epochs" in work.names:
        wanted["epochs"] = f"{rules.epochs.made:g}"
    if optimizer.changed:
        wanted["optimizer"] = optimizer.name
    if rules.is_foreign:
        wanted["scale_learning_rate"] = work.rule or "none"
    elif rules.rate is not None:
        # If the ranks divide a global batch, their scaling rules cannot know how much it has grown. A rate that a
        # person types is that of the batch: no rule scales it, unless one is typed as well.
        as_number = rules.is_start or work.global_batch is not None or work.rate_is_typed
        wanted |= _rate_settings(rules.rate, batch, work, as_number=as_number)
    grows = batch.total > (work.base_batch or batch.total)
    if grows or (rules.epochs.made <= work.warmup_epochs and not rules.is_start):
        wanted["warmup_epochs"] = f"{rules.warm_up.epochs:.3g}"
    if grows:
        wanted |= {"decay": decay.name} if rules.is_start or not work.decay else {}
        wanted |= {"decay_power": f"{decay.power:g}"} if decay.power else {}
    return wanted


def _rate_at(batch: Batch, work: Workload, facts: TaskFacts, *, start: str, is_foreign: bool) -> Rate | None:
    """Return the rate of a batch; ``start``: the optimizer whose own rate it is; empty: none."""
    if start:
        return OWN_RATES[start](batch.total)
    if not is_foreign or work.learning_rate is None:
        return _scaled_rate(batch.total, work, facts)
    # Ranks apply a typed rule whatever the rate is. AdaScale's factor is measured only while they train.
    rule = work.rule if work.rule not in (None, "adascale") else "none"
    base = BaseRate(rate=work.learning_rate, batch=batch.total if rule == "none" else work.base_batch or batch.total)
    return scale_rate(base, batch.total, work.optimizer, rule=rule)


def _scaled_rate(total: int, work: Workload, facts: TaskFacts) -> Rate | None:
    """Return the job's own rate, scaled; None if the job has no rate, or measures the factor while it trains.

    A typed rate does not replace it, but is compared with it. Only where no rate was tuned for the optimizer, the typed
    one is that of the batch.
    """
    if work.learning_rate is None or (work.rule == "adascale" and facts.noise is None):
        return None
    base = BaseRate(rate=work.tuned_rate or work.learning_rate, batch=work.base_batch or total)
    if work.rate_is_typed and (work.tuned_rate is None or not work.tuned_rate_fits):
        base = BaseRate(rate=work.learning_rate, batch=(work.base_batch if work.rule else None) or total)
    return scale_rate(
        base,
        total,
        "sgd" if work.optimizer == "momentum" else work.optimizer,
        # Beside a typed rate, none scales no rate: what the optimizer's rule gives from the job's is compared with it.
        rule=None if work.rate_is_typed and work.rule == "none" else work.rule,
        momentum=work.momentum,
        facts=facts,
    )


def _rate_settings(rate: Rate, batch: Batch, work: Workload, *, as_number: bool) -> dict[Role, str]:
    """Return the parameters that give the ranks this rate: a rule that they apply themselves, or the rate as a number.

    A rule is used only if it gives exactly this rate, and not with ``as_number``. If a rule was typed, the ranks apply
    it in any case; then the base rate is set so that the rule leads to this rate.
    """
    if work.rule is not None:
        own = _own_factor(work.rule, batch)
        return {} if own is None else {"learning_rate": f"{rate.scaled / own:.4g}"}
    own, base = _own_factor(rate.rule, batch), work.base_batch or batch.total
    if not as_number and batch.per_rank == base and own is not None and math.isclose(own, rate.factor, rel_tol=1e-9):
        # The factors differ where linear scaling stops at B_crit.
        return {"scale_learning_rate": rate.rule} if batch.total > base else {}
    return {"learning_rate": f"{rate.scaled:.4g}", "scale_learning_rate": "none"}


def _own_factor(rule: Rule, batch: Batch) -> float | None:
    """Return the factor of the ranks' own rule; None for AdaScale, which measures it while it trains."""
    return None if rule == "adascale" else factor(rule, batch.replicas * batch.accumulation)


def _other_rate(rate: Rate, batch: Batch, work: Workload, scaling: str) -> float | None:
    """Return the rate in training that follows from a typed one, if it differs from that of the rule.

    ``scaling`` is the job's name for its rule.
    """
    own = _own_factor(rule_named(scaling) or "none", batch)
    if "learning_rate" not in work.typed or work.learning_rate is None or own is None:
        return None
    kept = work.learning_rate * own
    return None if math.isclose(kept, rate.scaled, rel_tol=CLOSE) else kept


def _kept_rate(rate: Rate, kept: float | None, total: int, work: Workload) -> Reason:
    """Return the rate's reason, with a warning if another rate is ``kept``."""
    if kept is None:
        return rate.reason
    origin = "as the recipe has it" if work.rate_is_of_recipe else "as typed"
    warning = f"learning rate kept {origin}: {kept:.4g} in training; the rule for B = {total} gives {rate.scaled:.4g}"
    return replace(rate.reason, warning=warning)


def _pairs_of(work: Workload, values: Mapping[Role, str]) -> Pairs:
    return tuple((work.names[role], text) for role, text in values.items())


def _allowed_text(parameter: Parameter | None, value: str) -> str:
    """Return a value as the parameter takes it, rounded if it takes whole numbers only; empty if it takes no such."""
    if parameter is None:
        return ""
    whole = f"{round(float(value))}" if parameter.value_type == "int" else value
    try:
        parameter.parse(whole)
    except ValueError:
        return ""
    return whole


def same_value(parameter: Parameter, one: str, other: str) -> bool:
    """Whether two texts are the same value of a parameter, numbers up to 0.1 %: recipes have four digits.

    Raises ValueError for a text that cannot be read.
    """
    first, second = parameter.parse(one), parameter.parse(other)
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=CLOSE)
    return first == second
