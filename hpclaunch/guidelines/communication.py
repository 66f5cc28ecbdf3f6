"""Time of an all-reduce from latency and bandwidth of a site's links: ring, tree, hierarchical; it sends nothing."""

from __future__ import annotations

import math
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.collectives import HOROVOD, Collectives
from hpclaunch.guidelines.reasoning import Number, Reason, positive

Algorithm = Literal["none", "ring", "tree", "hierarchical"]

GIGA, MILLI, MICRO = 1e9, 1e-3, 1e-6
PCIE_GBYTES_PER_S = 15.75
"""One direction of PCIe 3.0 x16 by its standard: the default where the GPUs' links are not known."""
ACHIEVED_INSIDE = 0.8
"""Share of the links' bandwidth that an all-reduce inside a node reaches: the lower end in nccl-tests."""
HOST_GBYTES_PER_S = 10.0
WIRE = 0.85
"""What every library reaches of a slower network, which does not slow the copies inside the node: the lesser of those
10 GB/s and what nccl-tests reaches (0.8 to 0.9 of the network cards)."""
FUSION_BYTES = 128 * 2**20
"""The most bytes that Horovod 0.28.1 reduces at once: its fusion buffer."""
TREE_BANDWIDTH = 0.92
BASE_S = 8.4e-6
NVLINK_RING_S, NVLINK_TREE_S, PCI_S, NETWORK_S = 3.4e-6, 4.0e-6, 5.7e-6, 14.0e-6
"""Latencies of NCCL's "simple" protocol, which large messages use (NVIDIA/nccl @5067397, src/graph/tuning.cc)."""
NCCL = "NVIDIA/nccl @5067397, src/graph/tuning.cc; nccl-tests PERFORMANCE.md"

CYCLE_S, SPLIT_CYCLE_S = 1e-3, 0.1e-3
"""Horovod's pause between two looks for work: its default, and that of ranks that share a model."""
NO_CYCLE_S, DEPENDENT_S = 0.037e-3, 0.214e-3
"""Measured time of one of many dependent Horovod all-reduces of 4 KiB, without the pause and with that of ranks that
share a model. With the default pause it is 1.126 ms."""


@record
class Group:
    """The ranks that reduce a gradient: nodes x ranks per node."""

    nodes: int
    per_node: int

    def __post_init__(self) -> None:
        positive(nodes=self.nodes, per_node=self.per_node)

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.nodes * self.per_node


@record
class MeasuredLink:
    """Measured all-reduces of a group: latency (s), and the bandwidth that a ring of them needs (bytes/s).

    ``spread``: standard deviation of the logarithm of the bandwidth that a training reaches. ``on_gpus``: the values
    were in the memory of GPUs. ``origin``: which run measured it, in words.
    """

    group: Group
    latency_s: float
    bytes_per_s: float
    spread: float
    on_gpus: bool = False
    origin: str = ""

    def __post_init__(self) -> None:
        positive(bytes_per_s=self.bytes_per_s)

    @property
    def words(self) -> str:
        """Bandwidth and latency in words: ``17.3 GB/s, latency 61 us``."""
        long = self.latency_s >= MILLI
        latency = f"{self.latency_s / MILLI:.3g} ms" if long else f"{self.latency_s / MICRO:.3g} us"
        return f"{self.bytes_per_s / GIGA:.3g} GB/s, latency {latency}"


