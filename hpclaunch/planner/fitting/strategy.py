"""What the ranks of a replica send each other, and the timing of a replica that several GPUs hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from hpclaunch.core.records import record
from hpclaunch.guidelines.figures import LayerFigures, ModelFigures
from hpclaunch.guidelines.rungs import Exchange, arranged_timing
from hpclaunch.guidelines.throughput import Shape
from hpclaunch.guidelines.timing import Timing
from hpclaunch.planner.fitting.fit import arrangement_of
from hpclaunch.planner.fitting.machine import NodeModel
from hpclaunch.planner.job.workload import Workload

OUTPUT_BYTES = 4


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


def arranged_by(work: Workload, figures: ModelFigures, node: NodeModel) -> Callable[[Timing, Shape], Timing]:
    """Return what makes the timing of a replica from that of one GPU, as a job divides its model."""
    arrangement, exchange = arrangement_of(work, work.gpus_per_replica), exchange_of(figures, work, node)

    def arranged(timing: Timing, shape: Shape) -> Timing:
        own = exchange_at(exchange, work, node, timing)
        return arranged_timing(timing, arrangement, own, math.ceil(shape.accumulation))

    return arranged


def exchange_at(exchange: Exchange, work: Workload, node: NodeModel, timing: Timing) -> Exchange:
    """Return the exchange at the latency and the bandwidths of a timing, which may be fitted."""
    return replace(
        exchange,
        latency_s=timing.dependent_s,
        tensor_bytes_per_s=timing.inside if work.tensor_parallel <= node.ranks else timing.between,
        stage_bytes_per_s=timing.inside if work.gpus_per_replica <= node.ranks else timing.between,
    )


def exchange_of(figures: ModelFigures, work: Workload, node: NodeModel) -> Exchange:
    """Return what the ranks of a replica exchange, and how fast: stages lie on other nodes if a node is full."""
    traffic, links = traffic_of(figures), node.links
    inside, between = links.inside_bytes_per_s, links.between_bytes_per_s
    return Exchange(
        collectives=traffic.times,
        sample_bytes=traffic.sample_bytes,
        tensor_bytes_per_s=inside if work.tensor_parallel <= node.ranks else between,
        stage_bytes_per_s=inside if work.gpus_per_replica <= node.ranks else between,
        latency_s=links.dependent_s,
    )
