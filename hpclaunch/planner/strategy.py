"""A model that several GPUs hold: the details of its split, and its timing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hpclaunch.core.records import record
from hpclaunch.guidelines.batch import Batch
from hpclaunch.guidelines.figures import LayerFigures, ModelFigures
from hpclaunch.guidelines.memory import memory
from hpclaunch.guidelines.rungs import Exchange, exchange_s
from hpclaunch.planner.fit import Strategy
from hpclaunch.planner.machine import NodeModel
from hpclaunch.planner.values import Split
from hpclaunch.planner.workload import Workload

OUTPUT_BYTES = 4


def split_of(strategy: Strategy, work: Workload, node: NodeModel, figures: ModelFigures, batch: Batch) -> Split | None:
    """Return the details of the split, or None if one GPU holds the model."""
    if strategy.gpus == 1 or node.room is None:
        return None
    arrangement, traffic = strategy.arrangement, traffic_of(figures)
    exchange = exchange_of(figures, strategy, node)
    each = exchange_s(exchange, arrangement, batch.per_rank, batch.accumulation)
    return Split(
        gpus=strategy.gpus,
        tensor_parallel=arrangement.tensor_parallel,
        pipeline_stages=arrangement.pipeline_stages,
        replicas=batch.replicas,
        layout=_layout_words(arrangement.tensor_parallel, arrangement.pipeline_stages, batch.replicas),
        memory=memory(strategy.model, work.optimizer, batch.per_rank, node.room, arrangement),
        communication_s=batch.accumulation * each,
        communication_guessed=traffic.guessed,
    )


def _layout_words(tensor: int, stages: int, replicas: int) -> str:
    """Return the numbering of the ranks: those of a replica are neighbours, so that its groups stay on a node."""
    parts = [f"d = {'0' if replicas == 1 else f'0..{replicas - 1}'} the replica and its data shard"]
    parts += [f"p = 0..{stages - 1} the stage"] if stages > 1 else []
    parts += [f"t = 0..{tensor - 1} the part of each layer"] if tensor > 1 else []
    number = f"{stages} d + p" if stages > 1 else "d"
    whole = f"({number}) {tensor} + t" if tensor > 1 and stages > 1 else f"{tensor} d + t" if tensor > 1 else number
    return f"rank = {whole}: {', '.join(parts)}"


@record
class TensorParallelTraffic:
    """What the layers of a split model exchange in a step: the number of all-reduces, and bytes per sample in each.

    ``guessed``: the layers are not known, and an approximate upper bound is used.
    """

    times: float
    sample_bytes: float
    guessed: bool


def traffic_of(figures: ModelFigures) -> TensorParallelTraffic:
    """Return the traffic of layers split in pairs, by columns and then by rows: one all-reduce per pair and direction.

    If the layers are not known, there are as many pairs as if all layers had the largest size, and every second value
    saved for the backward pass is the end of a pair. Source: Megatron-LM, Shoeybi et al. 2019, arXiv 1909.08053; the
    rule for unknown layers is hpclaunch's own.
    """
    if figures.tensor_collectives and figures.tensor_bytes_per_sample:
        times = figures.tensor_collectives
        return TensorParallelTraffic(times=times, sample_bytes=figures.tensor_bytes_per_sample, guessed=False)
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


def exchange_of(figures: ModelFigures, strategy: Strategy, node: NodeModel) -> Exchange:
    """Return what the ranks of a replica exchange, and how fast: stages lie on other nodes if a node is full."""
    traffic, links = traffic_of(figures), node.links
    inside, between = links.inside_bytes_per_s, links.between_bytes_per_s
    return Exchange(
        collectives=traffic.times,
        sample_bytes=traffic.sample_bytes,
        tensor_bytes_per_s=inside if strategy.arrangement.tensor_parallel <= node.ranks else between,
        stage_bytes_per_s=inside if strategy.gpus <= node.ranks else between,
    )