@record
class Links:
    """Nominal bandwidths in GB/s, one direction: all links of one GPU (None: not known), all network cards of a node.

    ``nvlink``: the GPUs' links are faster than PCIe (NVLink, xGMI). ``node_known``: the site file gives the bandwidth
    of the network cards; otherwise it is assumed. ``inside`` and ``between``: what was measured of an all-reduce in a
    node and among nodes; it replaces the nominal bandwidth. ``library``: what reduces the gradients.
    """

    gpu_gbytes_per_s: float | None
    node_gbytes_per_s: float
    nvlink: bool = True
    node_known: bool = True
    inside: MeasuredLink | None = None
    between: MeasuredLink | None = None
    library: Collectives = HOROVOD

    def __post_init__(self) -> None:
        positive(node_gbytes_per_s=self.node_gbytes_per_s)

    @property
    def inside_bytes_per_s(self) -> float:
        """Bytes/s of an all-reduce among the GPUs of a node."""
        if self.inside is not None:
            return self.inside.bytes_per_s
        return ACHIEVED_INSIDE * (self.gpu_gbytes_per_s or PCIE_GBYTES_PER_S) * GIGA

    @property
    def between_bytes_per_s(self) -> float:
        """Bytes/s of an all-reduce among nodes."""
        if self.between is not None:
            return self.between.bytes_per_s
        through_host = max(self.library.share * self.node_gbytes_per_s, HOST_GBYTES_PER_S)
        return min(WIRE * self.node_gbytes_per_s, through_host) * GIGA

    @property
    def dependent_s(self) -> float:
        """Seconds of a small all-reduce in a node that depends on the one before, among ranks that share a model.

        The measured latency contains Horovod's default pause, of which such ranks wait for a tenth alone.
        """
        if self.inside is None:
            return DEPENDENT_S
        return max(NO_CYCLE_S, self.inside.latency_s - (CYCLE_S - SPLIT_CYCLE_S))

    def latency_s(self, group: Group, size: float) -> float:
        """Return the latency in seconds of reducing ``size`` bytes: the measured one, else that of NCCL's model.

        For another group than the measured one, the model's difference between the two is added. So what the model does
        not know (Horovod's cycle, a slower network) is the same for any number of ranks.
        """
        model = latency_s(group, size, nvlink=self.nvlink)
        known = self.inside if group.nodes == 1 else self.between
        if known is None:
            return model
        more = known.latency_s - latency_s(known.group, 1, nvlink=self.nvlink)
        return max(0.0, model + math.ceil(size / FUSION_BYTES) * more)


@record
class AllReduce:
    """One all-reduce in seconds: ``latency_s`` of its messages, ``transfer_s`` of its bytes."""

    algorithm: Algorithm
    latency_s: float
    transfer_s: float

    @property
    def total_s(self) -> float:
        """Seconds of both together."""
        return self.latency_s + self.transfer_s


def ring_bytes(size: float, ranks: int) -> float:
    """Return the bytes that one rank sends in a ring all-reduce of ``size`` bytes: 2 (p - 1) / p x size.

    Source: nccl-tests PERFORMANCE.md; this is the optimum (Patarasuk and Yuan 2009).
    """
    return 2 * (ranks - 1) / ranks * size


def ring_latency_s(group: Group, *, nvlink: bool = True) -> float:
    """Return the latency of a ring in seconds: 2 (p - 1) steps, 2 (n - 1) of them between nodes (NCCL's model)."""
    if group.ranks == 1:
        return 0.0
    inside = NVLINK_RING_S if nvlink else PCI_S
    between = 2 * (group.nodes - 1)
    return BASE_S + (2 * (group.ranks - 1) - between) * inside + between * NETWORK_S


def tree_latency_s(group: Group, *, nvlink: bool = True) -> float:
    """Return the latency of a tree in seconds: a chain in each node, log2(n) hops between nodes (NCCL's model)."""
    if group.ranks == 1:
        return 0.0
    inside = NVLINK_TREE_S if nvlink else PCI_S
    return BASE_S + 2 * ((group.per_node - 1) * inside + math.log2(group.nodes) * NETWORK_S)


def latency_s(group: Group, size: float, *, nvlink: bool = True) -> float:
    """Return the latency in seconds of reducing ``size`` bytes: that of the faster of ring and tree, per fusion buffer.

    Source: NCCL chooses between the two; Horovod reduces one fusion buffer (128 MiB) after another.
    """
    buffers = math.ceil(size / FUSION_BYTES)
    return buffers * min(ring_latency_s(group, nvlink=nvlink), tree_latency_s(group, nvlink=nvlink))


