"""Time of a training step on any node count: compute, all-reduce, stragglers, input pipeline; it measures nothing."""

from __future__ import annotations

import math

from hpclaunch.core.records import record
from hpclaunch.guidelines.communication import Group, Links, latency_s, ring_bytes
from hpclaunch.guidelines.reasoning import Interval, Number, Origin, Reason, positive, spread
from hpclaunch.guidelines.stragglers import ASSUMED

SOURCE = "Pollux's form of the step time (Qiao et al. 2021) with a physical network term"
OVERLAPPED, ADDED = 2.0, 1.0
"""The norm that adds compute and all-reduce: 2 where they overlap, 1 with accumulation (one all-reduce at the end)."""


@record
class Work:
    """What a step moves: gradient bytes of one rank (4 per parameter), and bytes per sample read (0: not read)."""

    gradient_bytes: float
    sample_bytes: float = 0.0


@record
class Machine:
    """The hardware of the ranks; file system bandwidths in GB/s, per node and in total (infinite: never a limit)."""

    links: Links
    file_node_gbytes_per_s: float = math.inf
    file_total_gbytes_per_s: float = math.inf


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
class Timing:
    """What a step's time depends on: a micro-batch takes ``fixed_s`` + b x ``per_sample_s``; bandwidths in bytes/s.

    ``slowdown``: relative, of every step on more than one node. ``straggling``: relative standard deviation of a rank's
    step time, with its origin. ``uncertainty``: relative half-width of the 80 % interval of a prediction from it.
    """

    fixed_s: float
    per_sample_s: float
    inside: float
    between: float
    slowdown: float = 0.0
    straggling: float = ASSUMED
    straggling_origin: Origin = "default"
    uncertainty: float
    origin: Origin
    reasons: tuple[Reason, ...] = ()

    def micro_batch_s(self, per_rank: float) -> float:
        """Return the seconds of one micro-batch, forward and backward."""
        return self.fixed_s + self.per_sample_s * per_rank


@record
class StepTime:
    """Seconds of one step: its compute time, and its waiting times."""

    compute_s: float
    communication_s: float
    straggler_s: float
    slowdown_s: float
    input_s: float

    @property
    def total_s(self) -> float:
        """Seconds of the whole step."""
        return self.compute_s + self.communication_s + self.straggler_s + self.slowdown_s + self.input_s


def network_s(shape: Shape, work: Work, machine: Machine, timing: Timing) -> float:
    """Return the seconds of a step's all-reduce without overlap: latency + 2 (p - 1) / p x bytes / bandwidth."""
    group = shape.group
    if group.ranks == 1:
        return 0.0
    bandwidth = timing.inside if group.nodes == 1 else timing.between
    latency = latency_s(group, work.gradient_bytes, nvlink=machine.links.nvlink)
    return latency + ring_bytes(work.gradient_bytes, group.ranks) / bandwidth


def step_time(shape: Shape, work: Work, machine: Machine, timing: Timing) -> StepTime:
    """Return the time of one step.

    It is (k - 1) T_micro + (T_micro^g + T_net^g)^(1/g), times 1 + cv sqrt(2 ln p) for the slowest of p ranks, times
    1 + slowdown on several nodes, but at least the time of reading the samples. Source: ``SOURCE``. The straggler term
    is an upper bound of the expected distance between the largest of p normal values and their mean.
    """
    micro, network = timing.micro_batch_s(shape.per_rank), network_s(shape, work, machine, timing)
    norm = OVERLAPPED if shape.accumulation == 1 else ADDED
    compute = shape.accumulation * micro
    communication = (micro**norm + network**norm) ** (1 / norm) - micro
    straggler = (compute + communication) * timing.straggling * math.sqrt(2 * math.log(shape.group.ranks))
    busy = compute + communication + straggler
    slowdown = busy * timing.slowdown if shape.nodes > 1 else 0.0
    return StepTime(
        compute_s=compute,
        communication_s=communication,
        straggler_s=straggler,
        slowdown_s=slowdown,
        input_s=max(0.0, _reading_s(shape, work, machine) - busy - slowdown),
    )


def _reading_s(shape: Shape, work: Work, machine: Machine) -> float:
    """Return the seconds in which a node can read its samples of one step while all other nodes read too."""
    if not work.sample_bytes:
        return 0.0
    of_node = shape.ranks_per_node * shape.per_rank * shape.accumulation * work.sample_bytes
    share = min(machine.file_node_gbytes_per_s, machine.file_total_gbytes_per_s / shape.nodes)
    return of_node / (share * 1e9)


@record
class Throughput:
    """Samples/s of all ranks, ``efficiency`` relative to one rank alone, the parts of a step, and the reasoning."""

    samples_per_s: Interval
    efficiency: float
    step: StepTime
    reason: Reason


def throughput(shape: Shape, work: Work, machine: Machine, timing: Timing) -> Throughput:
    """Return the samples/s of all ranks, with the uncertainty of ``timing``. Source: ``step_time``."""
    step = step_time(shape, work, machine, timing)
    alone = Shape(nodes=1, ranks_per_node=1, per_rank=shape.per_rank, accumulation=shape.accumulation)
    single = step_time(alone, work, machine, timing)
    rate = shape.samples / step.total_s
    efficiency = rate / (shape.group.ranks * alone.samples / single.total_s)
    parts = {
        "compute": step.compute_s,
        "all-reduce": step.communication_s,
        "stragglers": step.straggler_s,
        "slow-down": step.slowdown_s,
        "input": step.input_s,
    }
    origins: dict[str, Origin] = {"stragglers": timing.straggling_origin}
    slow = max((name for name in parts if name != "compute"), key=lambda name: parts[name])
    bound = "the input pipeline is too slow: the ranks wait for samples" if step.input_s > 0 else ""
    return Throughput(
        samples_per_s=spread(rate, timing.uncertainty, timing.origin),
        efficiency=efficiency,
        step=step,
        reason=Reason(
            rule="step = compute + all-reduce beyond the overlap + stragglers + slow-down + waiting for input",
            numbers=(
                *(
                    Number(name=name, value=value, unit="s", origin=origins.get(name, timing.origin))
                    for name, value in parts.items()
                ),
                Number(name="spread of a rank's steps", value=timing.straggling, origin=timing.straggling_origin),
            ),
            verdict=f"{rate:.4g} samples/s at {efficiency:.0%} efficiency; the largest loss is {slow}",
            source=SOURCE,
            warning=bound,
        ),
    )
