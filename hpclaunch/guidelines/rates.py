"""Learning rate for a larger global batch: scaling, warm-up and decay, in epochs; it sets no optimizer's rate."""

from __future__ import annotations

import math
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.efficiency import NOT_KNOWN, CriticalBatch
from hpclaunch.guidelines.optimizers import rules_of
from hpclaunch.guidelines.reasoning import GUIDELINES, Number, Origin, Reason, positive

Rule = Literal["none", "linear", "sqrt", "power 2/3", "adascale"]

SOURCE = f"{GUIDELINES}, learning rate scheduling"
SOURCES: dict[Rule, str] = {
    "none": SOURCE,
    "linear": f"{SOURCE}; Goyal et al. 2017, arXiv 1706.02677",
    "sqrt": f"{SOURCE}; You et al. 2017, arXiv 1708.03888",
    "power 2/3": "a project's article on Horovod; AdamW's rates for OC20 in MLPerf HPC's logs have powers .67 to .79",
    "adascale": "Johnson et al. 2020, arXiv 2007.05105",
}
POWERS: dict[Rule, float] = {"none": 0.0, "linear": 1.0, "sqrt": 0.5, "power 2/3": 2 / 3}
LARGE_STEP = 8.0
"""From this growth of the batch on, the warm-up is long."""
WARMUP_EPOCHS, LONG_WARMUP_EPOCHS = 2.0, 5.0
"""Guidelines: "over a couple of epochs"; Goyal et al. 2017: five, for batches 32 times as large."""
LONGEST_SHARE = 0.2

DECAYS: dict[str, str] = {
    "step": "times a factor at chosen epochs",
    "exponential": "exp(-k epoch)",
    "1/t": "1 / (1 + k epoch)",
    "polynomial": "(1 - epoch / epochs)^p",
    "cosine": "(1 + cos(pi epoch / epochs)) / 2",
}
"""The decay schedules that the guidelines name, as factors of the scaled rate; in epochs, to survive a change of B."""


@record
class Rate:
    """A scaled learning rate: ``factor`` = scaled / base; weak scaling: batch and rate grow together."""

    base: float
    scaled: float
    factor: float
    rule: Rule
    origin: Origin
    reason: Reason


def rule_for(optimizer: str) -> Rule:
    """Return the usual scaling rule of an optimizer: sqrt for Adam, AdamW, LARS and LAMB, linear for SGD and others.

    Source: guidelines (linear, sqrt); MLPerf logs: CosmoFlow's SGD linear, ResNet-50's LARS sqrt.
    """
    return "sqrt" if rules_of(optimizer).by_root else "linear"


def factor(rule: Rule, growth: float, *, noise_to_base: float | None = None) -> float:
    """Return the factor of the rate for a batch ``growth`` times as large (B / B0).

    AdaScale's gain (1 + phi / B0) / (1 + phi / B) needs phi / B0, the measured noise scale over the base batch.
    Raises ValueError without it. Sources: ``SOURCES``.
    """
    positive(growth=growth)
    if rule == "adascale":
        if noise_to_base is None:
            raise ValueError("AdaScale needs a measured noise scale")
        return (1 + noise_to_base) / (1 + noise_to_base / growth)
    return math.pow(growth, POWERS[rule])


@record
class BaseRate:
    """A learning rate that somebody tuned, and at which global batch size, samples."""

    rate: float
    batch: float

    def __post_init__(self) -> None:
        positive(base=self.rate, base_batch=self.batch)


def scale_rate(
    base: BaseRate,
    batch: float,
    optimizer: str,
    *,
    rule: Rule | None = None,
    critical: CriticalBatch = NOT_KNOWN,
    noise: float | None = None,
) -> Rate:
    """Return the learning rate at global batch size ``batch``, samples, from the base rate.

    ``rule``: typed, else the optimizer's; linear scaling stops at the ``critical`` batch, if that is known: beyond it a
    larger step gains nothing (McCandlish et al. 2018: the best step is eps_max / (1 + B_noise / B)).
    """
    positive(batch=batch)
    chosen = rule or rule_for(optimizer)
    useful = batch
    if chosen == "linear" and critical.samples is not None and batch > base.batch:
        useful = min(batch, max(critical.samples, base.batch))
    grown = factor(chosen, useful / base.batch, noise_to_base=None if noise is None else noise / base.batch)
    numbers = (
        Number(name="base learning rate", value=base.rate, origin="given"),
        Number(name="B0", value=base.batch, unit="samples", origin="given"),
        Number(name="B", value=batch, unit="samples"),
        Number(name="factor", value=grown),
        *critical.numbers,
    )
    stops = f", which stops at B_crit = {critical.samples:.0f}" if useful < batch else ""
    return Rate(
        base=base.rate,
        scaled=base.rate * grown,
        factor=grown,
        rule=chosen,
        origin="typed" if rule else "default",
        reason=Reason(
            rule="weak scaling: learning rate and global batch size grow together",
            numbers=numbers,
            verdict=f"{base.rate * grown:.4g} = {base.rate:.4g} x {grown:.4g} ({chosen}{stops})",
            source=SOURCES[chosen],
        ),
    )


LAMB_RATE, LAMB_BATCH = 0.005, 32768


