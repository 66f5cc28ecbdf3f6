"""Whether one GPU holds a job's model, or how many do; and the largest batch in their memory."""

from __future__ import annotations

from hpclaunch.core.records import record
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.memory import Model, largest_batch, need
from hpclaunch.guidelines.parallelism import Parallelism, Room, choose_parallelism
from hpclaunch.guidelines.reasoning import GUIDELINES, Reason
from hpclaunch.planner.workload import Workload

UNLIMITED = 1 << 20
"""Samples per rank if neither its memory nor the job's own batch is known: more than any cap allows."""
UNKNOWN_MEMORY = Parallelism(
    strategy="data",
    extent="one GPU",
    gpus_per_replica=1,
    leaves_node=False,
    shards_dataset=True,
    try_first=(),
    reason=Reason(
        rule="data parallel if the model fits one node; else model parallel if the data set does; else model-data",
        verdict="data parallel, if the model fits the memory of a rank, which the site file does not know",
        source=f"{GUIDELINES}, data parallel or model parallel",
    ),
)


@record
class Strategy:
    """How the model is distributed, and the largest micro-batch of a replica (samples)."""

    parallelism: Parallelism
    model: Model
    largest: int


def strategy_of(work: Workload, room: Room | None, figures: ModelFigures) -> Strategy:
    """Return the strategy in the memory of a node. Raises Refused if no number of GPUs can hold the model."""
    model = figures.model(work.precision)
    if room is None:  # only the job's own batch per rank is known to have worked
        return Strategy(parallelism=UNKNOWN_MEMORY, model=model, largest=work.per_rank or UNLIMITED)
    parallelism = choose_parallelism(need(model, work.optimizer, work.precision), room, work.dataset_bytes)
    gpus = parallelism.gpus_per_replica
    largest = largest_batch(model, work.optimizer, work.precision, room.gpu_bytes, gpus_per_replica=gpus)
    return Strategy(parallelism=parallelism, model=model, largest=max(1, largest))
