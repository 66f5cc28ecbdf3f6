"""The nodes as a probe job's ranks saw them: NUMA nodes, GPUs, network cards, and where each rank ran. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hpclaunch.actions.clusters.diagnosis.evidence import Check, Facts, ProbeEvidence
from hpclaunch.core.records import record

AFFINITY = "GPU affinity"
MOST_CPUS, LONGEST_LIST = 2**16, 2**13
"""No node has a CPU of a larger number, or a list of them with more characters."""


@record
class NumaNode:
    """A NUMA node: its CPUs as the kernel lists them, and its memory."""

    number: int
    cpus: str
    gbytes: float


@record
class NodeGpu:
    """A GPU of a node, by its PCI address; ``numa`` is None if it is not known."""

    address: str
    vendor: str
    model: str
    numa: int | None


@record
class NetworkCard:
    """A network card of a node. ``gbits``: Gbit/s of its link, None if it is down or does not say it."""

    names: tuple[str, ...]
    address: str
    numa: int | None
    gbits: float | None
    up: bool


@record
class RankPlace:
    """Where a rank ran: its CPUs and their NUMA nodes, and its GPU's PCI address (empty: none, or not known)."""

    rank: int
    cpus: str
    numa: tuple[int, ...]
    gpu: str


@record
class NodeTopology:
    """A node. ``links``: pairs of GPUs by address, and the type of link. ``alike``: other hosts of the same kind."""

    host: str
    numa: tuple[NumaNode, ...]
    gpus: tuple[NodeGpu, ...]
    cards: tuple[NetworkCard, ...]
    links: tuple[tuple[str, str, str], ...]
    ranks: tuple[RankPlace, ...]
    alike: tuple[str, ...] = ()

    def gpu(self, address: str) -> NodeGpu | None:
        """Return the GPU at an address."""
        return next((gpu for gpu in self.gpus if gpu.address == address), None)

    def gpu_number(self, address: str) -> int | None:
        """Return the place of a GPU among those of the node, in the order of their addresses."""
        return next((number for number, gpu in enumerate(self.gpus) if gpu.address == address), None)


def topologies(ranks: Sequence[Facts]) -> tuple[NodeTopology, ...]:
    """Return the nodes, in the order of their first ranks; of nodes that are alike only the first."""
    found: list[NodeTopology] = []
    for host in dict.fromkeys(str(rank.get("host", "")) for rank in ranks):
        here = [rank for rank in ranks if rank.get("host") == host and "numa" in rank.get("topology", {})]
        if not here:
            continue
        node = _node_of(host, here)
        same = next((number for number, other in enumerate(found) if _kind(other) == _kind(node)), None)
        if same is None:
            found.append(node)
        else:
            found[same] = replace(found[same], alike=(*found[same].alike, host))
    return tuple(found)


def _kind(node: NodeTopology) -> tuple[Any, ...]:
    """Return what nodes of one kind have in common; their memory differs by a little, and rates are those of links."""
    places = tuple((place.numa, place.gpu) for place in node.ranks)
    numa = tuple((one.number, one.cpus, round(one.gbytes, -1)) for one in node.numa)
    return numa, node.gpus, node.cards, node.links, places


def _node_of(host: str, here: Sequence[Facts]) -> NodeTopology:
    known = here[0]["topology"]
    numa = tuple(
        NumaNode(number=int(one["number"]), cpus=str(one["cpus"]), gbytes=int(one["bytes"]) / 1e9)
        for one in known["numa"]
    )
    links = max((rank["topology"]["links"] for rank in here), key=len)  # not every rank asks for them
    return NodeTopology(
        host=host,
        numa=numa,
        gpus=tuple(map(_gpu_of, known["gpus"])),
        cards=tuple(map(_card_of, known["cards"])),
        links=tuple((str(one), str(other), str(kind)) for one, other, kind in links),
        ranks=tuple(_place_of(rank, numa) for rank in here),
    )


def _gpu_of(known: Mapping[str, Any]) -> NodeGpu:
    return NodeGpu(
        address=str(known["address"]),
        vendor=str(known["vendor"]),
        model=str(known["model"]),
        numa=None if known["numa"] is None else int(known["numa"]),
    )


def _card_of(known: Mapping[str, Any]) -> NetworkCard:
    if known["gbits"] is not None and not math.isfinite(known["gbits"]):
        raise ValueError("the speed of a network card is a number")
    return NetworkCard(
        names=tuple(map(str, known["names"])),
        address=str(known["address"]),
        numa=None if known["numa"] is None else int(known["numa"]),
        gbits=None if known["gbits"] is None else float(known["gbits"]),
        up=bool(known["up"]),
    )


def _place_of(rank: Facts, numa: Sequence[NumaNode]) -> RankPlace:
    cpus = {int(cpu) for cpu in rank["cpus"]}
    return RankPlace(
        rank=int(rank["rank"] or 0),
        cpus=cpu_list(cpus),
        numa=tuple(one.number for one in numa if cpus & cpus_in(one.cpus)),
        gpu=str(rank["topology"].get("gpu") or ""),
    )


def cpus_in(text: str) -> set[int]:
    """Return the numbers of a list of CPUs: ``0-3,8`` -> {0, 1, 2, 3, 8}. Raises ValueError for any other text."""
    found: set[int] = set()
    if len(text) > LONGEST_LIST:
        raise ValueError("the list of CPUs is too long")
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if int(last or first) > MOST_CPUS:
            raise ValueError(f"no node has the CPU {last or first}")
        found.update(range(int(first), int(last or first) + 1))
    return found


def cpu_list(cpus: set[int]) -> str:
    """Return CPUs as the kernel lists them: {0, 1, 2, 3, 8} -> ``0-3,8``."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][1] + 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in parts)


def affinity_check(evidence: ProbeEvidence) -> Check | None:
    """Return whether the CPUs of every rank are near its GPU; None if that is known of no rank."""
    known = 0
    for node in topologies(evidence.ranks):
        for place in node.ranks:
            gpu = node.gpu(place.gpu)
            if gpu is None or gpu.numa is None or not place.numa:
                continue
            known += 1
            if gpu.numa not in place.numa:
                return _far_check(evidence, node, place, gpu)
    if not known:
        return None
    return Check(name=AFFINITY, verdict="PASS", what="every rank has CPUs in the NUMA node of its GPU")


def _far_check(evidence: ProbeEvidence, node: NodeTopology, place: RankPlace, gpu: NodeGpu) -> Check:
    own = ", ".join(map(str, place.numa))
    what = (
        f"rank {place.rank} on {node.host} runs on CPUs {place.cpus} of NUMA node {own}, but its GPU {gpu.address} is "
        f"in NUMA node {gpu.numa}: what it copies to the GPU takes the longer way"
    )
    near = [found.numa for place in node.ranks if (found := node.gpu(place.gpu)) and found.numa is not None]
    hint, launcher = "", evidence.launcher
    if launcher.numa_binding and len(near) == len(node.ranks):
        hint = launcher.numa_binding.format(nodes=",".join(map(str, near)))
    return Check(name=AFFINITY, verdict="WARN", what=what, next=hint or launcher.binding_hint)
