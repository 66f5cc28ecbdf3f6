"""Optimizer, learning rate, warm-up and decay for a global batch, as rules and as parameters to set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.config.job import Role
from hpclaunch.core.records import record
from hpclaunch.guidelines.batch import Batch
from hpclaunch.guidelines.efficiency import CriticalBatch, NoiseScale
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.hardware import Arithmetic, unmeasured_compute
from hpclaunch.guidelines.optimizers import OptimizerAdvice, choose_optimizer
from hpclaunch.guidelines.precision import PrecisionAdvice, choose_precision, recommended
from hpclaunch.guidelines.rates import (
    DECAYS,
    BaseRate,
    Rate,
    Rule,
    choose_decay,
    factor,
    lamb_rate,
    lars_rate,
    scale_rate,
    warm_up,
)
from hpclaunch.guidelines.reasoning import Reason
from hpclaunch.planner.machine import NodeModel
from hpclaunch.planner.values import PlanSection
from hpclaunch.planner.workload import RULES, Workload

Pairs = tuple[tuple[str, str], ...]
_SPELLED = {rule: word for word, rule in RULES.items()}


@record
class Recipe:
    """What to set for a batch, and the rules behind it."""

    settings: Pairs
    sections: tuple[PlanSection, ...]


def recipe_for(
    batch: Batch,
    work: Workload,
    critical: CriticalBatch,
    noise: NoiseScale | None,
    epochs: float,
) -> Recipe:
    """Return the recipe. What was typed is kept, and what the job has no parameter for is only explained."""
    total, base = batch.total, work.base_batch or batch.total
    name = "sgd" if work.optimizer == "momentum" else work.optimizer
    optimizer = choose_optimizer(
        name,
        total,
        critical=critical,
        typed="optimizer" in work.typed,
        offered=work.optimizers,
    )
    rate = _scaled_rate(total, work, optimizer, critical, noise)
    climb = warm_up(base, total, optimizer.name, epochs=epochs)
    decay = choose_decay(optimizer.name)
    wanted: dict[Role, str] = {"batch_size_per_rank": str(batch.per_rank), "accumulation": str(batch.accumulation)}
    if "epochs" in work.names:
        wanted["epochs"] = str(max(1, math.ceil(round(epochs, 6))))
    if optimizer.changed:
        wanted["optimizer"] = optimizer.name
    if rate is not None:
        # No rule knows how a batch grew that the ranks divide.
        wanted |= _rate_settings(rate, batch, base, optimizer.changed or work.global_batch is not None, work.rule)
    if total > base:
        wanted |= {"warmup_epochs": f"{climb.epochs:.3g}", "decay": decay.name}
        wanted |= {"decay_power": f"{decay.power:g}"} if decay.power else {}
    settings = {
        role: value
        for role, value in wanted.items()
        if role in work.names and role not in work.typed and value != _default(work, role)
    }
    rules = [] if rate is None else [_kept_rate(rate, batch, work, settings.get("scale_learning_rate", work.scaling))]
    return Recipe(
        settings=tuple((work.names[role], value) for role, value in settings.items()),
        sections=(
            PlanSection(
                title="optimizer", reasons=(optimizer.reason,), remarks=(*optimizer.alternatives, *optimizer.cautions)
            ),
            PlanSection(
                title="learning rate",
                reasons=(*rules, climb.reason, decay.reason),
                remarks=tuple(f"another decay to try: {name}, {DECAYS[name]}" for name in decay.others),
            ),
        ),
    )


def _scaled_rate(
    total: int, work: Workload, optimizer: OptimizerAdvice, critical: CriticalBatch, noise: NoiseScale | None
) -> Rate | None:
    """Return the rate, or None where the job has none to scale, or measures the factor while it trains."""
    if optimizer.changed:
        return lamb_rate(total) if optimizer.name == "lamb" else lars_rate(total)
    if work.learning_rate is None or (work.rule == "adascale" and noise is None):
        return None
    return scale_rate(
        BaseRate(rate=work.learning_rate, batch=work.base_batch or total),
        total,
        optimizer.name,
        rule=work.rule,
        critical=critical,
        noise=noise.value if noise and work.rule == "adascale" else None,
    )


def _rate_settings(rate: Rate, batch: Batch, base: int, as_number: bool, typed: Rule | None) -> dict[Role, str]:
    """A rule that the ranks apply themselves where it leads to the rate; else, or ``as_number``, the rate as a number.

    Ranks that were told a rule (``typed``) apply it to whatever the rate is: they get one from which it leads there.
    """
    if typed is not None:
        own = _own_factor(typed, batch)
        return {} if own is None else {"learning_rate": f"{rate.scaled / own:.4g}"}
    own = _own_factor(rate.rule, batch)
    if not as_number and batch.per_rank == base and own is not None and math.isclose(own, rate.factor, rel_tol=1e-9):
        # Not so where linear scaling stopped at B_crit.
        return {"scale_learning_rate": _SPELLED[rate.rule]} if batch.total > base else {}
    return {"learning_rate": f"{rate.scaled:.4g}", "scale_learning_rate": "none"}


def _own_factor(rule: Rule, batch: Batch) -> float | None:
    """By what the ranks' own rule multiplies the base rate; None for AdaScale, which measures it while it trains."""
    return None if rule == "adascale" else factor(rule, batch.replicas * batch.accumulation)


