"""Which optimizer suits a global batch size: that of a single node, unless the batch is extreme."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.guidelines.published import Published, TaskFacts, published_for
from hpclaunch.guidelines.reasoning import GUIDELINES, Number, Reason, positive

SOURCE = f"{GUIDELINES}, optimizer selection"
SGD_LIMIT = 8192
"""Samples up to which plain SGD kept its accuracy on ImageNet (Goyal et al. 2017)."""
BEYOND_CRITICAL = 4.0
"""A batch above this multiple of B_crit is extreme: hpclaunch's own reading of the guidelines' "extreme large"."""
NOTHING_KNOWN = TaskFacts()

LARS = (
    "local rate = 0.001 |w| / (|g| + weight decay |w|), momentum 0.9, rate 0.18 sqrt(B) up to 25; not for biases and"
    " batch norm"
)
LARC = "like LARS, with the global rate as an upper limit"
LAMB = "Adam's step, scaled to |w|; rate 0.005 sqrt(B / 32768)"
SAME_BATCH = (
    "tuned Nesterov or Adam reach LARS's and LAMB's accuracy at the same batches (Nado et al. 2021, arXiv 2102.06356)"
)
LOCAL_NORMS = "batch norm keeps each rank's own statistics; never synchronize them (Goyal et al. 2017)"
BEST_ACCURACY = "SGD with momentum has the best accuracy, but is harder to tune"
LEAST_TUNING = "Adam works well in most cases without difficult tuning, on one node and on many"


@record
class OptimizerRules:
    """What the guidelines and the publications say of one optimizer.

    ``is_sgd``: plain SGD, with a limit of its batch. ``is_layerwise``: made for extreme batches. ``by_root``: its rate
    grows with the root of the batch, else linearly. ``long_warmup``: its warm-up grows with the batch (LEGW).
    ``decay_power``: of its polynomial decay; 0: cosine. ``needs_matrices``: no rank may hold only a part of a weight.
    """

    is_sgd: bool = False
    is_layerwise: bool = False
    by_root: bool = False
    long_warmup: bool = False
    decay_power: float = 0.0
    needs_matrices: bool = False


_RULES = {
    "sgd": OptimizerRules(is_sgd=True),
    "momentum": OptimizerRules(is_sgd=True),
    "adam": OptimizerRules(by_root=True),
    "adamw": OptimizerRules(by_root=True),
    "muon": OptimizerRules(by_root=True, needs_matrices=True),
    "larc": OptimizerRules(is_layerwise=True),
    "lars": OptimizerRules(is_layerwise=True, by_root=True, long_warmup=True, decay_power=2.0),
    "lamb": OptimizerRules(is_layerwise=True, by_root=True, long_warmup=True, decay_power=1.0),
}


def rules_of(optimizer: str) -> OptimizerRules:
    """Return the rules of an optimizer; of one that is not known, those that hold for any."""
    return _RULES.get(optimizer.lower(), OptimizerRules())


@record
class OptimizerAdvice:
    """The optimizer to use; ``changed`` if it is not the user's own; ``alternatives`` and ``cautions`` in words."""

    name: str
    changed: bool
    alternatives: tuple[str, ...]
    cautions: tuple[str, ...]
    reason: Reason


def choose_optimizer(
    current: str,
    batch: int,
    *,
    facts: TaskFacts = NOTHING_KNOWN,
    typed: bool = False,
    offered: Sequence[str] | None = None,
) -> OptimizerAdvice:
    """Return the user's optimizer; with an extreme global batch size (samples), LARS for SGD and LAMB for Adam.

    Up to the bound of an automatic batch, and up to the batch published for it and the task, an optimizer is kept.
    Beyond them, extreme means above 8192 for SGD, or above 4 x B_crit. An optimizer with a published batch is replaced
    only by one that was published for a larger batch. A ``typed`` optimizer is kept, with a warning. So is that of a
    job whose program does not offer the other one (``offered``; None: it offers all).
    Source: guidelines ("continue to use the default optimizer ... extreme large global batch size (model and dataset
    dependent): consider combining LARS/LARC with base optimizer"); ``published``.
    """
    positive(batch=batch)
    rules, row = rules_of(current), published_for(facts.name, current)
    layerwise = "lars" if rules.is_sgd else "lamb"
    extreme = _is_extreme(batch, rules, row, facts)
    change = extreme and not rules.is_layerwise and _reaches_further(published_for(facts.name, layerwise), row)
    is_offered = offered is None or layerwise in offered
    kept = not change or typed or not is_offered
    verdict = _kept_words(current, batch, row) if kept else f"{layerwise} instead of {current}: the batch is extreme"
    warning = ""
    if change and kept:
        why = "as typed" if typed else f"because the job does not offer {layerwise}"
        warning = f"{current} kept {why}: a global batch size of {batch} is extreme, and {layerwise} is made for it"
    name = current if kept else layerwise
    return OptimizerAdvice(
        name=name,
        changed=not kept,
        alternatives=(f"LARS: {LARS}", f"LARC: {LARC}", f"LAMB: {LAMB}") if extreme else (BEST_ACCURACY, LEAST_TUNING),
        cautions=(SAME_BATCH, LOCAL_NORMS) if extreme else (LOCAL_NORMS,),
        reason=Reason(
            rule="keep the single node's optimizer unless the global batch size is extreme",
            numbers=_numbers(batch, rules, row, facts),
            verdict=verdict,
            source=f"{SOURCE}; {row.source}" if row else SOURCE,
            warning=warning or _warn_beyond_published(name, batch, published_for(facts.name, name)),
        ),
    )


def _is_extreme(batch: int, rules: OptimizerRules, row: Published | None, facts: TaskFacts) -> bool:
    """Whether a global batch size is above plain SGD's limit, or far above the critical one, if that is known."""
    if batch <= max(facts.bound, row.batch if row else 0):
        return False
    if rules.is_sgd and batch > SGD_LIMIT:
        return True
    return facts.critical.samples is not None and batch > BEYOND_CRITICAL * facts.critical.samples


def _reaches_further(other: Published | None, own: Published | None) -> bool:
    """Whether another optimizer was published for a larger batch; where nothing is known of the own one, it may be."""
    return own is None or (other is not None and other.batch > own.batch)


def _numbers(batch: int, rules: OptimizerRules, row: Published | None, facts: TaskFacts) -> tuple[Number, ...]:
    numbers = [Number(name="B", value=batch, unit="samples")]
    if row is not None:
        numbers.append(Number(name="largest published", value=row.batch, unit="samples", origin="default"))
    elif rules.is_sgd:
        numbers.append(Number(name="limit of SGD", value=SGD_LIMIT, unit="samples", origin="default"))
    return (*numbers, *facts.critical.numbers)


def _kept_words(current: str, batch: int, row: Published | None) -> str:
    if row is None:
        return f"keep {current}"
    if batch <= row.batch:
        return f"keep {current}: it was used for {row.task} with batch sizes up to {row.batch}"
    return f"keep {current}; its published results for {row.task} end at a batch size of {row.batch}"


def _warn_beyond_published(name: str, batch: int, row: Published | None) -> str:
    """Return the warning about a batch larger than any that was published for the optimizer, or empty text."""
    if row is None or batch <= row.batch:
        return ""
    return f"B = {batch} is beyond what was measured: {name} on {row.task} up to {count(row.batch, 'sample')}"
