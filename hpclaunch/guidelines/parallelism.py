"""Data, model or model-data parallel: the guidelines' decision table, and the GPUs of a replica; pure arithmetic."""

from __future__ import annotations

from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import GUIDELINES, Number, Reason, positive

Strategy = Literal["data", "model", "model-data"]
Extent = Literal["one GPU", "one node", "several nodes"]

USABLE_MEMORY = 0.92
"""Share of a GPU's memory that a model may use; fragmentation takes the rest (TensorFlow's BFC allocator)."""
USABLE_NODE_MEMORY = 0.6
"""Share of a node's memory that a data set may use: the ranks and the file system's cache need the rest."""
FUSION_BYTES = 128 * 2**20
"""Horovod's fusion buffer (0.28.1, operations.cc)."""
LIBRARY_BYTES = 2**30
"""Approximate memory of the CUDA context, NCCL and cuDNN's workspace."""
RULE = "data parallel if the model fits one node; else model parallel if the data set does; else model-data"
SOURCE = f"{GUIDELINES}, data parallel or model parallel"
UNKNOWN_MEMORY = Reason(
    rule=RULE,
    verdict="data parallel, if the model fits the memory of a rank, which the site file does not know",
    source=SOURCE,
)


@record
class Room:
    """The available bytes: memory of a GPU (all of it), memory of a node, and its local storage (0: none).

    ``device`` names, in words, what has the GPU memory: a GPU, or a rank's share of a node's CPUs. ``taken_bytes``:
    what libraries take of it in every rank.
    """

    gpu_bytes: float
    gpus_per_node: int
    node_bytes: float
    local_storage_bytes: float = 0.0
    device: str = "GPU"
    taken_bytes: float = FUSION_BYTES + LIBRARY_BYTES

    def __post_init__(self) -> None:
        positive(gpu_bytes=self.gpu_bytes, gpus_per_node=self.gpus_per_node, node_bytes=self.node_bytes)

    @property
    def usable_bytes(self) -> float:
        """The bytes of a GPU that a model may use."""
        return USABLE_MEMORY * self.gpu_bytes


@record
class Parallelism:
    """How the model is distributed: ``gpus_per_replica`` GPUs hold one replica."""

    strategy: Strategy
    extent: Extent
    gpus_per_replica: int
    leaves_node: bool
    shards_dataset: bool
    reason: Reason


def dataset_fits_node(dataset_bytes: float | None, room: Room) -> bool:
    """Tell whether a node can hold the data set (bytes) in 0.6 of its memory or on its local storage.

    An unknown size (None) counts as too large, because a sharded data set is right in both cases. Source: guidelines,
    "dataset can fit one node"; the share is hpclaunch's own choice.
    """
    if dataset_bytes is None:
        return False
    return dataset_bytes <= max(USABLE_NODE_MEMORY * room.node_bytes, room.local_storage_bytes)


def choose_parallelism(gpus: int, replica_bytes: float, room: Room, dataset_bytes: float | None) -> Parallelism:
    """Return the cell of the guidelines' decision table for a replica of ``replica_bytes`` on ``gpus`` GPUs.

    If the model fits one node: data parallel. Otherwise, if the data set fits one node: model parallel; if neither
    does: model-data parallel. How many GPUs hold a replica is the planner's choice (``planner.choice.ladder``).
    Source: guidelines, "Data parallel or model parallel decision-making".
    """
    extent = _extent(gpus, room.gpus_per_node)
    strategy = _TABLE[extent, dataset_fits_node(dataset_bytes, room)]
    return Parallelism(
        strategy=strategy,
        extent=extent,
        gpus_per_replica=gpus,
        leaves_node=gpus > room.gpus_per_node,
        shards_dataset=strategy != "model",
        reason=_reason(gpus, replica_bytes, room, dataset_bytes),
    )


_TABLE: dict[tuple[Extent, bool], Strategy] = {
    ("one GPU", True): "data",
    ("one GPU", False): "data",
    ("one node", True): "data",
    ("one node", False): "data",
    ("several nodes", True): "model",
    ("several nodes", False): "model-data",
}


def tensor_sizes(per_node: int) -> tuple[int, ...]:
    """Return the numbers of ranks that may share each layer inside a node of ``per_node``: they divide it, above 1.

    Powers of two come first to mind, but a node of six GPUs can be shared by 2, 3 or 6. The smallest comes first, since
    fewer ranks exchange less.
    """
    return tuple(ranks for ranks in range(2, per_node + 1) if per_node % ranks == 0)


def _extent(gpus: int, per_node: int) -> Extent:
    if gpus == 1:
        return "one GPU"
    return "one node" if gpus <= per_node else "several nodes"


def _reason(gpus: int, replica_bytes: float, room: Room, dataset_bytes: float | None) -> Reason:
    extent, fits = _extent(gpus, room.gpus_per_node), dataset_fits_node(dataset_bytes, room)
    numbers = [
        Number(name="one replica", value=replica_bytes, unit="bytes"),
        Number(name=f"usable memory of a {room.device}", value=room.usable_bytes, unit="bytes", origin="site"),
        Number(name="GPUs per node", value=room.gpus_per_node, origin="site"),
        Number(name="GPUs per replica", value=gpus),
    ]
    if dataset_bytes is not None:
        numbers.append(Number(name="data set", value=dataset_bytes, unit="bytes", origin="given"))
    if fits:
        size = "fits"
    elif dataset_bytes is None:
        size = "may not fit"
    else:
        size = "does not fit"
    place = f"one {room.device}" if extent == "one GPU" else extent
    warning = ""
    if extent == "several nodes":
        warning = (
            f"a replica on {gpus} GPUs spans nodes: its layers communicate over the network instead of the GPUs' links"
        )
    return Reason(
        rule=RULE,
        numbers=tuple(numbers),
        verdict=f"{_TABLE[extent, fits]} parallel: a replica needs {place}, and the data set {size} one node",
        source=SOURCE,
        warning=warning,
    )
