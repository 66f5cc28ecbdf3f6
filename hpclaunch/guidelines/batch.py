"""The guidelines' caps on global batch size, batch size per rank and nodes; a typed value is never overruled."""

from __future__ import annotations

import math
from dataclasses import replace

from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.guidelines.efficiency import MCCANDLISH, NOT_KNOWN, CriticalBatch, NoiseScale
from hpclaunch.guidelines.published import Published
from hpclaunch.guidelines.reasoning import GUIDELINES, Number, Origin, Reason, positive

SOURCE = f"{GUIDELINES}, batch size selection and node number selection"
MOST_NODES = 64
"""Guidelines: "up to 64 nodes is recommended for shorter queue wait time"."""
ENOUGH_WORK = 0.8
"""A batch size per rank is large enough if at least this share of a step is work on samples, not fixed time."""


DIGITS = 5
"""Binary digits of the largest batch of a replica: a multiple of 8 from 128 samples on."""


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


@record
class KnownBatches:
    """What is known of the batches of a task, in samples.

    ``tuned``: the batch that the job's rate is for (0: not known). ``published``: the largest with the same epochs, for
    the task and the optimizer. ``critical`` is only shown.
    """

    tuned: int = 0
    published: Published | None = None
    noise: NoiseScale | None = None
    critical: CriticalBatch = NOT_KNOWN


NO_BATCH_KNOWN = KnownBatches()


@record
class BatchBound:
    """The largest global batch size (samples) of an automatic choice: ``what`` it is, in words, and its source."""

    batch: int
    what: str
    source: str
    origin: Origin


def bound_of(samples: int, known: KnownBatches = NO_BATCH_KNOWN) -> BatchBound:
    """Return the largest of the batch below sqrt(N), the tuned, the published and the measured one.

    A step cannot use more than all ``samples``. The first is the rule of thumb; the others are evidence.
    Source: guidelines; the noise scale roughly predicts the largest useful batch (McCandlish et al. 2018).
    """
    root = f"below sqrt(N) = {math.sqrt(samples):.0f}"
    found = [BatchBound(batch=below_square_root(samples), what=root, source=SOURCE, origin="computed")]
    if known.noise is not None and known.noise.trustworthy:
        source = f"{SOURCE}; {MCCANDLISH}"
        found.append(
            BatchBound(batch=int(known.noise.value), what="the measured noise scale", source=source, origin="profile")
        )
    if known.published is not None:
        what, source = "published with the same epochs", f"{SOURCE}; {known.published.source}"
        found.append(BatchBound(batch=known.published.batch, what=what, source=source, origin="default"))
    if known.tuned:
        what = "the batch that the job's rate is for"
        found.append(BatchBound(batch=known.tuned, what=what, source=SOURCE, origin="given"))
    largest = max(found, key=lambda bound: bound.batch)
    return replace(largest, batch=max(1, min(largest.batch, samples)))


def batch_cap(samples: int, known: KnownBatches = NO_BATCH_KNOWN, *, typed: int | None = None) -> BatchCap:
    """Return the cap on the global batch size: the typed one, else ``bound_of``.

    A typed batch is kept, with a warning if it is above the bound.
    """
    if typed is not None:
        return BatchCap(batch=typed, origin="typed", reason=_typed_reason(typed, samples, known))
    bound = bound_of(samples, known)
    if bound.origin == "computed":
        rule, verdict = "global batch size below sqrt(N)", "the largest global batch size below sqrt(N)"
    else:
        rule = "global batch size below sqrt(N), or up to a larger one that is tuned, published or measured"
        verdict = f"{bound.what}, in place of sqrt(N) = {math.sqrt(samples):.0f}"
    reason = Reason(
        rule=rule,
        numbers=_numbers(bound.batch, samples, known),
        verdict=f"a plan takes at most {bound.batch} samples: {verdict}",
        source=bound.source,
    )
    return BatchCap(batch=bound.batch, origin=bound.origin, reason=reason)


