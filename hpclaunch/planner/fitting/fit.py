"""Whether the memory of a node holds a job's model as the job divides it, and the largest batch in it."""

from __future__ import annotations

from hpclaunch.core.records import record
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.memory import Arrangement, Model, activation_bytes, largest_batch, states_bytes
from hpclaunch.guidelines.parallelism import UNKNOWN_MEMORY, Parallelism, Room, choose_parallelism
from hpclaunch.planner.job.workload import Workload
from hpclaunch.resolve.program.recipes import ENOUGH_SAMPLES

UNLIMITED = 1 << 20
"""Samples per rank if neither its memory nor the job's own batch is known: more than any cap allows."""


@record
class Strategy:
    """How the model is distributed, and the largest micro-batch of a replica (samples; 0: not even one fits)."""

    parallelism: Parallelism
    model: Model
    arrangement: Arrangement
    largest: int

    @property
    def gpus(self) -> int:
        """The GPUs that hold one replica."""
        return self.parallelism.gpus_per_replica


def arrangement_of(work: Workload, ranks: int) -> Arrangement:
    """Return how a job holds its model on so many ranks; the replicas' optimizer state is shared by all replicas."""
    gpus = work.gpus_per_replica
    return Arrangement(
        precision=work.precision,
        recompute=work.recompute,
        state_shards=max(1, ranks // gpus) if work.shard_optimizer else 1,
        gradient_lag=work.gradient_lag,
        tensor_parallel=work.tensor_parallel,
        pipeline_stages=work.pipeline_stages,
    )


def strategy_of(work: Workload, room: Room | None, figures: ModelFigures, ranks: int = 1) -> Strategy:
    """Return the strategy of a job in the memory of a node, if its model is divided as the job's parameters say."""
    model, arrangement = figures.model(work.precision), arrangement_of(work, ranks)
    gpus = arrangement.gpus_per_replica
    if room is None:  # only the job's own batch per rank is known to have worked
        unknown = Parallelism(
            strategy="data",
            extent="one GPU" if gpus == 1 else "one node",
            gpus_per_replica=gpus,
            leaves_node=False,
            shards_dataset=True,
            reason=UNKNOWN_MEMORY,
        )
        largest = work.per_rank or UNLIMITED
        return Strategy(parallelism=unknown, model=model, arrangement=arrangement, largest=largest)
    replica = states_bytes(model.parameters, work.optimizer, work.precision) + activation_bytes(model.saved_bytes, 1)
    return Strategy(
        parallelism=choose_parallelism(gpus, replica + room.taken_bytes, room, work.dataset_bytes),
        model=model,
        arrangement=arrangement,
        largest=largest_batch(model, work.optimizer, room, arrangement),
    )


def enough_samples(work: Workload) -> int:
    """Return the samples of a micro-batch that must fit, so that the job can train as it is.

    A typed batch per rank is kept. Otherwise more samples of a rank can be further micro-batches.
    """
    if "batch_size_per_rank" in work.typed:
        return work.per_rank or 1
    return min(ENOUGH_SAMPLES, work.per_rank or ENOUGH_SAMPLES)