def lamb_rate(batch: float) -> Rate:
    """Return LAMB's own rate, 0.005 sqrt(B / 32768), for a run that takes LAMB in place of another optimizer.

    A rate that was tuned for another optimizer means nothing to it. Source: You et al. 2020, arXiv 1904.00962.
    """
    positive(batch=batch)
    grown = math.sqrt(batch / LAMB_BATCH)
    return Rate(
        base=LAMB_RATE,
        scaled=LAMB_RATE * grown,
        factor=grown,
        rule="sqrt",
        origin="default",
        reason=Reason(
            rule="LAMB brings its own rate: 0.005 sqrt(B / 32768)",
            numbers=(Number(name="B", value=batch, unit="samples"), Number(name="factor", value=grown)),
            verdict=f"{LAMB_RATE * grown:.4g}, to begin with",
            source="You et al. 2020, arXiv 1904.00962",
        ),
    )


LARS_RATE, LARS_MOST = 0.18, 25.0
"""Of sqrt(B), and where it ends: ResNet-50 by LARS (trust 0.001) took 7.4, 10.5 and 17 at batches of 1664, 3264 and
8192, 21 to 29 at 32,768 and 23 to 25 at 65,536 (MLPerf Training's logs)."""


def lars_rate(batch: float) -> Rate:
    """Return LARS's own rate, 0.18 sqrt(B) up to 25, for a run that takes LARS in place of another optimizer.

    Its local rates are a thousandth of |w| / |g|, so that a rate tuned for SGD would hardly move the weights.
    Source: MLPerf Training's logs of ResNet-50, named at ``LARS_RATE``.
    """
    positive(batch=batch)
    scaled = min(LARS_RATE * math.sqrt(batch), LARS_MOST)
    grown = scaled / LARS_RATE
    return Rate(
        base=LARS_RATE,
        scaled=scaled,
        factor=grown,
        rule="sqrt",
        origin="default",
        reason=Reason(
            rule=f"LARS brings its own rate: {LARS_RATE:g} sqrt(B), at most {LARS_MOST:g}",
            numbers=(Number(name="B", value=batch, unit="samples"), Number(name="factor", value=grown)),
            verdict=f"{scaled:.4g}, to begin with",
            source="rates of ResNet-50 with LARS in MLPerf Training's logs",
        ),
    )


@record
class Warmup:
    """Epochs over which the rate climbs linearly from the base to the scaled one; 0: none."""

    epochs: float
    reason: Reason


def warm_up(base_batch: float, batch: float, optimizer: str, *, epochs: float | None = None) -> Warmup:
    """Return the warm-up: none without growth, 2 epochs, 5 beyond 8 times the base batch; LARS and LAMB in proportion.

    Never more than a fifth of a run of ``epochs``, LAMB's own share at its largest batch (You et al. 2020).

    Source: guidelines ("start with single worker/rank/node LR and scale up to desired value linearly over a couple of
    epochs"); Goyal et al. 2017 (5 epochs); LEGW, You et al. 2019 (epochs in proportion to the batch).
    """
    positive(base_batch=base_batch, batch=batch)
    growth = batch / base_batch
    climb = 0.0 if growth <= 1 else WARMUP_EPOCHS if growth <= LARGE_STEP else LONG_WARMUP_EPOCHS
    source = f"{SOURCE}; Goyal et al. 2017"
    if rules_of(optimizer).long_warmup and growth > LARGE_STEP:
        # LEGW needs the base's warm-up; two epochs at 8 x the base batch joins it to the rule below 8 x.
        climb, source = WARMUP_EPOCHS * growth / LARGE_STEP, "LEGW, You et al. 2019, arXiv 1901.08256"
    if epochs is not None:
        climb = min(climb, LONGEST_SHARE * epochs)
    return Warmup(
        epochs=climb,
        reason=Reason(
            rule="climb linearly from the base rate to the scaled one over a couple of epochs",
            numbers=(Number(name="B / B0", value=growth), Number(name="warm-up", value=climb, unit="epochs")),
            verdict=f"{climb:g} epochs of warm-up" if climb else "no warm-up: the batch does not grow",
            source=source,
        ),
    )


@record
class Decay:
    """The decay schedule to try first (``power`` for the polynomial one), and the others."""

    name: str
    power: float
    others: tuple[str, ...]
    reason: Reason


def choose_decay(optimizer: str) -> Decay:
    """Return polynomial decay for LARS (power 2) and LAMB (power 1), else cosine, which has nothing to tune.

    Source: guidelines ("try step decay, exponential decay, 1/t decay, polynomial decay, cosine decay"); the powers are
    those of MLPerf's LARS and BERT; cosine first is hpclaunch's own choice.
    """
    power = rules_of(optimizer).decay_power
    name = "polynomial" if power else "cosine"
    return Decay(
        name=name,
        power=power,
        others=tuple(one for one in DECAYS if one != name),
        reason=Reason(
            rule="consider a decay schedule",
            numbers=(Number(name="power", value=power),) if power else (),
            verdict=f"{name}: {DECAYS[name]}",
            source=SOURCE,
        ),
    )


def decay_factor(name: str, epoch: float, epochs: float, *, power: float = 1.0, rate: float = 1.0) -> float:
    """Return the factor of the scaled rate at a fractional epoch of ``epochs``.

    ``power`` is the polynomial's; ``rate`` is k of the exponential and the 1/t schedule, and the factor of ``step``
    at a third and at two thirds of the run. Raises ValueError for another name. Source: guidelines' list.
    """
    positive(epochs=epochs)
    done = min(max(epoch / epochs, 0.0), 1.0)
    if name not in DECAYS:
        raise ValueError(f"{name!r} is not one of {', '.join(DECAYS)}")
    factors: dict[str, float] = {
        "step": math.pow(rate, min(2, math.floor(3 * done))),
        "exponential": math.exp(-rate * epoch),
        "1/t": 1 / (1 + rate * epoch),
        "polynomial": math.pow(1 - done, power),
        "cosine": (1 + math.cos(math.pi * done)) / 2,
    }
    return factors[name]