def ring(size: float, group: Group, links: Links) -> AllReduce:
    """Return the time of a flat ring over all ranks, at the bandwidth of its slowest level (NCCL's model)."""
    if group.ranks == 1:
        return AllReduce(algorithm="none", latency_s=0.0, transfer_s=0.0)
    return AllReduce(
        algorithm="ring",
        latency_s=ring_latency_s(group, nvlink=links.nvlink),
        transfer_s=ring_bytes(size, group.ranks) / _slowest(group, links),
    )


def tree(size: float, group: Group, links: Links) -> AllReduce:
    """Return the time of a double binary tree over the nodes.

    Every byte goes up and down once, at 0.92 of a ring's bandwidth.

    Source: NCCL's model (all-reduce by tree counts 2 x size).
    """
    if group.ranks == 1:
        return AllReduce(algorithm="none", latency_s=0.0, transfer_s=0.0)
    return AllReduce(
        algorithm="tree",
        latency_s=tree_latency_s(group, nvlink=links.nvlink),
        transfer_s=2 * size / (TREE_BANDWIDTH * _slowest(group, links)),
    )


def hierarchical(size: float, group: Group, links: Links) -> AllReduce:
    """Return the time of reduce-scatter in every node, all-reduce of each part between nodes, all-gather in every node.

    2 (g - 1) / g x size / inside + 2 (n - 1) / n x (size / g) / (between / g), where each GPU has its share of the
    network. It is worth it only on a weak network, since NCCL's ring uses all network cards anyway.
    Source: Horovod's HOROVOD_HIERARCHICAL_ALLREDUCE.
    """
    if group.ranks == 1:
        return AllReduce(algorithm="none", latency_s=0.0, transfer_s=0.0)
    inside = Group(nodes=1, per_node=group.per_node)
    between = Group(nodes=group.nodes, per_node=1)
    transfer = ring_bytes(size, inside.ranks) / links.inside_bytes_per_s
    transfer += ring_bytes(size, between.ranks) / links.between_bytes_per_s
    latency = ring_latency_s(inside, nvlink=links.nvlink) + ring_latency_s(between, nvlink=links.nvlink)
    return AllReduce(algorithm="hierarchical", latency_s=latency, transfer_s=transfer)


def _slowest(group: Group, links: Links) -> float:
    if group.nodes == 1:
        return links.inside_bytes_per_s
    if group.per_node == 1:
        return links.between_bytes_per_s
    return min(links.inside_bytes_per_s, links.between_bytes_per_s)


@record
class Communication:
    """The fastest all-reduce, the others, and why."""

    best: AllReduce
    others: tuple[AllReduce, ...]
    reason: Reason


def all_reduce(size: float, group: Group, links: Links) -> Communication:
    """Return the all-reduce of ``size`` bytes by every algorithm, the fastest first. Raises ValueError for no bytes."""
    positive(size=size)
    times = sorted((way(size, group, links) for way in (ring, tree, hierarchical)), key=lambda time: time.total_s)
    best = times[0]
    return Communication(
        best=best,
        others=tuple(times[1:]),
        reason=Reason(
            rule="time of an all-reduce = latency + bytes / bandwidth",
            numbers=(
                Number(name="gradient", value=size, unit="bytes", origin="given"),
                Number(name="ranks", value=group.ranks),
                Number(name="inside a node", value=links.inside_bytes_per_s / GIGA, unit="GB/s", origin="site"),
                Number(name="between nodes", value=links.between_bytes_per_s / GIGA, unit="GB/s", origin="site"),
            ),
            verdict=f"{best.algorithm}: {best.total_s * 1e3:.3g} ms, {best.latency_s * 1e3:.3g} ms of it latency",
            source=NCCL,
        ),
    )
