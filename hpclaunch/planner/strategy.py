"""A model that one GPU cannot hold: the details of its split, its timing, and the node type that can hold it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.records import record
from hpclaunch.guidelines.batch import Batch
from hpclaunch.guidelines.communication import NO_CYCLE_S, ring_bytes, tensor_parallel_s
from hpclaunch.guidelines.figures import LayerFigures, ModelFigures
from hpclaunch.guidelines.memory import memory
from hpclaunch.guidelines.timing import Timing
from hpclaunch.planner.fit import Strategy, strategy_of
from hpclaunch.planner.machine import NodeModel, node_of
from hpclaunch.planner.question import Question, trial_of
from hpclaunch.planner.values import Split
from hpclaunch.planner.workload import Workload

OUTPUT_BYTES = 4


def split_of(strategy: Strategy, work: Workload, node: NodeModel, figures: ModelFigures, batch: Batch) -> Split | None:
    """Return the details of the split, or None if one GPU holds the model."""
    gpus = strategy.parallelism.gpus_per_replica
    if gpus == 1 or node.room is None:
        return None
    traffic, replicas = traffic_of(figures), batch.replicas
    message_bytes = traffic.sample_bytes * batch.per_rank
    seconds = tensor_parallel_s(traffic.times, message_bytes, gpus, node.links, per_node=node.ranks)
    return Split(
        gpus=gpus,
        replicas=replicas,
        layout=f"rank = {gpus} d + t: t = 0..{gpus - 1} is the part of the model, d = 0..{replicas - 1} the data shard",
        memory=memory(
            strategy.model,
            work.optimizer,
            work.precision,
            batch.per_rank,
            node.room.gpu_bytes,
            gpus_per_replica=gpus,
        ),
        communication_s=seconds,
        communication_guessed=traffic.guessed,
        try_first=strategy.parallelism.try_first,
    )


@record
class TensorParallelTraffic:
    """What the layers of a split model exchange in a step: the number of all-reduces, and bytes per sample in each.

    ``guessed``: the layers are not known, and an approximate upper bound is used.
    """

    times: int
    sample_bytes: float
    guessed: bool


def traffic_of(figures: ModelFigures) -> TensorParallelTraffic:
    """Return the traffic of layers split in pairs, by columns and then by rows: one all-reduce per pair and direction.

    If the layers are not known, there are as many pairs as if all layers had the largest size, and every second value
    saved for the backward pass is the end of a pair. Source: Megatron-LM, Shoeybi et al. 2019, arXiv 1909.08053; the
    rule for unknown layers is hpclaunch's own.
    """
    split = [layer for layer in figures.layers if layer.parameters and "Norm" not in layer.layer_class]
    if split:
        ends = split[1::2] or split
        sample_bytes = OUTPUT_BYTES * _mean_outputs(ends)
        return TensorParallelTraffic(times=2 * len(ends), sample_bytes=sample_bytes, guessed=False)
    pairs = max(1, math.ceil(figures.parameters / max(1, figures.largest_layer) / 2))
    sample_bytes = figures.saved_bytes_per_sample / (2 * pairs)
    return TensorParallelTraffic(times=2 * pairs, sample_bytes=sample_bytes, guessed=True)


def _mean_outputs(layers: Sequence[LayerFigures]) -> float:
    return sum(layer.outputs for layer in layers) / len(layers)


def shared_timing(timing: Timing, figures: ModelFigures, gpus: int, node: NodeModel) -> Timing:
    """Return the timing of a replica on ``gpus`` GPUs: evenly divided compute, plus communication between layers."""
    if gpus == 1:
        return timing
    traffic = traffic_of(figures)
    bandwidth = node.links.inside_bytes_per_s if gpus <= node.ranks else node.links.between_bytes_per_s
    exchange_s = traffic.times * ring_bytes(traffic.sample_bytes, gpus) / bandwidth
    return replace(
        timing,
        fixed_s=timing.fixed_s / gpus + traffic.times * NO_CYCLE_S,
        per_sample_s=timing.per_sample_s / gpus + exchange_s,
    )


def other_node_type(question: Question, work: Workload, figures: ModelFigures, node_type: str) -> str:
    """Return the flag for another node type of the site that can hold the model, or empty text."""
    case = question.case
    for name in case.site.node_types:
        if name == node_type:
            continue
        other = replace(question, case=replace(case, request=replace(case.request, node_type=name)))
        trial = trial_of(other, question.typed_nodes or 1)
        node = node_of(case.site.node_types[name], trial.sizing.layout)
        if trial.faults or node.room is None:
            continue
        try:
            strategy_of(work, node.room, figures)
        except Refused:
            continue
        return f"--node-type {name}"
    return ""


def explain_refusal(refusal: Refused, nearest: str) -> tuple[Fault, ...]:
    """Return why no GPU can hold the model, with what to type instead if another node type can (``nearest``)."""
    if not nearest:
        return tuple(refusal.faults)
    return tuple(replace(fault, next=f"{nearest} can hold the model; or {fault.next}") for fault in refusal.faults)
