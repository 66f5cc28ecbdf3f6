"""A site's nodes as the models describe them; a value that the site file lacks is assumed, with a line that says so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.config.site import NodeType
from hpclaunch.core.records import record
from hpclaunch.core.spec import Layout
from hpclaunch.core.units import count
from hpclaunch.guidelines.collectives import GLOO, NCCL, RCCL, Collectives
from hpclaunch.guidelines.communication import GIGA, HOST_GBYTES_PER_S, PCIE_GBYTES_PER_S, WIRE, Links, MeasuredLink
from hpclaunch.guidelines.devices import cpu_named, gpu_named
from hpclaunch.guidelines.hardware import (
    Device,
    MeasuredDevice,
    device_as_measured,
    device_of_cpu,
    device_of_gpu,
)
from hpclaunch.guidelines.parallelism import Room
from hpclaunch.guidelines.reasoning import Number, Reason
from hpclaunch.planner.fitting.room import computes_on_gpus, room_of, unknown_memory
from hpclaunch.planner.job.question import Question


@record
class NodeModel:
    """A node as the models describe it; ``speed`` and ``room`` are None if those of its device are not known.

    ``on_gpus``: whether the ranks compute on GPUs, or else on CPUs; ``speed``: that of a rank's GPU, or of its share of
    the CPUs. ``cores``: those of a node, for decoding samples (None: not known). ``assumed``: lines on values that the
    site file lacks, and on the values used instead.
    """

    ranks: int
    on_gpus: bool
    speed: Device | None
    device: str
    cores: int | None
    links: Links
    room: Room | None
    assumed: tuple[str, ...]


def node_for(question: Question, node_type: str, layout: Layout) -> NodeModel:
    """Return a node of the question's site for the ranks of a layout, with what was measured there (`node_of`)."""
    node, evidence = question.case.node(node_type), question.evidence
    return node_of(node, layout, evidence.links, devices=evidence.devices, calls_nccl=question.calls_nccl)


def node_of(
    node: NodeType,
    layout: Layout,
    measured: Sequence[MeasuredLink] = (),
    *,
    devices: Sequence[MeasuredDevice] = (),
    calls_nccl: bool = False,
) -> NodeModel:
    """Return the node for the ranks of a layout: each has one GPU, or a share of the node's CPUs and memory.

    ``measured``: the all-reduces that were measured on such nodes. Those of as many ranks per node replace the nominal
    bandwidth of the links; of several node counts, the largest does. ``devices``: the measured ones, which count where
    the device is not known. ``calls_nccl``: the ranks reduce gradients as PyTorch and JAX do, and not through Horovod.
    """
    assumed: list[str] = []
    on_gpus = computes_on_gpus(layout)
    model = (node.gpu_model or "a GPU") if on_gpus else (node.cpu or "CPUs")
    links = _links(node, on_gpus, assumed, _measured_here(measured, layout, on_gpus))
    return NodeModel(
        ranks=layout.tasks_per_node,
        on_gpus=on_gpus,
        speed=_device_of(node, layout, on_gpus) or _measured_device(devices, layout, on_gpus, model),
        device=model,
        cores=node.cores,
        links=replace(links, library=_library_of(node, on_gpus)) if calls_nccl else links,
        room=room_of(node, layout),
        assumed=(*assumed, *unknown_memory(node, layout)),
    )


def _library_of(node: NodeType, on_gpus: bool) -> Collectives:
    """Return what PyTorch and JAX reduce gradients with on a node type; it has NCCL's interface on GPUs of AMD."""
    if not on_gpus:
        return GLOO
    return RCCL if re.search(r"\bMI\d", node.gpu_model or "") else NCCL


def share_of_node(node: NodeType, layout: Layout) -> float:
    """Return the part of a node's cores that a job with this layout has: that of its GPUs, or all of a whole node."""
    if layout.whole_nodes or not computes_on_gpus(layout) or not node.gpus_per_node:
        return 1.0
    return min(1.0, layout.gpus_per_node / node.gpus_per_node)


def _device_of(node: NodeType, layout: Layout, on_gpus: bool) -> Device | None:
    """Return the device of a rank."""
    if on_gpus:
        gpu = gpu_named(node.gpu_model, node.gpu_memory_gb)
        return device_of_gpu(gpu) if gpu else None
    cpu, cores = cpu_named(node.cpu), node.cores
    return device_of_cpu(cpu, cores, node.sockets or 1, layout.tasks_per_node) if cpu and cores else None


