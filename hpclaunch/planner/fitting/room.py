"""The memory of a rank and of its node: all that is needed to tell whether a model fits, and so light to import."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.config.site import NodeType
from hpclaunch.core.spec import Layout
from hpclaunch.guidelines.parallelism import Room

GB, MB = 2**30, 2**20
"""Bytes: memory is built, sold and counted by Slurm and drivers in powers of two; an A100 of 40 GB has 40 x 2^30."""


def computes_on_gpus(layout: Layout) -> bool:
    """Whether the ranks compute on GPUs, or else on CPUs."""
    return layout.gpus_per_node > 0 and not layout.stand_in_gpus


def room_of(node: NodeType, layout: Layout) -> Room | None:
    """Return the memory of a rank's GPU, or of its share of the node; None if the site file does not know it.

    A test cluster may give its stand-in GPUs a memory that they do not have. The libraries need nothing of it.
    """
    on_gpus, device = computes_on_gpus(layout), _device_bytes(node, layout)
    if device is None:
        return None
    pretended = _pretended_bytes(node, layout) is not None
    room = Room(
        gpu_bytes=device,
        gpus_per_node=layout.tasks_per_node,
        node_bytes=_node_bytes(node) or 1.0,
        device="GPU" if on_gpus or pretended else "rank's share of the node",
    )
    return replace(room, taken_bytes=0.0) if pretended else room


def unknown_memory(node: NodeType, layout: Layout) -> tuple[str, ...]:
    """Return a line on a memory that the site file does not know, and what is assumed instead."""
    if _device_bytes(node, layout) is None:
        whose = "a GPU" if computes_on_gpus(layout) else "a node"
        return (f"memory of {whose}: not known; the model is taken to fit, and the batch per rank is not increased",)
    return () if _node_bytes(node) else ("memory of a node: not known; the data set counts as too large for it",)


def _device_bytes(node: NodeType, layout: Layout) -> float | None:
    if computes_on_gpus(layout):
        return node.gpu_memory_gb * GB if node.gpu_memory_gb else None
    return _pretended_bytes(node, layout) or (node.memory_gb * GB / layout.tasks_per_node if node.memory_gb else None)


def _pretended_bytes(node: NodeType, layout: Layout) -> float | None:
    wanted = layout.gpus_per_node > 0 and node.stand_in_gpus
    return node.stand_in_gpu_memory * MB if wanted and node.stand_in_gpu_memory else None


def _node_bytes(node: NodeType) -> float | None:
    if node.stand_in_gpus and node.stand_in_node_memory:
        return node.stand_in_node_memory * MB
    return node.memory_gb * GB if node.memory_gb else None