def _numbers(batch: int, samples: int, known: KnownBatches) -> tuple[Number, ...]:
    found = [
        Number(name="B", value=batch, unit="samples"),
        Number(name="sqrt(N)", value=math.sqrt(samples), unit="samples"),
        *known.critical.numbers,
    ]
    if known.tuned:
        found.append(Number(name="B0", value=known.tuned, unit="samples", origin="given"))
    if known.published is not None:
        found.append(Number(name="published", value=known.published.batch, unit="samples", origin="default"))
    if known.noise is not None:
        found.append(Number(name="noise scale", value=known.noise.value, unit="samples", origin="profile"))
    return tuple(found)


def _typed_reason(typed: int, samples: int, known: KnownBatches) -> Reason:
    positive(batch=typed)
    bound = bound_of(samples, known)
    above = typed > bound.batch
    critical = f"{known.critical.samples:.0f}" if known.critical.samples is not None else "not known"
    root = f"sqrt(N) = {math.sqrt(samples):.0f}"
    if bound.origin == "computed":
        bounds = f"the recommended {root} (B_crit = {critical})"
    else:
        bounds = f"{bound.batch} samples, {bound.what} ({root}, B_crit = {critical})"
    warning = f"the global batch size B = {typed} is above {bounds}"
    if typed > samples:
        warning += f"; the data set has only {samples} samples, so a step cannot use more"
    else:
        warning += ": a larger batch gains less from each sample"
    return Reason(
        rule="a typed value overrides the rules",
        numbers=_numbers(typed, samples, known),
        verdict=f"{typed} samples, as typed; {'above' if above else 'within'} the {bound.batch} of an automatic choice",
        source=bound.source,
        warning=warning if above else "",
    )


def smallest_efficient_batch(fixed_s: float, per_sample_s: float, *, launches_ahead: bool = False) -> int:
    """Return the smallest batch size per rank for which 80 % of a step is work on samples.

    A step takes ``fixed_s`` + b x ``per_sample_s`` seconds; with ``launches_ahead`` the longer of both. Source:
    guidelines, "make sure the local batch size is not too small for computation efficiency"; the share is hpclaunch's
    own choice. Raises ValueError for negative times.
    """
    positive(per_sample_s=per_sample_s)
    if fixed_s < 0:
        raise ValueError(f"a step's fixed time cannot be negative: {fixed_s}")
    # Rounded before ceil(), which would make 5 of 4.000000000000001 samples.
    share = ENOUGH_WORK if launches_ahead else ENOUGH_WORK / (1 - ENOUGH_WORK)
    return max(1, math.ceil(round(share * fixed_s / per_sample_s, 9)))


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


def possible_batches(cap: int, replicas: int, largest: int, *, accumulates: bool = False) -> list[Batch]:
    """Return the batches of ``replicas`` replicas to choose from, up to ``cap`` samples in total.

    A replica gets 2^n or 3 x 2^n samples, so that twice as many replicas can share the same global batch, or the most
    that the cap leaves it, in five binary digits. ``largest``: the samples that fit its memory; with ``accumulates``
    more of them are micro-batches. Empty: the cap leaves a replica less than one sample.
    Source: guidelines, batch size and node number selection.
    """
    positive(cap=cap, replicas=replicas, largest=largest)
    most = cap // replicas if accumulates else min(cap // replicas, largest)
    powers = [1 << bit for bit in range(most.bit_length())]
    round_one = most >> max(0, most.bit_length() - DIGITS) << max(0, most.bit_length() - DIGITS)
    sizes = {size for size in (*powers, *(3 * power for power in powers), round_one) if 1 <= size <= most}
    parts = {size: math.ceil(size / largest) for size in sizes}
    found = {Batch(per_rank=size // parts[size], replicas=replicas, accumulation=parts[size]) for size in sizes}
    return sorted(found, key=lambda batch: (batch.total, batch.accumulation))


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
