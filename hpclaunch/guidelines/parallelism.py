"""Data, model or model-data parallel: the guidelines' decision table, and the GPUs of a replica; pure arithmetic."""

from __future__ import annotations

import math
from typing import Literal

from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import GUIDELINES, Number, Reason, positive

Strategy = Literal["data", "model", "model-data"]
Extent = Literal["one GPU", "one node", "several nodes"]

USABLE_MEMORY = 0.92
"""Share of a GPU's memory that a model may use; fragmentation takes the rest (TensorFlow's BFC allocator)."""
USABLE_NODE_MEMORY = 0.6
"""Share of a node's memory that a data set may use: the ranks and the file system's cache need the rest."""
BEFORE_SPLITTING = ("mixed precision", "a smaller batch size per rank with accumulation", "recomputing activations")


@record
class Need:
    """Bytes of one replica at its smallest batch: those that can be split among GPUs, and those that each must hold."""

    shardable_bytes: float
    replicated_bytes: float

    def on_each(self, gpus: int) -> float:
        """Return the bytes on each of ``gpus`` GPUs that share the replica."""
        return self.shardable_bytes / gpus + self.replicated_bytes


@record
class Room:
    """The available bytes: memory of a GPU (all of it), memory of a node, and its local storage (0: none).

    ``device`` names, in words, what has the GPU memory: a GPU, or a rank's share of a node's CPUs.
    """

    gpu_bytes: float
    gpus_per_node: int
    node_bytes: float
    local_storage_bytes: float = 0.0
    device: str = "GPU"

    def __post_init__(self) -> None:
        positive(gpu_bytes=self.gpu_bytes, gpus_per_node=self.gpus_per_node, node_bytes=self.node_bytes)


@record
class Parallelism:
    """How the model is distributed: ``gpus_per_replica`` GPUs hold one replica; ``try_first`` may avoid a split."""

    strategy: Strategy
    extent: Extent
    gpus_per_replica: int
    leaves_node: bool
    shards_dataset: bool
    try_first: tuple[str, ...]
    reason: Reason


def dataset_fits_node(dataset_bytes: float | None, room: Room) -> bool:
    """Tell whether a node can hold the data set (bytes) in 0.6 of its memory or on its local storage.

    An unknown size (None) counts as too large, because a sharded data set is right in both cases. Source: guidelines,
    "dataset can fit one node"; the share is hpclaunch's own choice.
    """
    if dataset_bytes is None:
        return False
    return dataset_bytes <= max(USABLE_NODE_MEMORY * room.node_bytes, room.local_storage_bytes)


def choose_parallelism(need: Need, room: Room, dataset_bytes: float | None) -> Parallelism:
    """Return the cell of the guidelines' decision table.

    If the model fits one node: data parallel. Otherwise, if the data set fits one node: model parallel; if neither
    does: model-data parallel. A replica that one GPU cannot hold is first split inside its node. Raises Refused if the
    bytes that every GPU must hold do not fit one GPU.
    Source: guidelines, "Data parallel or model parallel decision-making".
    """
    usable = USABLE_MEMORY * room.gpu_bytes
    if need.replicated_bytes >= usable and need.on_each(1) > usable:
        raise Refused(
            Fault(
                what=f"the unsplittable part of the model needs {need.replicated_bytes / 1e9:.1f} GB on every GPU",
                allowed=f"less than {usable / 1e9:.1f} GB ({USABLE_MEMORY:.0%} of a GPU)",
                next=f"try {', '.join(BEFORE_SPLITTING)}, or a node type with more memory",
            )
        )
    gpus = _gpus_per_replica(need, usable, room.gpus_per_node)
    extent = _extent(gpus, room.gpus_per_node)
    strategy = _TABLE[extent, dataset_fits_node(dataset_bytes, room)]
    return Parallelism(
        strategy=strategy,
        extent=extent,
        gpus_per_replica=gpus,
        leaves_node=gpus > room.gpus_per_node,
        shards_dataset=strategy != "model",
        try_first=BEFORE_SPLITTING if gpus > 1 else (),
        reason=_reason(gpus, need, room, dataset_bytes),
    )


_TABLE: dict[tuple[Extent, bool], Strategy] = {
    ("one GPU", True): "data",
    ("one GPU", False): "data",
    ("one node", True): "data",
    ("one node", False): "data",
    ("several nodes", True): "model",
    ("several nodes", False): "model-data",
}


def _gpus_per_replica(need: Need, usable: float, per_node: int) -> int:
    """Return the fewest GPUs that hold a replica: a power of two that divides a node, a whole node, or whole nodes."""
    inside = [gpus for gpus in _powers_of_two(per_node) if per_node % gpus == 0]
    for gpus in sorted({*inside, per_node}):
        if need.on_each(gpus) <= usable:
            return gpus
    return math.ceil(need.shardable_bytes / (usable - need.replicated_bytes) / per_node) * per_node


def _powers_of_two(most: int) -> list[int]:
    return [1 << bit for bit in range(most.bit_length()) if 1 << bit <= most]


def _extent(gpus: int, per_node: int) -> Extent:
    if gpus == 1:
        return "one GPU"
    return "one node" if gpus <= per_node else "several nodes"


def _reason(gpus: int, need: Need, room: Room, dataset_bytes: float | None) -> Reason:
    extent, fits = _extent(gpus, room.gpus_per_node), dataset_fits_node(dataset_bytes, room)
    numbers = [
        Number(name="one replica", value=need.on_each(1), unit="bytes"),
        Number(
            name=f"usable memory of a {room.device}", value=USABLE_MEMORY * room.gpu_bytes, unit="bytes", origin="site"
        ),
        Number(name="GPUs per node", value=room.gpus_per_node, origin="site"),
        Number(name="GPUs per replica", value=gpus),
    ]
    if dataset_bytes is not None:
        numbers.append(Number(name="data set", value=dataset_bytes, unit="bytes", origin="given"))
    size = "fits" if fits else ("does not fit" if dataset_bytes is not None else "may not fit")
    place = f"one {room.device}" if extent == "one GPU" else extent
    warning = ""
    if extent == "several nodes":
        warning = (
            f"a replica on {gpus} GPUs spans nodes: its layers communicate over the network instead of the GPUs' links"
        )
    return Reason(
        rule="data parallel if the model fits one node; else model parallel if the data set does; else model-data",
        numbers=tuple(numbers),
        verdict=f"{_TABLE[extent, fits]} parallel: a replica needs {place}, and the data set {size} one node",
        source=f"{GUIDELINES}, data parallel or model parallel",
        warning=warning,
    )


def replicas(parallelism: Parallelism, nodes: int, gpus_per_node: int) -> int:
    """Return how many replicas train on ``nodes`` nodes; in the guidelines' table, model parallel means one replica.

    Raises ValueError if not even one replica fits.
    """
    found = nodes * gpus_per_node // parallelism.gpus_per_replica
    if found < 1:
        raise ValueError(f"a replica needs {parallelism.gpus_per_replica} GPUs, but there are {nodes * gpus_per_node}")
    return 1 if parallelism.strategy == "model" else found
