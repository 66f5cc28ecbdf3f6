"""The guidelines' caps on global batch size, batch size per rank and nodes; a typed value is never overruled."""

from __future__ import annotations

import math

from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.guidelines.efficiency import MCCANDLISH, NOT_KNOWN, CriticalBatch, NoiseScale
from hpclaunch.guidelines.reasoning import GUIDELINES, Number, Origin, Reason, positive

SOURCE = f"{GUIDELINES}, batch size selection and node number selection"
MOST_NODES = 64
"""Guidelines: "up to 64 nodes is recommended for shorter queue wait time"."""
ENOUGH_WORK = 0.8
"""A batch size per rank is large enough if at least this share of a step is work on samples, not fixed time."""


@record
class BatchCap:
    """The largest global batch size (samples) of an automatic choice, and why."""

    batch: int
    origin: Origin
    reason: Reason


def below_square_root(samples: int) -> int:
    """Return the largest whole batch size below sqrt(``samples``), at least 1; CIFAR-10's 50,000 samples give 223.

    Source: guidelines, "for dataset size N, usually use maximal global batch size < sqrt(N)".
    """
    positive(samples=samples)
    return max(1, math.isqrt(samples - 1))


def bound_of(samples: int, noise: NoiseScale | None = None) -> int:
    """Return the largest global batch size of an automatic choice: a trustworthy noise scale, else below sqrt(N).

    A step cannot use more than all ``samples``.
    """
    if noise is not None and noise.trustworthy:
        return max(1, min(int(noise.value), samples))
    return below_square_root(samples)


def batch_cap(
    samples: int,
    *,
    typed: int | None = None,
    noise: NoiseScale | None = None,
    critical: CriticalBatch = NOT_KNOWN,
) -> BatchCap:
    """Return the cap on the global batch size: the typed one, else a trustworthy noise scale, else below sqrt(N).

    ``critical`` is only shown. A typed batch is kept, with a warning if it breaks the rule.
    Source: guidelines; the noise scale roughly predicts the largest useful batch (McCandlish et al. 2018).
    """
    if typed is not None:
        return BatchCap(batch=typed, origin="typed", reason=_typed_reason(typed, samples, noise, critical))
    measured = bound_of(samples, noise)
    if noise is not None and noise.trustworthy:
        verdict = f"at most {measured} samples: the measured noise scale replaces sqrt(N) = {math.sqrt(samples):.0f}"
        rule, source = "a measured noise scale is the largest useful global batch size", f"{SOURCE}; {MCCANDLISH}"
        origin: Origin = "profile"
    else:
        verdict = f"at most {measured} samples, the largest global batch size below sqrt(N)"
        rule, source, origin = "global batch size below sqrt(N)", SOURCE, "computed"
    numbers = _numbers(measured, samples, noise, critical)
    reason = Reason(rule=rule, numbers=numbers, verdict=verdict, source=source)
    return BatchCap(batch=measured, origin=origin, reason=reason)


def _numbers(batch: int, samples: int, noise: NoiseScale | None, critical: CriticalBatch) -> tuple[Number, ...]:
    found = [
        Number(name="B", value=batch, unit="samples"),
        Number(name="sqrt(N)", value=math.sqrt(samples), unit="samples"),
        *critical.numbers,
    ]
    if noise is not None:
        found.append(Number(name="noise scale", value=noise.value, unit="samples", origin="profile"))
    return tuple(found)


def _typed_reason(typed: int, samples: int, noise: NoiseScale | None, critical: CriticalBatch) -> Reason:
    positive(batch=typed)
    allowed = bound_of(samples, noise)
    above = typed > allowed
    known = f"{critical.samples:.0f}" if critical.samples is not None else "not known"
    root = f"sqrt(N) = {math.sqrt(samples):.0f}"
    if noise is not None and noise.trustworthy:
        bounds = f"measured noise scale of {noise.value:.0f} ({root}, B_crit = {known})"
    else:
        bounds = f"recommended {root} (B_crit = {known})"
    warning = f"the global batch size B = {typed} is above the {bounds}"
    if typed > samples:
        warning += f"; the data set has only {samples} samples, so a step cannot use more"
    else:
        warning += ": a larger batch gains less from each sample"
    return Reason(
        rule="a typed value overrides the rules",
        numbers=_numbers(typed, samples, noise, critical),
        verdict=f"{typed} samples, as requested; {'above' if above else 'within'} the {allowed} of an automatic choice",
        source=SOURCE,
        warning=warning if above else "",
    )


def smallest_efficient_batch(fixed_s: float, per_sample_s: float) -> int:
    """Return the smallest batch size per rank for which 80 % of a step is work on samples.

    A step takes ``fixed_s`` + b x ``per_sample_s`` seconds. Source: guidelines, "make sure the local batch size is not
    too small for computation efficiency"; the share is hpclaunch's own choice. Raises ValueError for negative times.
    """
    positive(per_sample_s=per_sample_s)
    if fixed_s < 0:
        raise ValueError(f"a step's fixed time cannot be negative: {fixed_s}")
    # Rounded before ceil(), which would make 5 of 4.000000000000001 samples.
    return max(1, math.ceil(round(ENOUGH_WORK / (1 - ENOUGH_WORK) * fixed_s / per_sample_s, 9)))


