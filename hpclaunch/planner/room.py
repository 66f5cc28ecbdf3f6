"""The memory of a rank and of its node: all that is needed to tell whether a model fits, and so light to import."""

from __future__ import annotations

from hpclaunch.config.site import NodeType
from hpclaunch.core.spec import Layout
from hpclaunch.guidelines.parallelism import Room

GB = 1e9


def computes_on_gpus(layout: Layout) -> bool:
    """Whether the ranks compute on GPUs, or else on CPUs."""
    return layout.gpus_per_node > 0 and not layout.stand_in_gpus


def room_of(node: NodeType, layout: Layout) -> Room | None:
    """Return the memory of a rank's GPU, or of its share of the node; None if the site file does not know it."""
    on_gpus, device = computes_on_gpus(layout), _device_bytes(node, layout)
    if device is None:
        return None
    return Room(
        gpu_bytes=device,
        gpus_per_node=layout.tasks_per_node,
        node_bytes=node.memory_gb * GB if node.memory_gb else 1.0,
        device="GPU" if on_gpus else "rank's share of the node",
    )


def unknown_memory(node: NodeType, layout: Layout) -> tuple[str, ...]:
    """Return a line on a memory that the site file does not know, and what is assumed instead."""
    if _device_bytes(node, layout) is None:
        whose = "a GPU" if computes_on_gpus(layout) else "a node"
        return (f"memory of {whose}: not known; the model is taken to fit, and the batch per rank is not increased",)
    return () if node.memory_gb else ("memory of a node: not known; the data set counts as too large for it",)


def _device_bytes(node: NodeType, layout: Layout) -> float | None:
    if computes_on_gpus(layout):
        return node.gpu_memory_gb * GB if node.gpu_memory_gb else None
    return node.memory_gb * GB / layout.tasks_per_node if node.memory_gb else None
