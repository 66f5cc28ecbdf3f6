"""Data, model or model-data parallel: the guidelines' decision table, and how a replica is split; pure arithmetic."""

from __future__ import annotations

import math
from typing import Literal

from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import GUIDELINES, Number, Reason, positive

Strategy = Literal["data", "model", "model-data"]
Extent = Literal["one GPU", "one node", "several nodes"]

USABLE_MEMORY = 0.92
"""Share of a GPU's memory that a model may fill; the rest is lost to fragmentation (TensorFlow's BFC allocator)."""
USABLE_NODE_MEMORY = 0.6
"""Share of a node's memory that a data set may fill: the ranks and the file system's cache need the rest."""
BEFORE_SPLITTING = ("mixed precision", "a smaller batch size per rank with accumulation", "recomputing activations")


@record
class Need:
    """What one replica needs at its smallest batch, bytes: what can be split among GPUs, and what each must hold."""

    shardable_bytes: float
    replicated_bytes: float

    def on_each(self, gpus: int) -> float:
        """Bytes on each of ``gpus`` GPUs that share the replica."""
        return self.shardable_bytes / gpus + self.replicated_bytes


@record
class Room:
    """What there is, bytes: memory of a GPU (all of it), memory of a node, and its local storage (0: none).

    ``device``: what computes for a rank, in words, and has that memory: a GPU, or a rank's share of a node's CPUs.
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
    """How the model is spread: ``gpus_per_replica`` hold one replica; ``try_first`` may spare splitting it."""

    strategy: Strategy
    extent: Extent
    gpus_per_replica: int
    leaves_node: bool
    shards_dataset: bool
    try_first: tuple[str, ...]
    reason: Reason


def dataset_fits_node(dataset_bytes: float | None, room: Room) -> bool:
    """Tell whether a node can hold the data set (bytes) in 0.6 of its memory or on its local storage; None: not known.

    What is not known counts as too large, since a sharded data set is right either way. Source: the guidelines'
    "dataset can fit one node"; the share is hpclaunch's own.
    """
    if dataset_bytes is None:
        return False
    return dataset_bytes <= max(USABLE_NODE_MEMORY * room.node_bytes, room.local_storage_bytes)


def choose_parallelism(need: Need, room: Room, dataset_bytes: float | None) -> Parallelism:
    """Return the cell of the guidelines' decision table.

    Fits one node: data parallel. Does not, and the data set fits one: model parallel. Neither: model-data parallel.
    A replica that one GPU cannot hold is split inside its node first. Raises Refused if what every GPU must hold
    does not fit one. Source: guidelines, "Data parallel or model parallel decision-making".
    """
    usable = USABLE_MEMORY * room.gpu_bytes
    if need.replicated_bytes >= usable and need.on_each(1) > usable:
        raise Refused(
            Fault(
                what=f"what cannot be split of the model needs {need.replicated_bytes / 1e9:.1f} GB on every GPU",
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
    """The fewest GPUs that hold a replica: a power of two that divides the node, then all of it, then whole nodes."""
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
            f"a replica on {gpus} GPUs leaves the node: its layers speak over the network instead of the GPUs' links"
        )
    return Reason(
        rule="the model fits one node: data parallel; only the data set does: model; neither: model-data",
        numbers=tuple(numbers),
        verdict=f"{_TABLE[extent, fits]} parallel: a replica takes {place}, the data set {size} one node",
        source=f"{GUIDELINES}, data parallel or model parallel",
        warning=warning,
    )


def replicas(parallelism: Parallelism, nodes: int, gpus_per_node: int) -> int:
    """Return how many replicas train on that many nodes. Model parallel is one replica by the guidelines' table.

    Raises ValueError if not even one fits.
    """
    found = nodes * gpus_per_node // parallelism.gpus_per_replica
    if found < 1:
        raise ValueError(f"a replica takes {parallelism.gpus_per_replica} GPUs, and {nodes * gpus_per_node} are there")
    return 1 if parallelism.strategy == "model" else found
