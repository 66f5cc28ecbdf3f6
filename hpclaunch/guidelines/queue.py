"""How long a job waits in the queue: upper bounds for quantiles of past waits; it queries no scheduler."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import Number, Reason

CONFIDENCE = 0.95
MIDDLE, MOST = 0.5, 0.95
"""Quantiles of the wait: the plan uses the first, and also shows the second."""
CLASSES = (1800, 7200, 28800, 86400)
"""Upper ends of the classes of walltime in seconds. Short jobs start earlier, in gaps between long ones."""
SOURCE = "Brevik, Nurmi, Wolski: Predicting bounds on queuing delay for batch-scheduled parallel machines, PPoPP 2006"


@record
class Past:
    """A job that has started: its wait and requested walltime in seconds (None: no limit), nodes, partition, QOS."""

    waited_s: float
    nodes: int
    partition: str
    qos: str
    walltime: int | None


@record
class Wait:
    """Upper bounds on the wait in seconds: of half of such jobs, of 95 % (None: too few jobs), and why."""

    middle_s: float
    most_s: float | None
    reason: Reason


def wait_for(past: Sequence[Past], nodes: int, walltime: int | None, partition: str, qos: str) -> Wait | None:
    """Return bounds on the wait of a job from similar past jobs; None if there are too few.

    Similar jobs have the same partition, QOS, power of two of nodes, and class of walltime. If there are too few for a
    median, any walltime counts, then any QOS. Source: ``SOURCE``; the classes are hpclaunch's own.
    """
    sized = [one for one in past if one.partition == partition and _size(one.nodes) == _size(nodes)]
    same = [one for one in sized if not qos or one.qos == qos]
    close = [one for one in same if _class(one.walltime) == _class(walltime)]
    for jobs, words in ((close, "of similar walltime"), (same, "of any walltime"), (sized, "of any walltime and QOS")):
        waits = sorted(one.waited_s for one in jobs)
        middle = upper_bound(waits, MIDDLE)
        if middle is not None:
            return _wait_of(middle, upper_bound(waits, MOST), len(waits), nodes, words)
    return None


def upper_bound(waits: Sequence[float], quantile: float, confidence: float = CONFIDENCE) -> float | None:
    """Return an upper bound for the quantile of the (sorted) waits, with that confidence; None: too few waits.

    It is the k-th wait, k = min{k: P(Binomial(m, quantile) <= k - 1) >= confidence}. This holds for any distribution of
    independent waits. The median needs 5 waits, the quantile of 0.95 needs 59. Source: ``SOURCE``.
    """
    if not 0 < quantile < 1:
        raise ValueError(f"a quantile must be between 0 and 1, not {quantile}")
    count, below = len(waits), 0.0
    for index in range(count):
        below += _chance(index, count, quantile)
        if below >= confidence:
            return waits[index]
    return None


def _chance(successes: int, trials: int, quantile: float) -> float:
    """Return the binomial distribution function; computed with logarithms, because its terms underflow."""
    ways = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
    return math.exp(ways + successes * math.log(quantile) + (trials - successes) * math.log1p(-quantile))


def _size(nodes: int) -> int:
    return nodes.bit_length()


def _class(walltime: int | None) -> int:
    return len(CLASSES) if walltime is None else sum(walltime > end for end in CLASSES)


def _wait_of(middle: float, most: float | None, jobs: int, nodes: int, words: str) -> Wait:
    numbers: Iterable[Number] = (
        Number(name="nodes", value=nodes, origin="given"),
        Number(name="past jobs", value=jobs, unit="jobs", origin="given"),
        Number(name="bound on the median wait", value=middle, unit="s"),
        *([Number(name="bound on the 95 % quantile", value=most, unit="s")] if most is not None else []),
    )
    return Wait(
        middle_s=middle,
        most_s=most,
        reason=Reason(
            rule="the k-th of m past waits bounds their q-quantile, k = min{k: BinomCDF(k - 1; m, q) >= 0.95}",
            numbers=tuple(numbers),
            verdict=f"{nodes} node{'s' * (nodes != 1)}: half of such jobs wait at most {middle:.0f} s ({words})",
            source=SOURCE,
        ),
    )
