"""Learning rates for a larger global batch: scaling, warm-up and decay in epochs; it changes no optimizer."""

from __future__ import annotations

import math
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.guidelines.optimizers import NOTHING_KNOWN, rules_of
from hpclaunch.guidelines.published import TaskFacts, published_for
from hpclaunch.guidelines.reasoning import GUIDELINES, Number, Origin, Reason, positive

Rule = Literal["none", "linear", "sqrt", "power23", "adascale"]
"""A scaling rule by the name that programs know it by: a choice of ``scale_learning_rate`` in parameters.json."""
_IN_WORDS = {"power23": "power 2/3", "inverse": "1/t"}
"""Rule or decay -> how a person reads it, where that is not its name."""

SOURCE = f"{GUIDELINES}, learning rate scheduling"
SOURCES: dict[Rule, str] = {
    "none": SOURCE,
    "linear": f"{SOURCE}; Goyal et al. 2017, arXiv 1706.02677",
    "sqrt": f"{SOURCE}; You et al. 2017, arXiv 1708.03888",
    "power23": "a project's article on Horovod; AdamW's rates for OC20 in MLPerf HPC's logs have powers .67 to .79",
    "adascale": "Johnson et al. 2020, arXiv 2007.05105",
}
POWERS: dict[Rule, float] = {"none": 0.0, "linear": 1.0, "sqrt": 0.5, "power23": 2 / 3}
LARGE_STEP = 8.0
"""If the batch grows by this factor or more, the warm-up is long."""
WARMUP_EPOCHS, LONG_WARMUP_EPOCHS = 2.0, 5.0
"""Guidelines: "over a couple of epochs"; Goyal et al. 2017: five, for batches 32 times as large."""
LONGEST_SHARE, MOST_EPOCHS = 0.2, 10.0
"""The longest warm-up: a share of the run (LAMB at its largest batch), and epochs (twice those of Goyal et al.)."""

DECAYS: dict[str, str] = {
    "step": "times a factor at chosen epochs",
    "exponential": "exp(-k epoch)",
    "inverse": "1 / (1 + k epoch)",
    "polynomial": "(1 - epoch / epochs)^p",
    "cosine": "(1 + cos(pi epoch / epochs)) / 2",
}
"""The decay schedules of the guidelines, by the names of parameters.json, as factors of the scaled rate.

They are in epochs, so that they do not depend on B."""


@record
class Rate:
    """A scaled learning rate; ``factor`` = scaled / base. Under weak scaling, batch and rate grow together."""

    base: float
    scaled: float
    factor: float
    rule: Rule
    origin: Origin
    reason: Reason


HIGH_MOMENTUM = 0.95
"""Momentum from which on SGD's rate is not scaled linearly: that was shown for 0.9 (Goyal et al. 2017), and a step with
0.99 is already ten times as long (hpclaunch's own bound)."""


def in_words(name: str) -> str:
    """Return the name of a rule or of a decay as a person reads it."""
    return _IN_WORDS.get(name, name)


def rule_named(name: str) -> Rule | None:
    """Return the scaling rule of this name; None if there is none."""
    return next((rule for rule in SOURCES if rule == name), None)


def rule_for(optimizer: str, momentum: float | None = None) -> Rule:
    """Return the default scaling rule of an optimizer: sqrt for Adam, AdamW, LARS and LAMB, linear for SGD and others.

    SGD with a high ``momentum`` gets the square root. Source: guidelines (linear, sqrt); MLPerf logs: CosmoFlow's SGD
    linear, ResNet-50's LARS sqrt.
    """
    by_root = rules_of(optimizer).by_root or (momentum or 0.0) >= HIGH_MOMENTUM
    return "sqrt" if by_root else "linear"


def factor(rule: Rule, growth: float, *, noise_to_base: float | None = None) -> float:
    """Return the factor of the rate for a batch ``growth`` times as large (B / B0).

    AdaScale's gain (1 + phi / B0) / (1 + phi / B) needs ``noise_to_base`` = phi / B0, the measured noise scale divided
    by the base batch size. Raises ValueError without it. Sources: ``SOURCES``.
    """
    positive(growth=growth)
    if rule == "adascale":
        if noise_to_base is None:
            raise ValueError("AdaScale needs a measured noise scale")
        return (1 + noise_to_base) / (1 + noise_to_base / growth)
    return math.pow(growth, POWERS[rule])


