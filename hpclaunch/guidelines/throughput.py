"""Time of a training step on any node count: compute, all-reduce, stragglers, input pipeline; it measures nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

from hpclaunch.core.records import record
from hpclaunch.guidelines.communication import Group, Links, ring_bytes
from hpclaunch.guidelines.intervals import Z90, Interval, spread
from hpclaunch.guidelines.reasoning import Number, Origin, Reason, positive
from hpclaunch.guidelines.timing import QUANTITIES, Timing

SOURCE = "Pollux's form of the step time (Qiao et al. 2021) with a physical network term"
OVERLAPPED, ADDED = 2.0, 1.0
"""The norm that adds compute and all-reduce: 2 where they overlap, 1 with accumulation (one all-reduce at the end)."""
NOTICED = 0.1
"""The share of a step from which on waiting for samples is worth a warning (hpclaunch's own)."""
NUDGE = 0.5
"""Standard deviations by which a quantity is moved to see how much a step's time depends on it."""


@record
class Work:
    """What a step moves: gradient bytes of one rank (4 per parameter), and bytes per sample read (0: not read).

    If several ranks hold a replica, a ``Shape`` counts replicas. ``inside_parts``: the parts of the gradients that a
    rank has, where all ranks are in one node; among nodes the ranks of a node send whole layers together. ``arranged``:
    returns a replica's timing on a shape from that of one GPU (``guidelines.rungs``); None: it is that of one GPU.
    """

    gradient_bytes: float
    sample_bytes: float = 0.0
    inside_parts: int = 1
    arranged: Callable[[Timing, Shape], Timing] | None = None

    def gradient_on(self, nodes: int) -> float:
        """Return the gradient bytes that a rank sends on so many nodes."""
        return self.gradient_bytes / (self.inside_parts if nodes == 1 else 1)


@record
class Machine:
    """The hardware of the ranks: its links. How fast a node reads samples is part of the timing."""

    links: Links


@record
class Shape:
    """The layout of a step: nodes x ranks per node, samples per rank and micro-batch, micro-batches per step."""

    nodes: int
    ranks_per_node: int
    per_rank: float
    accumulation: float = 1

    def __post_init__(self) -> None:
        positive(nodes=self.nodes, ranks_per_node=self.ranks_per_node, per_rank=self.per_rank)
        if self.accumulation < 1:
            raise ValueError(f"a step must have at least one micro-batch, not {self.accumulation}")

    @property
    def group(self) -> Group:
        """All ranks."""
        return Group(nodes=self.nodes, per_node=self.ranks_per_node)

    @property
    def samples(self) -> float:
        """The samples of one step on all ranks: the global batch size."""
        return self.group.ranks * self.per_rank * self.accumulation


@record
class StepTime:
    """Seconds of one step: its compute time, and its waiting times. ``fixed_s``: the part of both that no batch moves.

    ``fixed_s`` is contained in the others: the framework's time for its operations, and Horovod's for every step.
    """

    compute_s: float
    communication_s: float
    straggler_s: float
    slowdown_s: float
    input_s: float
    fixed_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Seconds of the whole step."""
        return self.busy_s + self.input_s

    @property
    def busy_s(self) -> float:
        """Seconds of a step that does not wait for its samples."""
        return self.compute_s + self.communication_s + self.straggler_s + self.slowdown_s


def network_s(shape: Shape, work: Work, machine: Machine, timing: Timing) -> float:
    """Return the seconds of a step's all-reduce without overlap: latency + 2 (p - 1) / p x bytes / bandwidth."""
    group = shape.group
    if group.ranks == 1:
        return 0.0
    bandwidth = timing.inside if group.nodes == 1 else timing.between
    size = work.gradient_on(group.nodes)
    return machine.links.latency_s(group, size) + ring_bytes(size, group.ranks) / bandwidth


def step_time(shape: Shape, work: Work, machine: Machine, timing: Timing) -> StepTime:
    """Return the time of one step.

    It is (k - 1) T_micro + (T_micro^g + T_net^g)^(1/g) + T_join, times 1 + cv sqrt(2 ln p) for the slowest of p ranks,
    times 1 + slowdown on several nodes, but at least the time of reading the samples. T_join is Horovod's own time for
    every step of several ranks. Source: ``SOURCE``. The straggler term is an upper bound of the expected distance
    between the largest of p normal values and their mean.
    """
    if work.arranged is not None:
        timing = work.arranged(timing, shape)
    ranks = shape.group.ranks
    micro, network = timing.micro_batch_s(shape.per_rank), network_s(shape, work, machine, timing)
    norm = OVERLAPPED if shape.accumulation == 1 else ADDED
    joining = timing.joining_s if ranks > 1 else 0.0
    compute = shape.accumulation * micro
    communication = (micro**norm + network**norm) ** (1 / norm) - micro + joining
    straggler = (compute + communication) * timing.straggling * math.sqrt(2 * math.log(ranks))
    busy = compute + communication + straggler
    slowdown = busy * timing.slowdown if shape.nodes > 1 else 0.0
    return StepTime(
        compute_s=compute,
        communication_s=communication,
        straggler_s=straggler,
        slowdown_s=slowdown,
        input_s=max(0.0, _reading_s(shape, work, timing) - busy - slowdown),
        fixed_s=shape.accumulation * timing.fixed_of_micro_batch_s(shape.per_rank) + joining,
    )


def _reading_s(shape: Shape, work: Work, timing: Timing) -> float:
    """Return the seconds in which a node reads and decodes its samples of one step."""
    if not work.sample_bytes:
        return 0.0
    return shape.ranks_per_node * shape.per_rank * shape.accumulation * work.sample_bytes / timing.reading


def log_deviation(shape: Shape, work: Work, machine: Machine, timing: Timing) -> float:
    """Return the standard deviation of the logarithm of a step's time, as ``timing`` knows it.

    The uncertain quantities and their correlations are propagated to the first order; how far the rivals of ``timing``
    are from it, times their probability, and the error of the model itself are added (``Timing.model_error``).
    """
    gradient = []
    for index in range(len(QUANTITIES)):
        if not timing.covariance[index][index]:  # it is certain
            gradient.append(0.0)
            continue
        longer, shorter = (
            step_time(shape, work, machine, timing.moved(index, sign * NUDGE)).total_s for sign in (1, -1)
        )
        gradient.append(math.log(longer / shorter) / (2 * NUDGE))
    variance = sum(
        one * other * timing.covariance[row][column]
        for row, one in enumerate(gradient)
        for column, other in enumerate(gradient)
        if one and other
    )
    variance = max(0.0, variance)
    if timing.rivals:
        own = step_time(shape, work, machine, timing).total_s
        for probability, rival in timing.rivals:
            variance += probability * math.log(step_time(shape, work, machine, rival).total_s / own) ** 2
    return math.sqrt(variance + timing.model_error(shape.group.ranks, shape.per_rank) ** 2)


@record
class Throughput:
    """Samples/s of all ranks, ``efficiency`` relative to one rank alone, the parts of a step, and the reasoning."""

    samples_per_s: Interval
    efficiency: float
    step: StepTime
    reason: Reason


def throughput(shape: Shape, work: Work, machine: Machine, timing: Timing, single: float | None = None) -> Throughput:
    """Return the samples/s of all ranks, with the uncertainty of ``timing``. Source: ``step_time``.

    ``single``: samples/s of one rank alone at its own best batch, with which the efficiency is compared; None: one
    rank with the same batch.
    """
    step = step_time(shape, work, machine, timing)
    rate = shape.samples / step.total_s
    if single is None:
        alone = Shape(nodes=1, ranks_per_node=1, per_rank=shape.per_rank, accumulation=shape.accumulation)
        single = alone.samples / step_time(alone, work, machine, timing).total_s
    efficiency = rate / (shape.group.ranks * single)
    half = math.expm1(Z90 * log_deviation(shape, work, machine, timing))
    return Throughput(
        samples_per_s=spread(rate, half, timing.origin),
        efficiency=efficiency,
        step=step,
        reason=_reason(step, timing, rate, efficiency),
    )


def _reason(step: StepTime, timing: Timing, rate: float, efficiency: float) -> Reason:
    parts = {
        "compute": step.compute_s,
        "all-reduce": step.communication_s,
        "stragglers": step.straggler_s,
        "slow-down": step.slowdown_s,
        "input": step.input_s,
    }
    origins: dict[str, Origin] = {"stragglers": timing.straggling_origin}
    slow = max((name for name in parts if name != "compute"), key=lambda name: parts[name])
    waits = step.input_s > NOTICED * step.total_s
    bound = "the input pipeline is too slow: the ranks wait for samples" if waits else ""
    return Reason(
        rule="step = compute + all-reduce beyond the overlap + stragglers + slow-down + waiting for input",
        numbers=(
            *(
                Number(name=name, value=value, unit="s", origin=origins.get(name, timing.origin))
                for name, value in parts.items()
            ),
            Number(name="fixed time in it", value=step.fixed_s, unit="s", origin=timing.origin),
            Number(name="spread of a rank's steps", value=timing.straggling, origin=timing.straggling_origin),
        ),
        verdict=f"{rate:.4g} samples/s at {efficiency:.0%} efficiency; the largest loss is {slow}",
        source=SOURCE,
        warning=bound,
    )
