"""The details of a model that several GPUs hold, as a plan shows them."""

from __future__ import annotations

from hpclaunch.guidelines.batch import Batch
from hpclaunch.guidelines.memory import memory
from hpclaunch.guidelines.rungs import exchange_s
from hpclaunch.planner.fitting.strategy import exchange_at, exchange_of, traffic_of
from hpclaunch.planner.speed.prediction import Predictor
from hpclaunch.planner.values import Split


def split_of(predictor: Predictor, batch: Batch) -> Split | None:
    """Return the details of the split, or None if one GPU holds the model."""
    strategy, work, node, figures = predictor.strategy, predictor.work, predictor.node, predictor.figures
    if strategy.gpus == 1 or node.room is None:
        return None
    arrangement, traffic, timing = strategy.arrangement, traffic_of(figures), predictor.timing
    exchange = exchange_of(figures, work, node)
    if timing is not None:
        exchange = exchange_at(exchange, work, node, timing)
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
        dependent_s=exchange.latency_s,
        communication_source=_source_words(predictor),
    )


def _layout_words(tensor: int, stages: int, replicas: int) -> str:
    """Return the numbering of the ranks: those of a replica are neighbours, so that its groups stay on a node."""
    parts = [f"d = {'0' if replicas == 1 else f'0..{replicas - 1}'} the replica and its data shard"]
    parts += [f"p = 0..{stages - 1} the stage"] if stages > 1 else []
    parts += [f"t = 0..{tensor - 1} the part of each layer"] if tensor > 1 else []
    number = f"{stages} d + p" if stages > 1 else "d"  # of the stage
    if tensor > 1:
        number = f"({number}) {tensor} + t" if stages > 1 else f"{tensor} d + t"
    return f"rank = {number}: {', '.join(parts)}"


def _source_words(predictor: Predictor) -> str:
    """Return where the latency of dependent all-reduces and the bandwidth come from."""
    if predictor.question.evidence.points:
        return f"fitted to {predictor.question.evidence.origin}"
    inside = predictor.node.links.inside
    return f"measured by hpclaunch doctor: {inside.origin}" if inside is not None else "hpclaunch's own measurement"
