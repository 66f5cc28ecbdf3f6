"""The ladder of ways to make a model fit, from the cheapest: what each saves, what it costs, and its source; pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.communication import DEPENDENT_S, ring_bytes
from hpclaunch.guidelines.memory import Arrangement
from hpclaunch.guidelines.reasoning import GUIDELINES, positive
from hpclaunch.guidelines.timing import Timing

RungName = Literal[
    "data parallel",
    "larger node type",
    "16-bit arithmetic",
    "smaller micro-batch",
    "recomputation",
    "state sharding",
    "tensor parallel",
    "model parallel",
    "model-data parallel",
    "beyond",
]
RECOMPUTING = 4 / 3
"""Time of a step with recomputation: a forward pass, a second one, and a backward pass that takes as long as two."""
RECOMPUTED_COLLECTIVES = 1.5
"""The second forward pass repeats half of a tensor-parallel layer's all-reduces."""


@record
class RungRule:
    """One rung: ``saves`` is its formula of the memory of a GPU, ``takes`` that of the time of a step."""

    name: RungName
    saves: str
    takes: str
    source: str


RUNGS: tuple[RungRule, ...] = (
    RungRule(
        name="data parallel",
        saves="parameters x (weight + gradient + optimizer values) + 1.1 x saved bytes x batch + libraries",
        takes="compute + all-reduce beyond the overlap",
        source=f"{GUIDELINES}, data parallel or model parallel",
    ),
    RungRule(
        name="larger node type",
        saves="as before, in 92 % of a larger GPU's memory",
        takes="as before, on that GPU",
        source="hpclaunch's own: nothing of the training changes",
    ),
    RungRule(
        name="16-bit arithmetic",
        saves="half of the activations; 2 bytes more of each parameter, for the 16-bit copy of the weights",
        takes="that of the GPU's 16-bit units",
        source="Micikevicius et al. 2018, arXiv 1710.03740; Keras keeps variables in float32",
    ),
    RungRule(
        name="smaller micro-batch",
        saves="activations x b / B for micro-batches of b of a rank's B samples",
        takes="B / b times a step's fixed time; the sum of the gradients is the same",
        source="gradient accumulation: Huang et al. 2019, arXiv 1811.06965",
    ),
    RungRule(
        name="recomputation",
        saves="only the inputs of the layers, and one layer's activations; 2 / sqrt(layers) of all if not known",
        takes="x 4/3: one more forward pass",
        source="Chen et al. 2016, arXiv 1604.06174; Korthikanti et al. 2022, arXiv 2205.05198",
    ),
    RungRule(
        name="state sharding",
        saves="optimizer values / N on each of N data-parallel ranks; 4 / N bytes more of each parameter, and 64 MiB",
        takes="as before: reduce-scatter + all-gather send as many bytes as one ring all-reduce",
        source="stage 1 of ZeRO: Rajbhandari et al. 2019, arXiv 1910.02054",
    ),
    RungRule(
        name="tensor parallel",
        saves="parameters / T, and 10/34 + 24/34 / T of the activations, on T GPUs of a node",
        takes="compute / T + all-reduces of each layer x (latency + 2 (T - 1) / T x bytes / bandwidth in the node)",
        source="Shoeybi et al. 2019, arXiv 1909.08053; Korthikanti et al. 2022, arXiv 2205.05198",
    ),
    RungRule(
        name="model parallel",
        saves="parameters / (T P): T GPUs of a node share a layer, P nodes are the stages of a pipeline",
        takes="(m + P - 1) / (m P) x compute / T for m micro-batches, + activations sent to the next stage",
        source=f"{GUIDELINES}, data parallel or model parallel; Narayanan et al. 2021, arXiv 2104.04473",
    ),
    RungRule(
        name="model-data parallel",
        saves="as model parallel, in each of D replicas",
        takes="as model parallel, + the all-reduce of each part among the D replicas",
        source=f"{GUIDELINES}, data parallel or model parallel; Narayanan et al. 2021, arXiv 2104.04473",
    ),
    RungRule(
        name="beyond",
        saves="weights and gradients / N, too (stage 3 of ZeRO)",
        takes="3/2 of the bytes of an all-reduce",
        source="PyTorch FSDP: Zhao et al. 2023, arXiv 2304.11277",
    ),
)
"""The rungs in the order in which they are tried (decision 45)."""


@record
class Exchange:
    """What the ranks of a replica send each other in a micro-batch, and how fast.

    ``collectives`` dependent all-reduces of a whole model, each of ``sample_bytes`` for a sample, at
    ``tensor_bytes_per_s`` among the ranks that share a layer. Each stage sends ``sample_bytes`` on, at
    ``stage_bytes_per_s``. ``latency_s``: of each of them, as it depends on the one before.
    """

    collectives: float
    sample_bytes: float
    tensor_bytes_per_s: float
    stage_bytes_per_s: float
    latency_s: float = DEPENDENT_S


def pipeline_share(stages: int, micro_batches: int) -> float:
    """Return the time of a pipeline's micro-batch, relative to one GPU that holds the model: (m + P - 1) / (m P).

    P - 1 of its m + P - 1 turns are the bubble, in which a stage waits. Source: Huang et al. 2019, arXiv 1811.06965.
    """
    positive(stages=stages, micro_batches=micro_batches)
    return (micro_batches + stages - 1) / (micro_batches * stages)


def exchange_s(exchange: Exchange, arrangement: Arrangement, batch: float, micro_batches: int) -> float:
    """Return the seconds of a replica's exchange among its ranks, for each micro-batch of ``batch`` samples.

    Each of a stage's collectives takes t + 2 (T - 1) / T x bytes / bandwidth, with Horovod's latency t; a stage sends
    activations forward, and gradients back.
    """
    fixed, of_a_sample = _exchange_of_a_micro_batch(exchange, arrangement, micro_batches)
    return fixed + of_a_sample * batch


def _exchange_of_a_micro_batch(exchange: Exchange, arrangement: Arrangement, micro_batches: int) -> tuple[float, float]:
    """Return the fixed seconds, and the seconds of each sample."""
    ranks, stages = arrangement.tensor_parallel, arrangement.pipeline_stages
    fixed = of_a_sample = 0.0
    if ranks > 1:
        times = exchange.collectives * (RECOMPUTED_COLLECTIVES if arrangement.recompute else 1)
        share = pipeline_share(stages, micro_batches)
        fixed += share * times * exchange.latency_s
        of_a_sample += share * times * ring_bytes(exchange.sample_bytes, ranks) / exchange.tensor_bytes_per_s
    if stages > 1:
        turns = (micro_batches + stages - 1) / micro_batches
        fixed += 2 * turns * exchange.latency_s
        of_a_sample += 2 * turns * exchange.sample_bytes / exchange.stage_bytes_per_s
    return fixed, of_a_sample


def arranged_timing(timing: Timing, arrangement: Arrangement, exchange: Exchange, micro_batches: int) -> Timing:
    """Return the timing of a replica's micro-batch, if its ranks hold it like this; ``timing`` is that of one GPU.

    Compute is divided by T, and each rank runs every operation of its stage. Recomputation is counted here.
    """
    times = RECOMPUTING if arrangement.recompute else 1.0
    share = pipeline_share(arrangement.pipeline_stages, micro_batches)
    fixed, of_a_sample = _exchange_of_a_micro_batch(exchange, arrangement, micro_batches)
    return replace(
        timing,
        fixed_s=times * share * timing.fixed_s + fixed,
        per_sample_s=times * share * timing.per_sample_s / arrangement.tensor_parallel + of_a_sample,
    )
