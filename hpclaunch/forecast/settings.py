"""Optimizer, learning rate, warm-up and decay for a global batch, as rules and as parameters to set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.advice.batch import Batch
from hpclaunch.advice.efficiency import NoiseScale
from hpclaunch.advice.figures import ModelFigures
from hpclaunch.advice.hardware import Arithmetic, unmeasured_compute
from hpclaunch.advice.optimizers import choose_optimizer
from hpclaunch.advice.precision import PrecisionAdvice, choose_precision, recommended
from hpclaunch.advice.rates import Rate, choose_decay, lamb_rate, scale_rate, warm_up
from hpclaunch.advice.reasoning import Reason
from hpclaunch.forecast.machine import Node
from hpclaunch.forecast.values import Section
from hpclaunch.forecast.workload import RULES, Workload
from hpclaunch.job import Role
from hpclaunch.records import record

Pairs = tuple[tuple[str, str], ...]
_SPELLED = {rule: word for word, rule in RULES.items()}


@record
class Recipe:
    """What to set for a batch, and the rules behind it."""

    settings: Pairs
    sections: tuple[Section, ...]


def recipe_for(
    batch: Batch,
    work: Workload,
    critical: float | None,
    noise: NoiseScale | None,
    epochs: float,
) -> Recipe:
    """Return the recipe. What was typed is kept, and what the job has no parameter for is only explained."""
    total, base = batch.total, work.base_batch or batch.total
    name = "sgd" if work.optimizer == "momentum" else work.optimizer
    optimizer = choose_optimizer(
        name, total, critical=critical, critical_origin=work.law_origin, typed="optimizer" in work.typed
    )
    rate = _rate(total, base, work, optimizer.name, optimizer.changed, critical, noise)
    climb = warm_up(base, total, optimizer.name, epochs=epochs)
    decay = choose_decay(optimizer.name)
    wanted: dict[Role, str] = {"batch_size_per_rank": str(batch.per_rank), "accumulation": str(batch.accumulation)}
    if "epochs" in work.names:
        wanted["epochs"] = str(max(1, math.ceil(round(epochs, 6))))
    if optimizer.changed:
        wanted["optimizer"] = optimizer.name
    if rate is not None:
        wanted |= _rate_settings(rate, batch, base, optimizer.changed)
    if total > base:
        wanted |= {"warmup_epochs": f"{climb.epochs:.3g}", "decay": decay.name}
    rules = [] if rate is None else [rate.reason]
    return Recipe(
        settings=tuple(
            (work.names[role], value)
            for role, value in wanted.items()
            if role in work.names and role not in work.typed and value != _default(work, role)
        ),
        sections=(
            Section(title="optimizer", reasons=(optimizer.reason,), remarks=optimizer.cautions),
            Section(title="learning rate", reasons=(*rules, climb.reason, decay.reason)),
        ),
    )


def _rate(
    total: int,
    base: int,
    work: Workload,
    optimizer: str,
    changed: bool,
    critical: float | None,
    noise: NoiseScale | None,
) -> Rate | None:
    """Return the rate, or None where the job has none to scale, or measures the factor while it trains."""
    if changed and optimizer == "lamb":
        return lamb_rate(total)
    if work.learning_rate is None or (work.rule == "adascale" and noise is None):
        return None
    return scale_rate(
        work.learning_rate,
        base,
        total,
        optimizer,
        rule=work.rule,
        critical=critical,
        critical_origin=work.law_origin,
        noise=noise.value if noise and work.rule == "adascale" else None,
    )


def _rate_settings(rate: Rate, batch: Batch, base: int, changed: bool) -> dict[Role, str]:
    """A rule that the ranks apply themselves where it leads to the rate; else the rate as a number."""
    if not changed and batch.per_rank == base and rate.rule in _SPELLED and _reached(rate, batch):
        return {"scale_learning_rate": _SPELLED[rate.rule]} if batch.total > base else {}
    return {"learning_rate": f"{rate.scaled:.4g}", "scale_learning_rate": "none"}


def _reached(rate: Rate, batch: Batch) -> bool:
    """Whether the ranks' own rule leads to the same rate: linear scaling may have stopped at B_crit."""
    parts = batch.replicas * batch.accumulation
    own = {"linear": float(parts), "sqrt": math.sqrt(parts), "power 2/3": parts ** (2 / 3), "none": 1.0}
    return math.isclose(own.get(rate.rule, math.nan), rate.factor, rel_tol=1e-9)


def precision_for(work: Workload, node: Node, figures: ModelFigures, allowed: Sequence[str]) -> PrecisionAdvice:
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
        "scale_learning_rate": "none",
        "optimizer": work.optimizer,
    }
    return str(known.get(role, ""))


def said(reasons: tuple[Reason, ...]) -> list[str]:
    """Return the warnings of reasons."""
    return [reason.warning for reason in reasons if reason.warning]