def _measured_device(devices: Sequence[MeasuredDevice], layout: Layout, on_gpus: bool, model: str) -> Device | None:
    """Return a device as it was measured; ranks on CPUs share them, so that equally many of a node were measured."""
    alike = [
        one for one in devices if one.on_gpus == on_gpus and (on_gpus or one.ranks_per_node == layout.tasks_per_node)
    ]
    return device_as_measured(model, alike[-1]) if alike else None


def _measured_here(
    measured: Sequence[MeasuredLink], layout: Layout, on_gpus: bool
) -> tuple[MeasuredLink | None, MeasuredLink | None]:
    """Return what was measured of such ranks in a node, and among the most nodes."""
    ranks = layout.tasks_per_node
    alike = sorted(
        (link for link in measured if link.group.per_node == ranks and link.on_gpus == on_gpus),
        key=lambda link: link.group.nodes,
    )
    inside = [link for link in alike if link.group.nodes == 1]
    between = [link for link in alike if link.group.nodes > 1]
    return (inside[-1] if inside else None), (between[-1] if between else None)


def _links(
    node: NodeType, on_gpus: bool, assumed: list[str], measured: tuple[MeasuredLink | None, MeasuredLink | None]
) -> Links:
    links, (measured_inside, measured_between) = node.gpu_links, measured
    inside = links.gpu_gbytes_per_s or links.pair_gbytes_per_s if links else None
    nvlink = links is not None and not links.type.startswith("PCI")
    if on_gpus and node.gpus_per_node > 1 and not inside and measured_inside is None:
        assumed.append(f"links of the GPUs: not known; {PCIE_GBYTES_PER_S} GB/s, as PCIe 3.0 x16")
    network = _network_of(node, assumed)
    known = network is not None
    if network is None:
        network = HOST_GBYTES_PER_S / WIRE
        if measured_between is None:
            nothing = "not known (hpclaunch doctor measures it)"
            assumed.append(f"network of a node: {nothing}; an all-reduce at {HOST_GBYTES_PER_S:g} GB/s")
    return Links(
        gpu_gbytes_per_s=inside or None,
        node_gbytes_per_s=network,
        nvlink=nvlink,
        node_known=known,
        inside=measured_inside,
        between=measured_between,
    )


def links_in_words(links: Links) -> tuple[str, ...]:
    """Return a line for every measured all-reduce, with its mark of trust."""
    marks = ((links.inside, "one node measured"), (links.between, "measured at scale"))
    return tuple(f"all-reduce of {_link_words(link)} ({link.origin}; {mark})" for link, mark in marks if link)


def _link_words(link: MeasuredLink) -> str:
    ranks = f"{count(link.group.nodes, 'node')} x {count(link.group.per_node, 'rank')}"
    return f"{ranks}: {link.words}"


def link_reasons(links: Links) -> list[Reason]:
    """Return why the measured all-reduces count instead of the site file's links."""
    nominal = replace(links, inside=None, between=None)
    pairs = (
        ("inside a node", links.inside, nominal.inside_bytes_per_s),
        ("between nodes", links.between, nominal.between_bytes_per_s),
    )
    return [
        Reason(
            rule="an all-reduce takes its latency + 2 (p - 1) / p x bytes / bandwidth, both as measured",
            numbers=(
                Number(name="ranks", value=link.group.ranks, origin="profile"),
                Number(name="latency", value=link.latency_s * 1e6, unit="us", origin="profile"),
                Number(name=f"bandwidth {where}", value=link.bytes_per_s / GIGA, unit="GB/s", origin="profile"),
            ),
            verdict=f"{link.bytes_per_s / GIGA:.3g} GB/s {where}, instead of {expected / GIGA:.3g}",
            source=f"hpclaunch doctor: {link.origin}; nccl-tests PERFORMANCE.md",
        )
        for where, link, expected in pairs
        if link
    ]


def _network_of(node: NodeType, assumed: list[str]) -> float | None:
    """Return the GB/s of all network cards of a node, or None if they are not known."""
    nics = node.nics
    if nics is None or not nics.gbytes_per_s_each:
        return None
    if nics.count:
        return nics.count * nics.gbytes_per_s_each
    assumed.append(f"network cards of a node: their number is not known; one card of {nics.gbytes_per_s_each:g} GB/s")
    return nics.gbytes_per_s_each