@record
class Batch:
    """A global batch and its parts: ``per_rank`` samples x ``replicas`` x ``accumulation`` micro-batches."""

    per_rank: int
    replicas: int
    accumulation: int = 1

    @property
    def total(self) -> int:
        """The global batch size in samples."""
        return self.per_rank * self.replicas * self.accumulation


@record
class PerRank:
    """Limits of the batch size per rank, in samples: from ``smallest`` (efficiency) to ``largest`` (memory)."""

    smallest: int
    largest: int

    def __post_init__(self) -> None:
        positive(smallest=self.smallest, largest=self.largest)


def possible_batches(cap: int, replicas: int, limits: PerRank, *, at_least: int = 1) -> list[Batch]:
    """Return the batches of ``replicas`` replicas to choose from, from ``at_least`` to ``cap`` samples in total.

    A rank gets 2^n or 3 x 2^n samples, so that twice as many replicas can share the same global batch; where none of
    these fits, the largest possible number. Empty: even the smallest efficient batch would break the cap, or more
    replicas would need a smaller global batch than fewer ones.
    Source: guidelines, batch size and node number selection; "more nodes are not necessarily better".
    """
    positive(cap=cap, replicas=replicas, at_least=at_least)
    most = min(limits.largest, cap // replicas)
    fewest = max(min(limits.smallest, limits.largest), math.ceil(at_least / replicas))
    if most < fewest:
        return []
    powers = [1 << bit for bit in range(most.bit_length())]
    sizes = sorted(size for size in (*powers, *(3 * power for power in powers)) if fewest <= size <= most)
    return [Batch(per_rank=size, replicas=replicas) for size in sizes or [most]]


def typed_batch(typed: int, replicas: int, *, largest: int) -> Batch:
    """Return the parts of a typed global batch size, with as few micro-batches as memory allows.

    Raises ValueError if it does not divide evenly among the replicas: the run would use another batch than typed.
    """
    positive(typed=typed, replicas=replicas, largest=largest)
    if typed % replicas:
        raise ValueError(f"a global batch size of {typed} cannot be divided evenly among {replicas} replicas")
    each = typed // replicas
    parts = next(parts for parts in range(math.ceil(each / largest), each + 1) if each % parts == 0)
    return Batch(per_rank=each // parts, replicas=replicas, accumulation=parts)


MICRO_BATCHES = 4
"""Micro-batches for each pipeline stage from which on its bubble is small (Huang et al. 2019, arXiv 1811.06965)."""


def in_micro_batches(batch: Batch, stages: int, largest: int) -> Batch:
    """Return the batch in micro-batches for a pipeline of ``stages``, each of at most ``largest`` samples; B stays.

    A replica's samples become 4 micro-batches for each stage, or the next larger number that divides them; fewer
    samples become as many micro-batches.
    """
    if stages == 1:
        return batch
    samples = batch.per_rank * batch.accumulation
    fewest = max(min(MICRO_BATCHES * stages, samples), math.ceil(samples / max(1, largest)))
    parts = next(parts for parts in range(fewest, samples + 1) if samples % parts == 0)
    return Batch(per_rank=samples // parts, replicas=batch.replicas, accumulation=parts)


@record
class NodeCap:
    """The most nodes of an automatic choice, and why."""

    nodes: int
    origin: Origin
    reason: Reason


def node_cap(available: int | None = None, *, typed: int | None = None) -> NodeCap:
    """Return the cap on nodes: the typed node count, else 64 or the site's limit if that is lower (None: not known).

    Source: guidelines, "up to 64 nodes is recommended for shorter queue wait time", "more nodes are not necessarily
    better".
    """
    if typed is not None:
        positive(nodes=typed)
        above = typed > MOST_NODES
        warning = (
            f"{count(typed, 'node')} kept as typed: the guidelines recommend up to {MOST_NODES}, for a shorter wait"
        )
        return NodeCap(
            nodes=typed,
            origin="typed",
            reason=Reason(
                rule="a typed value overrides the rules",
                numbers=(Number(name="nodes", value=typed, origin="typed"),),
                verdict=f"{count(typed, 'node')}, as typed",
                source=SOURCE,
                warning=warning if above else "",
            ),
        )
    nodes = MOST_NODES if available is None else min(MOST_NODES, available)
    positive(nodes=nodes)
    return NodeCap(
        nodes=nodes,
        origin="default" if nodes == MOST_NODES else "site",
        reason=Reason(
            rule=f"up to {MOST_NODES} nodes; more nodes are not necessarily better",
            numbers=(Number(name="nodes", value=nodes, origin="default" if nodes == MOST_NODES else "site"),),
            verdict=f"at most {count(nodes, 'node')}",
            source=SOURCE,
        ),
    )
