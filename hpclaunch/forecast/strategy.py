"""Data, model or model-data parallel at a site: memory, the largest batch, and a split worked out; it runs nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hpclaunch.advice.communication import NO_CYCLE_S, Links, ring_bytes, tensor_parallel_s
from hpclaunch.advice.figures import ModelFigures
from hpclaunch.advice.memory import Model, largest_batch, memory, need
from hpclaunch.advice.parallelism import Parallelism, choose_parallelism
from hpclaunch.advice.reasoning import GUIDELINES, Reason
from hpclaunch.advice.throughput import Timing
from hpclaunch.errors import Fault, Refused
from hpclaunch.forecast.machine import Node, node_of
from hpclaunch.forecast.question import Question, trial_of
from hpclaunch.forecast.values import Split
from hpclaunch.forecast.workload import Workload

UNLIMITED = 1 << 20
"""Samples a rank where its memory is not known: more than any cap leaves."""
OUTPUT_BYTES = 4
UNKNOWN_MEMORY = Parallelism(
    strategy="data",
    extent="one GPU",
    gpus_per_replica=1,
    leaves_node=False,
    shards_dataset=True,
    try_first=(),
    reason=Reason(
        rule="the model fits one node: data parallel; only the data set does: model; neither: model-data",
        verdict="data parallel, if the model fits one GPU: its memory is not known here",
        source=f"{GUIDELINES}, data parallel or model parallel",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """How the model is spread, and the largest micro-batch of a replica, samples."""

    parallelism: Parallelism
    model: Model
    largest: int


def strategy_of(work: Workload, node: Node, figures: ModelFigures) -> Strategy:
    """Return it. Raises Refused if no number of GPUs can hold the model."""
    model = figures.model(work.precision)
    if node.room is None:
        return Strategy(parallelism=UNKNOWN_MEMORY, model=model, largest=UNLIMITED)
    parallelism = choose_parallelism(need(model, work.optimizer, work.precision), node.room, work.dataset_bytes)
    gpus = parallelism.gpus_per_replica
    largest = largest_batch(model, work.optimizer, work.precision, node.room.gpu_bytes, gpus_per_replica=gpus)
    return Strategy(parallelism=parallelism, model=model, largest=max(1, largest))


def split_of(
    strategy: Strategy, work: Workload, node: Node, figures: ModelFigures, replicas: int, per_replica: int
) -> Split | None:
    """Return the split worked out in full, or None where one GPU holds the model."""
    gpus = strategy.parallelism.gpus_per_replica
    if gpus == 1 or node.room is None:
        return None
    collectives, message = _layers(figures)
    spoken = tensor_parallel_s(collectives, message * per_replica, gpus, node.links, per_node=node.ranks)
    return Split(
        gpus=gpus,
        replicas=replicas,
        layout=f"rank = {gpus} d + t: t = 0..{gpus - 1} holds a part of the model, d = 0..{replicas - 1} its own data",
        memory=memory(
            strategy.model,
            work.optimizer,
            work.precision,
            per_replica,
            node.room.gpu_bytes,
            gpus_per_replica=gpus,
        ),
        communication_s=spoken if figures.layers else None,
        try_first=strategy.parallelism.try_first,
    )


def _layers(figures: ModelFigures) -> tuple[int, float]:
    """Return all-reduces of a step (one each way for every pair of layers that can be split), and bytes a sample."""
    splittable = [layer for layer in figures.layers if layer.parameters]
    pairs = max(1, len(splittable) // 2)
    ends = splittable[1::2] or splittable
    return 2 * pairs, OUTPUT_BYTES * sum(layer.outputs for layer in ends) / max(1, len(ends))


def shared_timing(timing: Timing, figures: ModelFigures, gpus: int, links: Links, per_node: int) -> Timing:
    """Return the timing of a replica on ``gpus`` GPUs: its compute shared evenly, plus what its layers say."""
    if gpus == 1:
        return timing
    collectives, message = _layers(figures)
    bandwidth = links.inside_bytes_per_s if gpus <= per_node else links.between_bytes_per_s
    spoken = collectives * ring_bytes(message, gpus) / bandwidth
    return replace(
        timing,
        fixed_s=timing.fixed_s / gpus + collectives * NO_CYCLE_S,
        per_sample_s=timing.per_sample_s / gpus + spoken,
    )


def elsewhere(question: Question, work: Workload, figures: ModelFigures, kind: str) -> str:
    """Return another node type of the site that can hold the model, as what to type, or nothing."""
    for name in question.site.node_types:
        if name == kind:
            continue
        other = replace(question, request=replace(question.request, node_type=name))
        trial = trial_of(other, question.typed_nodes or 1)
        node = node_of(question.site.node_types[name], trial.sizing.layout)
        if trial.faults or node.room is None:
            continue
        try:
            strategy_of(work, node, figures)
        except Refused:
            continue
        return f"--node-type {name}"
    return ""


def with_nearest(refusal: Refused, nearest: str) -> tuple[Fault, ...]:
    """Return why the model cannot be held, with what to type instead where a node type of the site can."""
    if not nearest:
        return tuple(refusal.faults)
    return tuple(replace(fault, next=f"{nearest} can hold it; or {fault.next}") for fault in refusal.faults)
