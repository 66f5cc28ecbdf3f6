"""A site's nodes as the models describe them; a value that the site file lacks is assumed, with a line that says so."""

from __future__ import annotations

from hpclaunch.config.site import NodeType
from hpclaunch.core.records import record
from hpclaunch.core.spec import Layout
from hpclaunch.guidelines.communication import HOST_GBYTES_PER_S, PCIE_GBYTES_PER_S, WIRE, Links
from hpclaunch.guidelines.devices import cpu_named, gpu_named
from hpclaunch.guidelines.hardware import Device, device_of_cpu, device_of_gpu
from hpclaunch.guidelines.parallelism import Room
from hpclaunch.planner.room import computes_on_gpus, room_of, unknown_memory


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


def node_of(node: NodeType, layout: Layout) -> NodeModel:
    """Return the node for the ranks of a layout: each has one GPU, or a share of the node's CPUs and memory."""
    assumed: list[str] = []
    on_gpus = computes_on_gpus(layout)
    model = (node.gpu_model or "a GPU") if on_gpus else (node.cpu or "CPUs")
    return NodeModel(
        ranks=layout.tasks_per_node,
        on_gpus=on_gpus,
        speed=_device_of(node, layout, on_gpus),
        device=model,
        cores=node.cores,
        links=_links(node, on_gpus, assumed),
        room=room_of(node, layout),
        assumed=(*assumed, *unknown_memory(node, layout)),
    )


def _device_of(node: NodeType, layout: Layout, on_gpus: bool) -> Device | None:
    """Return the device of a rank."""
    if on_gpus:
        gpu = gpu_named(node.gpu_model, node.gpu_memory_gb)
        return device_of_gpu(gpu) if gpu else None
    cpu, cores = cpu_named(node.cpu), node.cores
    return device_of_cpu(cpu, cores, node.sockets or 1, layout.tasks_per_node) if cpu and cores else None


def _links(node: NodeType, on_gpus: bool, assumed: list[str]) -> Links:
    links = node.gpu_links
    inside = links.gpu_gbytes_per_s or links.pair_gbytes_per_s if links else None
    nvlink = links is not None and not links.type.startswith("PCI")
    if on_gpus and node.gpus_per_node > 1 and not inside:
        assumed.append(f"links of the GPUs: not known; {PCIE_GBYTES_PER_S} GB/s, as PCIe 3.0 x16")
    network = _network_of(node, assumed)
    known = network is not None
    if network is None:
        network = HOST_GBYTES_PER_S / WIRE
        assumed.append(f"network of a node: not known; an all-reduce at {HOST_GBYTES_PER_S:g} GB/s")
    return Links(gpu_gbytes_per_s=inside or None, node_gbytes_per_s=network, nvlink=nvlink, node_known=known)


def _network_of(node: NodeType, assumed: list[str]) -> float | None:
    """Return the GB/s of all network cards of a node, or None if they are not known."""
    nics = node.nics
    if nics is None or not nics.gbytes_per_s_each:
        return None
    if nics.count:
        return nics.count * nics.gbytes_per_s_each
    assumed.append(f"network cards of a node: their number is not known; one card of {nics.gbytes_per_s_each:g} GB/s")
    return nics.gbytes_per_s_each