@record
class BaseRate:
    """A tuned learning rate, and the global batch size (samples) that it was tuned at."""

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
    momentum: float | None = None,
    facts: TaskFacts = NOTHING_KNOWN,
) -> Rate:
    """Return the learning rate at global batch size ``batch`` (samples), scaled from the base rate.

    ``rule`` is the typed one, else that of the optimizer with its ``momentum``. Linear scaling stops at the critical
    batch size, if that is known: beyond it a larger step gains nothing (McCandlish et al. 2018: the best step is
    eps_max / (1 + B_noise / B)). Where a larger batch was published for the optimizer and the task, it stops there.
    """
    positive(batch=batch)
    chosen, critical = rule or rule_for(optimizer, momentum), facts.critical
    row = published_for(facts.name, optimizer)
    useful, last = batch, ""
    if chosen == "linear" and critical.samples is not None and batch > base.batch:
        largest = max(critical.samples, base.batch, row.batch if row else 0)
        useful = min(batch, largest)
        last = f"B_crit = {largest:.0f}" if largest == critical.samples else f"the published {largest:.0f} samples"
    noise_to_base = None if facts.noise is None else facts.noise / base.batch
    grown = factor(chosen, useful / base.batch, noise_to_base=noise_to_base)
    numbers = (
        Number(name="base learning rate", value=base.rate, origin="given"),
        Number(name="B0", value=base.batch, unit="samples", origin="given"),
        Number(name="B", value=batch, unit="samples"),
        Number(name="factor", value=grown),
        *critical.numbers,
    )
    stops = f", which stops at {last}" if useful < batch else ""
    return Rate(
        base=base.rate,
        scaled=base.rate * grown,
        factor=grown,
        rule=chosen,
        origin="typed" if rule else "default",
        reason=Reason(
            rule="weak scaling: the learning rate grows with the global batch size",
            numbers=numbers,
            verdict=f"{base.rate * grown:.4g} = {base.rate:.4g} x {grown:.4g} ({in_words(chosen)} scaling{stops})",
            source=f"{SOURCES[chosen]}; {row.source}" if row and chosen == "linear" else SOURCES[chosen],
        ),
    )


LAMB_RATE, LAMB_BATCH = 0.005, 32768


def lamb_rate(batch: float) -> Rate:
    """Return LAMB's own rate, 0.005 sqrt(B / 32768), for a run that uses LAMB instead of another optimizer.

    A rate that was tuned for another optimizer does not suit LAMB. Source: You et al. 2020, arXiv 1904.00962.
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
            rule="LAMB has its own rate: 0.005 sqrt(B / 32768)",
            numbers=(Number(name="B", value=batch, unit="samples"), Number(name="factor", value=grown)),
            verdict=f"{LAMB_RATE * grown:.4g} as a starting value",
            source="You et al. 2020, arXiv 1904.00962",
        ),
    )


LARS_RATE, LARS_MOST = 0.18, 25.0
"""Factor of sqrt(B), and the highest rate. In MLPerf Training's logs, ResNet-50 with LARS (trust 0.001) used 7.4, 10.5
and 17 at batch sizes of 1664, 3264 and 8192, 21 to 29 at 32,768, and 23 to 25 at 65,536."""


def lars_rate(batch: float) -> Rate:
    """Return LARS's own rate, 0.18 sqrt(B) up to 25, for a run that uses LARS instead of another optimizer.

    LARS multiplies it by a thousandth of |w| / |g|, so that a rate tuned for SGD would hardly move the weights.
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
            rule=f"LARS has its own rate: {LARS_RATE:g} sqrt(B), at most {LARS_MOST:g}",
            numbers=(Number(name="B", value=batch, unit="samples"), Number(name="factor", value=grown)),
            verdict=f"{scaled:.4g} as a starting value",
            source="rates of ResNet-50 with LARS in MLPerf Training's logs",
        ),
    )


@record
class Warmup:
    """Epochs over which the rate rises linearly from the base rate to the scaled one; 0: no warm-up."""

    epochs: float
    reason: Reason


