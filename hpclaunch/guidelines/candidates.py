"""Time and cost of a run on so many nodes, from its throughput, its epochs and its overhead; it chooses none."""

from __future__ import annotations

import math
from dataclasses import replace

from hpclaunch.core.records import record
from hpclaunch.core.units import count, format_walltime
from hpclaunch.guidelines.batch import Batch
from hpclaunch.guidelines.intervals import Interval, added, mapped, quotient, scaled
from hpclaunch.guidelines.overhead import NO_OVERHEAD, Overhead
from hpclaunch.guidelines.reasoning import Number, Reason

SOURCE = "J = (time + wait)^w cost^(1-w), minimal at B = B_crit w / (1 - w) (McCandlish et al. 2018, Pareto law)"
HOUR = 3600.0
LONGEST_S = 365 * 86400
"""Seconds: nobody starts a training that ends later (hpclaunch's own)."""


@record
class Bill:
    """The price of a node-hour in ``unit``, and the longest walltime of one job in seconds (None: no limit).

    ``most_jobs``: the jobs that a chain may have (None: it is not limited, or the run cannot be a chain). A job counts
    for ``shortest_s`` seconds at least, and costs ``least`` at least. ``notes``: what is not known of it.
    """

    per_node_hour: float = 1.0
    unit: str = "node-hour"
    walltime_s: float | None = None
    most_jobs: int | None = None
    shortest_s: float = 0.0
    least: float = 0.0
    notes: tuple[str, ...] = ()

    def charge(self, nodes: int, seconds: float) -> float:
        """Return what a job of so many nodes and seconds costs."""
        return max(
            self.least if self.per_node_hour else 0.0, nodes * max(seconds, self.shortest_s) / HOUR * self.per_node_hour
        )


@record
class Candidate:
    """A run on ``nodes`` nodes: time to the target and queue wait (seconds), cost, and jobs in its chain.

    ``wait_s`` is the wait of all jobs of the chain. ``beyond``: why the run is no recommendation, whatever the deadline
    and the budget are; empty: it is one.
    ``ranks_per_node``: fewer than those of a whole node where a part of a shared node is used. ``once_s`` and
    ``between_s`` are parts of the time: start-up with staging, and evaluation with checkpoints. ``charged``: what the
    cost consists of and lacks, in one line.
    """

    nodes: int
    batch: Batch
    samples_per_s: Interval
    epochs: Interval
    time_s: Interval
    once_s: Interval
    between_s: Interval
    wait_s: float
    node_hours: Interval
    cost: Interval
    unit: str
    charged: str = ""
    jobs: int
    reason: Reason
    beyond: str = ""
    ranks_per_node: int = 1

    @property
    def ranks(self) -> int:
        """The ranks of all nodes."""
        return self.nodes * self.ranks_per_node

    @property
    def size(self) -> tuple[int, int]:
        """Nodes and ranks per node, by which candidates are told apart and ordered."""
        return self.nodes, self.ranks_per_node

    @property
    def done_s(self) -> float:
        """Seconds from now until the run is done (median)."""
        return self.time_s.middle + self.wait_s


@record
class TrainingLength:
    """The length of a training: its epochs with one batch size, ``samples`` per epoch, and overhead.

    ``overhead``: what the run does outside its steps.
    """

    epochs: Interval
    samples: int
    overhead: Overhead = NO_OVERHEAD


def candidate(
    nodes: int, batch: Batch, samples_per_s: Interval, length: TrainingLength, bill: Bill, *, wait_s: float = 0.0
) -> Candidate:
    """Return time and cost of a run on ``nodes`` nodes, with the uncertainty of throughput and of epochs.

    time = overhead + epochs x samples / throughput; cost = nodes x time x price, but at least that of a short job.
    Each job of a chain starts up, and waits for ``wait_s`` seconds.
    """
    epochs = length.epochs
    training = quotient(scaled(epochs, length.samples), samples_per_s)
    between_s = scaled(length.overhead.epoch_s, epochs.middle)
    jobs = _jobs_of(training.middle + between_s.middle, length.overhead.once_s.middle, bill.walltime_s)
    once_s = scaled(length.overhead.once_s, jobs)
    time_s = replace(added(training, once_s, between_s), origin=samples_per_s.origin)
    hours = scaled(time_s, nodes / HOUR)
    chain = f"; longer than one job may run, so a chain of {jobs} jobs, joined by checkpoints" if jobs > 1 else ""
    return Candidate(
        nodes=nodes,
        batch=batch,
        samples_per_s=samples_per_s,
        epochs=epochs,
        time_s=time_s,
        once_s=once_s,
        between_s=between_s,
        wait_s=jobs * wait_s,
        node_hours=hours,
        cost=mapped(time_s, lambda seconds: bill.charge(nodes, seconds)),
        unit=bill.unit,
        charged=_charge_in_words(time_s, once_s, bill),
        jobs=jobs,
        beyond=_why_beyond(time_s.middle, jobs, bill),
        reason=Reason(
            rule="time = overhead + epochs x samples / throughput",
            numbers=(
                Number(name="B", value=batch.total, unit="samples"),
                Number(name="throughput", value=samples_per_s.middle, unit="samples/s", origin=samples_per_s.origin),
                Number(name="epochs", value=epochs.middle, unit="epochs", origin=epochs.origin),
                Number(name="N", value=length.samples, unit="samples", origin="given"),
                Number(name="overhead", value=once_s.middle + between_s.middle, unit="s"),
            ),
            verdict=f"{count(nodes, 'node')}: {time_words(time_s.low)} to {time_words(time_s.high)}{chain}",
            source=SOURCE,
        ),
    )


def _jobs_of(steady_s: float, once_s: float, limit_s: float | None) -> int:
    """Return the jobs of a chain; each starts up for ``once_s`` seconds, and lasts no longer than the limit."""
    if not limit_s:
        return 1
    useful_s = limit_s - once_s if limit_s > 2 * once_s else limit_s
    return max(1, math.ceil(steady_s / useful_s))


def _why_beyond(seconds: float, jobs: int, bill: Bill) -> str:
    """Return why a run of so many seconds and jobs is no recommendation; empty if it is one."""
    if seconds > LONGEST_S:
        return f"it would take {seconds / 86400:.0f} days: longer than a year is no plan"
    if bill.most_jobs and bill.walltime_s and jobs > bill.most_jobs:
        each = time_words(bill.walltime_s)
        if bill.most_jobs == 1:
            return f"it would take {jobs} jobs of {each} each, and it cannot start again (no restarts)"
        return f"it would take a chain of {jobs} jobs of {each} each, and {bill.most_jobs} are allowed"
    return ""


def _charge_in_words(time_s: Interval, once_s: Interval, bill: Bill) -> str:
    """Return which part of the cost is start-up, what a short job is charged, and what is not known."""
    words = [f"{once_s.middle / time_s.middle:.0%} of it is start-up and staging"]
    if time_s.middle < bill.shortest_s:
        words = [f"a job is charged for {format_walltime(math.ceil(bill.shortest_s))} at least; {words[0]}"]
    return "; ".join([*words, *bill.notes])


def time_words(seconds: float) -> str:
    """Return a time as a walltime, rounded up to a second."""
    return format_walltime(math.ceil(seconds))