def _kept_rate(rate: Rate, batch: Batch, work: Workload, scaling: str) -> Reason:
    """The rate's reason, with a warning where a typed one leads elsewhere; ``scaling``: the job's word for its rule."""
    own = _own_factor(RULES.get(scaling, "none"), batch)
    if "learning_rate" not in work.typed or work.learning_rate is None or own is None:
        return rate.reason
    kept = work.learning_rate * own
    if math.isclose(kept, rate.scaled, rel_tol=1e-3):
        return rate.reason
    warning = (
        f"learning rate kept as typed: {kept:.4g} in training; the rule for B = {batch.total} says {rate.scaled:.4g}"
    )
    return replace(rate.reason, warning=warning)


def precision_for(work: Workload, node: NodeModel, figures: ModelFigures, allowed: Sequence[str]) -> PrecisionAdvice:
    """Return which number format the hardware is best at, and by how much where the model of the GPU tells.

    ``allowed``: values of the job's parameter for it. A job that has none gets the rule, and no suggestion.
    """
    name, _ = recommended(node.device, on_gpu=node.on_gpus)
    gain = None
    if node.gpu is not None and name != "float32":
        full: Arithmetic = "tf32" if node.gpu.tf32 else "float32"
        flops, saved = figures.flops_per_sample, figures.saved_bytes_per_sample
        slow = unmeasured_compute(node.gpu, full, flops, saved).sample_s.middle
        gain = slow / unmeasured_compute(node.gpu, "mixed", flops, figures.model("mixed").saved_bytes).sample_s.middle
    typed = "precision" in work.typed
    found = choose_precision(node.device, work.number_format, on_gpu=node.on_gpus, typed=typed, gain=gain)
    if found.name not in allowed:
        return replace(found, suggestion="")
    option = f" (--set {work.names['precision']}={found.name})" if found.suggestion else ""
    return replace(found, suggestion=found.suggestion + option)


def _default(work: Workload, role: Role) -> str:
    """Return what the job does anyway, as text, for the roles whose value the workload keeps."""
    known: dict[Role, object] = {
        "batch_size_per_rank": work.per_rank,
        "accumulation": work.accumulation,
        "epochs": None if work.epochs is None else math.ceil(work.epochs),
        "learning_rate": None if work.learning_rate is None else f"{work.learning_rate:.4g}",
        "scale_learning_rate": work.scaling,
        "decay_power": None if work.decay_power is None else f"{work.decay_power:g}",
        "optimizer": work.optimizer,
    }
    return str(known.get(role, ""))


def warnings_of(reasons: tuple[Reason, ...]) -> list[str]:
    """Return the warnings of reasons."""
    return [reason.warning for reason in reasons if reason.warning]