def warm_up(
    growth: float, optimizer: str, *, epochs: float | None = None, own: float = 0.0, typed: bool = False
) -> Warmup:
    """Return the warm-up: none if the batch does not grow, 2 epochs, or 5 beyond 8 times the base batch.

    ``growth``: the global batch size relative to the base batch. The job's ``own`` warm-up (epochs; 0: none) is kept:
    CosmoFlow's runs in MLPerf HPC used the same one at every batch size. For LARS and LAMB it grows in proportion to
    the batch, where that is longer. It is at most a fifth of a run of ``epochs``, the share of LAMB at its largest
    batch (You et al. 2020), and at most 10 epochs; so is the job's own where it is as long as the run, which would
    never reach its rate. A ``typed`` one is kept, with a warning there.
    Source: guidelines ("start with single worker/rank/node LR and scale up to desired value linearly over a couple of
    epochs"); Goyal et al. 2017 (5 epochs); LEGW, You et al. 2019 (epochs in proportion to the batch).
    """
    positive(growth=growth)
    climb = 0.0
    if growth > LARGE_STEP:
        climb = LONG_WARMUP_EPOCHS
    elif growth > 1:
        climb = WARMUP_EPOCHS
    source, verdict, warning = f"{SOURCE}; Goyal et al. 2017", "", ""
    too_long = epochs is not None and own >= epochs
    if typed:
        climb, verdict = own, ", as typed"
    elif own:
        climb, verdict = own, f": the job's own is {count(own, 'epoch')}" if too_long else ", the job's own"
    elif rules_of(optimizer).long_warmup and growth > LARGE_STEP:
        # LEGW needs a warm-up of the base batch. Two epochs at 8 x the base batch agree with the rule below 8 x.
        in_proportion = WARMUP_EPOCHS * growth / LARGE_STEP
        climb, source = max(climb, in_proportion), "LEGW, You et al. 2019, arXiv 1901.08256"
    if typed and too_long:
        warning = (
            f"warm-up of {count(own, 'epoch')} kept as typed: the run of {count(epochs or 0.0, 'epoch')} ends in it"
        )
    if epochs is not None and not typed and (too_long or not own):
        climb = min(climb, LONGEST_SHARE * epochs)
    climb = climb if typed else min(climb, MOST_EPOCHS)
    return Warmup(
        epochs=climb,
        reason=Reason(
            rule="raise the rate linearly from the base to the scaled one over a couple of epochs",
            numbers=(Number(name="B / B0", value=growth), Number(name="warm-up", value=climb, unit="epochs")),
            verdict=f"{count(climb, 'epoch')} of warm-up{verdict}" if climb else "no warm-up: the batch does not grow",
            source=source,
            warning=warning,
        ),
    )


@record
class Decay:
    """The decay schedule to try first (``power`` for the polynomial one), and the others."""

    name: str
    power: float
    others: tuple[str, ...]
    reason: Reason


def choose_decay(optimizer: str, *, own: str = "") -> Decay:
    """Return polynomial decay for LARS (power 2) and LAMB (power 1), otherwise cosine decay, which needs no tuning.

    ``own``: the decay that the job has already, which is kept; empty: none. Its parameters are the job's too.
    Source: guidelines ("try step decay, exponential decay, 1/t decay, polynomial decay, cosine decay"). The powers are
    those of LARS and BERT in MLPerf; cosine decay as the first choice is hpclaunch's own.
    """
    power = 0.0 if own else rules_of(optimizer).decay_power
    name = own or ("polynomial" if power else "cosine")
    words = f"{in_words(name)}: {DECAYS[name]}" if name in DECAYS else in_words(name)
    return Decay(
        name=name,
        power=power,
        others=tuple(one for one in DECAYS if one != name),
        reason=Reason(
            rule="consider a decay schedule",
            numbers=(Number(name="power", value=power),) if power else (),
            verdict=words + (", the job's own schedule" if own else ""),
            source=SOURCE,
        ),
    )


def decay_factor(name: str, epoch: float, epochs: float, *, power: float = 1.0, rate: float = 1.0) -> float:
    """Return the factor of the scaled rate at a (fractional) ``epoch`` of ``epochs``.

    ``power`` is that of the polynomial. ``rate`` is k of the exponential and the inverse schedule, and the factor that
    ``step`` applies after one and two thirds of the run. Raises ValueError for an unknown name. Source: guidelines.
    """
    positive(epochs=epochs)
    done = min(max(epoch / epochs, 0.0), 1.0)
    if name not in DECAYS:
        raise ValueError(f"{name!r} is not one of {', '.join(DECAYS)}")
    factors: dict[str, float] = {
        "step": math.pow(rate, min(2, math.floor(3 * done))),
        "exponential": math.exp(-rate * epoch),
        "inverse": 1 / (1 + rate * epoch),
        "polynomial": math.pow(1 - done, power),
        "cosine": (1 + math.cos(math.pi * done)) / 2,
    }
    return factors[name]
