"""How long a job waits before it starts: upper bounds of quantiles of past waits; it asks no scheduler."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import Number, Reason

CONFIDENCE = 0.95
MIDDLE, MOST = 0.5, 0.95
"""Quantiles: what is planned with, and what is also told."""
CLASSES = (1800, 7200, 28800, 86400)
"""Upper ends of the classes of walltime, seconds; short jobs fill holes that long ones leave."""
SOURCE = "Brevik, Nurmi, Wolski: Predicting bounds on queuing delay for batch-scheduled parallel machines, PPoPP 2006"


@record
class Past:
    """A job that has started: how long it waited (seconds) and what it had asked for; ``walltime`` None: no limit."""

    waited_s: float
    nodes: int
    partition: str
    qos: str
    walltime: int | None


@record
class Wait:
    """A wait (seconds) that half of such jobs do not exceed, one that 19 of 20 do not (None: too few jobs), and why."""

    middle_s: float
    most_s: float | None
    reason: Reason


def wait_for(past: Sequence[Past], nodes: int, walltime: int | None, partition: str, qos: str) -> Wait | None:
    """Return bounds on the wait of a job, from past ones like it; None where they are too few.

    Alike are jobs of the same partition, QOS, power of two of nodes and class of walltime; where they are too few for a
    median, first any walltime and then any QOS will do. Source: ``SOURCE``; the classes are hpclaunch's own.
    """
    sized = [one for one in past if one.partition == partition and _size(one.nodes) == _size(nodes)]
    same = [one for one in sized if not qos or one.qos == qos]
    close = [one for one in same if _class(one.walltime) == _class(walltime)]
    for jobs, words in ((close, "of like walltime"), (same, "of any walltime"), (sized, "of any walltime and QOS")):
        waits = sorted(one.waited_s for one in jobs)
        middle = upper_bound(waits, MIDDLE)
        if middle is not None:
            return _told(middle, upper_bound(waits, MOST), len(waits), nodes, words)
    return None


def upper_bound(waits: Sequence[float], quantile: float, confidence: float = CONFIDENCE) -> float | None:
    """Return what the quantile of the waits (sorted) does not exceed, with that confidence; None: too few of them.

    It is the k-th one, k = min{k: P(Binomial(m, quantile) <= k - 1) >= confidence}: whatever the distribution, if waits
    are independent. The median needs 5 waits, the quantile of 0.95 needs 59. Source: ``SOURCE``.
    """
    if not 0 < quantile < 1:
        raise ValueError(f"a quantile is between 0 and 1, not {quantile}")
    count, below = len(waits), 0.0
    for index in range(count):
        below += _chance(index, count, quantile)
        if below >= confidence:
            return waits[index]
    return None


def _chance(successes: int, trials: int, quantile: float) -> float:
    """The binomial distribution, by logarithms: its terms underflow."""
    ways = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
    return math.exp(ways + successes * math.log(quantile) + (trials - successes) * math.log1p(-quantile))


def _size(nodes: int) -> int:
    return nodes.bit_length()


def _class(walltime: int | None) -> int:
    return len(CLASSES) if walltime is None else sum(walltime > end for end in CLASSES)


def _told(middle: float, most: float | None, jobs: int, nodes: int, words: str) -> Wait:
    numbers: Iterable[Number] = (
        Number(name="nodes", value=nodes, origin="given"),
        Number(name="past jobs", value=jobs, unit="jobs", origin="given"),
        Number(name="half wait at most", value=middle, unit="s"),
        *([Number(name="19 of 20 wait at most", value=most, unit="s")] if most is not None else []),
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
