"""How the ranks of a decoder's training share it: memory and time of a step of each layout, and the fastest; pure.

The layouts are those of Megatron-LM, DeepSpeed's ZeRO and PyTorch's FSDP, in bfloat16 with flash attention.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.communication import ring_bytes
from hpclaunch.guidelines.decoders import Decoder
from hpclaunch.guidelines.parallelism import LIBRARY_BYTES, USABLE_MEMORY
from hpclaunch.guidelines.reasoning import positive

Sharded = Literal["nothing", "optimizer", "gradients", "weights"]
SHARDED: tuple[Sharded, ...] = ("nothing", "optimizer", "gradients", "weights")
"""What data-parallel ranks share: nothing, then stages 1, 2 and 3 of ZeRO; the last is FSDP's full sharding."""

WEIGHT_BYTES, GRADIENT_BYTES, OPTIMIZER_BYTES = 2, 2, 12
"""Bytes of a parameter with Adam in mixed precision. Source: ZeRO, Rajbhandari et al. 2019, arXiv 1910.02054."""
LOGIT_BYTES = 12
"""Bytes of a token's every logit at its peak: in 16 bits and in float32, and the gradients of both. In sight of the
memory of GPT 124 M and 1.3 B on an H200, and of none of the published configurations."""
SAVED_LOGIT_BYTES = 4
SWEEPS = 12.3
"""As in ``hardware``: how often the saved values cross the memory in a step."""
MATRIX_SHARE = 0.8
"""Share of its peak at which a GPU multiplies the matrices of a decoder; ``Engine.derate`` is that of other GPUs. In
sight of MPT on A100 and H100, and of GPT on an H200."""
SPLIT_SHARE = 0.85
"""The same for matrices that tensor-parallel ranks share, relative to whole ones. In sight of Korthikanti et al."""
RECOMPUTING = 4 / 3
TENSOR_WIRE = 0.4
"""Share of the links that the dependent all-reduces of tensor parallelism reach. In sight of Korthikanti et al."""
INSIDE, BETWEEN = 0.8, 0.7
"""Share of the links in a node and of the network that NCCL reaches with long messages (nccl-tests)."""
DEPENDENT_S = 20e-6
"""Seconds of a small collective of NCCL in a node."""
HIDDEN = 0.5
"""Share of the shorter of computation and of what may overlap with it that is really hidden. In sight of MPT."""
LAUNCHES_S = 2.4e-3
"""The least seconds of a block, forward and backward, in which the host starts its operations one by one: GPT 124 M
with 4 samples on an H200 took 29 ms for 12 blocks."""
STRAGGLING = 0.02
MOST_BUBBLE = 0.1
"""A pipeline waits less than this share of a step: Narayanan et al. 2021, arXiv 2104.04473, (P - 1) / (m + P - 1)."""
SAME = 0.01
"""Layouts whose speed differs by less count as equally fast: then the simpler one, with fewer groups, is better."""
SHORTEST_PART, LARGEST_MICRO_BATCH = 4096, 32
"""Tokens below which no sample is divided among ranks; samples of the largest micro-batch."""
SOURCE = (
    "Narayanan et al. 2021 (arXiv 2104.04473), Korthikanti et al. 2022 (arXiv 2205.05198), Rajbhandari et al. 2019"
    " (arXiv 1910.02054), Zhao et al. 2023 (arXiv 2304.11277)"
)


@record
class Engine:
    """What a rank computes with: its peak in 16 bits (TFLOP/s), its memory (GB/s, and bytes in all), and its links.

    ``inside``: GB/s of all its links in the node; ``node``: GB/s of the node's network cards, which its ``ranks``
    share. ``derate``: how much slower it is than the models say.
    """

    peak: float
    memory_gbytes_per_s: float
    memory_bytes: float
    inside: float
    node: float
    ranks: int
    derate: float = 1.0

    @property
    def usable_bytes(self) -> float:
        """The bytes that a training may use."""
        return USABLE_MEMORY * self.memory_bytes

    def bandwidth(self, neighbours: int, size: int) -> float:
        """Return the bytes/s of a group of ``size`` ranks that has every ``neighbours``-th rank of a node."""
        if neighbours * size <= self.ranks:
            return INSIDE * self.inside * 1e9
        members = max(1, self.ranks // neighbours)
        return min(INSIDE * self.inside, BETWEEN * self.node * members / self.ranks) * 1e9


@record
class DecoderLayout:
    """How ranks share a decoder: ``data`` x ``context`` x ``tensor`` x ``pipeline`` ranks.

    Tensor-parallel ranks also divide the sequence where layers are not split (sequence parallel). ``experts``: the data
    parallel ranks that share the experts. ``recompute``: blocks keep their inputs alone. ``micro_batch``: samples of a
    replica's micro-batch, of which a step has ``micro_batches``. ``chunks``: parts of the model that each stage of a
    pipeline has in turn (the interleaved schedule).
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    experts: int = 1
    sharded: Sharded = "nothing"
    recompute: bool = False
    micro_batch: int = 1
    micro_batches: int = 1
    chunks: int = 1

    def __post_init__(self) -> None:
        positive(data=self.data, tensor=self.tensor, pipeline=self.pipeline, context=self.context)
        positive(experts=self.experts, micro_batch=self.micro_batch, micro_batches=self.micro_batches)
        positive(chunks=self.chunks)
        if self.data % self.experts:
            raise ValueError(f"{self.experts} ranks cannot share the experts of {self.data} replicas")

    @property
    def ranks(self) -> int:
        """All ranks."""
        return self.data * self.context * self.tensor * self.pipeline

    @property
    def samples(self) -> int:
        """The samples of a step."""
        return self.data * self.micro_batch * self.micro_batches

    @property
    def bubble(self) -> float:
        """The share of a step in which a pipeline's rank waits: (P - 1) / (v m + P - 1). Source: Narayanan et al."""
        return (self.pipeline - 1) / (self.chunks * self.micro_batches + self.pipeline - 1)

    @property
    def words(self) -> str:
        """The layout in words: what ranks share, in the order in which neighbours do."""
        parts = [("tensor", self.tensor), ("context", self.context), ("pipeline", self.pipeline), ("data", self.data)]
        named = " x ".join(f"{name} {size}" for name, size in parts if size > 1) or "one rank"
        words = [named]
        stage = SHARDED.index(self.sharded)
        if stage:
            words.append("FSDP (ZeRO 3)" if stage == 3 else f"ZeRO {stage}")
        if self.experts > 1:
            words.append(f"experts on {self.experts} ranks")
        if self.recompute:
            words.append("activations recomputed")
        return ", ".join(words)


@record
class LayoutMemory:
    """Bytes of the rank that holds most: weights, gradients and optimizer; activations; the rest."""

    states: float
    activations: float
    other: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.states + self.activations + self.other


def layout_memory(decoder: Decoder, layout: DecoderLayout, *, flash: bool = True) -> LayoutMemory:
    """Return the bytes of the rank that holds most: the first stage, or the last, which has the logits.

    16 bytes of a parameter, divided as ``sharded`` says; s b h (34 / T) of a block (Korthikanti et al. 2022, with
    sequence parallelism), of as many micro-batches as the first of P stages holds; with recomputation 2 s b h / T, and
    one block's. FSDP gathers two blocks at a time. ``flash``: attention does not keep its square, 5 a s^2 b.
    """
    tokens = layout.micro_batch * decoder.context / layout.context
    states, gathered = _states(decoder, layout)
    block = tokens * (decoder.saved_bytes + (0.0 if flash else decoder.square_bytes)) / layout.tensor
    blocks = decoder.layers / layout.pipeline
    held = min(layout.pipeline, layout.micro_batches) + (layout.pipeline - 1) * (1 - 1 / layout.chunks)
    kept = blocks * held * tokens * 2 * decoder.hidden / layout.tensor + block if layout.recompute else 0.0
    activations = kept or blocks * held * block
    logits = tokens * LOGIT_BYTES * decoder.vocabulary / layout.tensor
    # The last stage holds one micro-batch, with its logits.
    last = (kept / held if layout.recompute else blocks * block) + logits
    return LayoutMemory(states=states, activations=max(activations, last), other=gathered + LIBRARY_BYTES)


def _states(decoder: Decoder, layout: DecoderLayout) -> tuple[float, float]:
    """Return the bytes of weights, gradients and optimizer on a rank, and those that sharding gathers."""
    split = layout.tensor * layout.pipeline
    embedding = decoder.vocabulary * decoder.hidden / layout.tensor
    whole = (decoder.parameters - decoder.expert_parameters) / split
    whole += embedding * (1 - 1 / layout.pipeline)
    experts = decoder.expert_parameters / split / layout.experts
    ranks = layout.data * layout.context
    stage = SHARDED.index(layout.sharded)
    states = 0.0
    for held, among in ((whole, ranks), (experts, ranks / layout.experts)):
        parts = (OPTIMIZER_BYTES, GRADIENT_BYTES, WEIGHT_BYTES)
        states += held * sum(size / among if stage > index else size for index, size in enumerate(parts))
    gathered = 2 * WEIGHT_BYTES * (whole + experts) / max(1, decoder.layers / layout.pipeline) if stage == 3 else 0.0
    return states, gathered


@record
class LayoutTime:
    """Seconds of a step on all ranks, by what takes them; ``tokens``: those of the step."""

    compute_s: float
    tensor_s: float
    bubble_s: float
    data_s: float
    further_s: float
    straggler_s: float
    tokens: float

    @property
    def total_s(self) -> float:
        """The whole step."""
        return self.compute_s + self.tensor_s + self.bubble_s + self.data_s + self.further_s + self.straggler_s

    @property
    def tokens_per_s(self) -> float:
        """Tokens a second, of all ranks."""
        return self.tokens / self.total_s


def layout_time(decoder: Decoder, layout: DecoderLayout, engine: Engine, *, flash: bool = True) -> LayoutTime:
    """Return the time of a step; without ``flash`` the square of attention crosses the memory, too.

    Compute: operations at a share of the peak, and saved values through the memory (``hardware``), times 4/3 with
    recomputation. Tensor: 4 L all-reduces of 2 s b h bytes, 6 L with recomputation. A pipeline of P stages makes
    m + (P - 1) / v turns. Data: weights are gathered twice and gradients scattered once for every micro-batch (FSDP),
    else gradients are reduced once a step. Further: keys and values around a ring (context), tokens to their experts
    and back, activations to the next stage. Source: ``SOURCE``.
    """
    turns = layout.micro_batches / (1 - layout.bubble)
    tokens = layout.micro_batch * decoder.context / layout.context
    compute = _compute_s(decoder, layout, engine, tokens, flash=flash)
    tensor = _tensor_s(decoder, layout, engine, tokens)
    further = _further_s(decoder, layout, engine, tokens, compute)
    busy = layout.micro_batches * (compute + tensor + further)
    data = _data_s(decoder, layout, engine, compute + tensor)
    whole = turns * (compute + tensor + further) + data
    straggling = STRAGGLING * math.sqrt(2 * math.log(layout.ranks))
    return LayoutTime(
        compute_s=layout.micro_batches * compute,
        tensor_s=layout.micro_batches * tensor,
        bubble_s=turns * (compute + tensor + further) - busy,
        data_s=data,
        further_s=layout.micro_batches * further,
        straggler_s=whole * straggling,
        tokens=layout.samples * decoder.context,
    )


def _compute_s(decoder: Decoder, layout: DecoderLayout, engine: Engine, tokens: float, *, flash: bool) -> float:
    share = MATRIX_SHARE * (SPLIT_SHARE if layout.tensor > 1 else 1.0)
    repeated = RECOMPUTING if layout.recompute else 1.0
    split = layout.tensor * layout.pipeline
    flops = decoder.executed_flops / split / (share * engine.peak * 1e12)
    block = decoder.saved_bytes + (0.0 if flash else decoder.square_bytes)
    saved = decoder.layers * block / split + SAVED_LOGIT_BYTES * decoder.vocabulary / layout.tensor
    traffic = SWEEPS * saved / (engine.memory_gbytes_per_s * 1e9)
    launches = LAUNCHES_S * decoder.layers / layout.pipeline
    return max(repeated * tokens * (flops + traffic) / engine.derate, launches)


def _tensor_s(decoder: Decoder, layout: DecoderLayout, engine: Engine, tokens: float) -> float:
    if layout.tensor == 1:
        return 0.0
    times = (6 if layout.recompute else 4) * decoder.layers / layout.pipeline
    size = ring_bytes(2 * tokens * decoder.hidden, layout.tensor)
    bandwidth = TENSOR_WIRE / INSIDE * engine.bandwidth(1, layout.tensor)
    return times * (DEPENDENT_S + size / bandwidth)


def _further_s(decoder: Decoder, layout: DecoderLayout, engine: Engine, tokens: float, compute: float) -> float:
    blocks, found = decoder.layers / layout.pipeline, 0.0
    if layout.context > 1:  # forward, and twice as much backward; hidden behind attention as far as it goes
        size = 3 * 4 * tokens * decoder.hidden * decoder.key_share * (layout.context - 1) / layout.tensor
        found += _exposed_s(compute, blocks * size / engine.bandwidth(layout.tensor, layout.context))
    if layout.experts > 1:
        size = 4 * 2 * tokens * decoder.active_experts * decoder.hidden * (1 - 1 / layout.experts) / layout.tensor
        found += blocks * size / engine.bandwidth(layout.tensor * layout.context, layout.experts)
    if layout.pipeline > 1:
        size = 2 * 2 * tokens * decoder.hidden / layout.tensor
        found += size / engine.bandwidth(layout.ranks // layout.pipeline, layout.pipeline)
    return found


def _data_s(decoder: Decoder, layout: DecoderLayout, engine: Engine, compute: float) -> float:
    ranks = layout.data * layout.context
    if ranks == 1:
        return 0.0
    held = (decoder.parameters - decoder.expert_parameters * (1 - 1 / layout.experts)) / layout.tensor / layout.pipeline
    bandwidth, once = engine.bandwidth(layout.tensor, ranks), ring_bytes(2 * held, ranks)
    if layout.sharded == "weights":
        return layout.micro_batches * _exposed_s(compute, 1.5 * once / bandwidth)
    return _exposed_s(compute, once / bandwidth)


def _exposed_s(compute: float, other: float) -> float:
    """Return the seconds of ``other`` that computation does not hide."""
    return other - HIDDEN * min(compute, other)


@record
class Planned:
    """A layout with its memory and its time."""

    layout: DecoderLayout
    memory: LayoutMemory
    time: LayoutTime


Rung = Literal[
    "data parallel",
    "ZeRO 1",
    "ZeRO 2",
    "FSDP (ZeRO 3)",
    "recomputation",
    "tensor and sequence",
    "pipeline",
    "context",
]
RUNGS: tuple[Rung, ...] = Rung.__args__  # type: ignore[attr-defined]
"""The ways to hold a decoder, from the simplest; each may have the sharding, the recomputation and the split of those
before it."""


def rung_of(layout: DecoderLayout) -> Rung:
    """Return the highest rung that a layout needs."""
    if layout.context > 1:
        return "context"
    if layout.pipeline > 1:
        return "pipeline"
    if layout.tensor > 1:
        return "tensor and sequence"
    return "recomputation" if layout.recompute else RUNGS[SHARDED.index(layout.sharded)]


def fastest_layouts(
    decoder: Decoder, engine: Engine, ranks: int, samples: int
) -> tuple[Planned | None, dict[Rung, Planned]]:
    """Return the layout with the most tokens a second that fits the memory (None: none does), and that of each rung.

    Of a rung on which nothing fits, it is the layout that needs least memory. Steps have at most ``samples`` samples,
    and as near to them as they divide. Tensor parallel ranks share a node. A pipeline waits less than ``MOST_BUBBLE``
    of a step. Context parallelism is for samples that one rank cannot hold. Experts are divided among the replicas of a
    node. Of equally fast layouts the simplest is taken.
    """
    best: Planned | None = None
    rungs: dict[Rung, Planned] = {}
    for shape in _shapes(decoder, engine, ranks, samples):
        for layout in _ways(shape):
            rung, memory = rung_of(layout), layout_memory(decoder, layout)
            fits, known = memory.total <= engine.usable_bytes, rungs.get(rung)
            if not fits and known is not None and known.memory.total <= memory.total:
                continue
            found = Planned(layout=layout, memory=memory, time=layout_time(decoder, layout, engine))
            if known is None or _is_better(found, known, engine):
                rungs[rung] = found
            if not fits:
                continue
            if best is None or found.time.tokens_per_s > (1 + SAME) * best.time.tokens_per_s:
                best = found
            if layout.sharded != "weights" and layout.ranks > layout.data:
                break  # any other takes longer, and is no rung of its own
    return best, {rung: rungs[rung] for rung in RUNGS if rung in rungs}


def _is_better(one: Planned, other: Planned, engine: Engine) -> bool:
    """Whether a layout fits where the other does not, or is faster if both do, or needs less memory if neither does."""
    fits, also = (each.memory.total <= engine.usable_bytes for each in (one, other))
    if fits != also:
        return fits
    if fits:
        return one.time.tokens_per_s > (1 + SAME) * other.time.tokens_per_s
    return one.memory.total < other.memory.total


def fastest_layout(decoder: Decoder, engine: Engine, ranks: int, samples: int) -> Planned | None:
    """Return the layout with the most tokens a second that fits the memory; None if none does."""
    return fastest_layouts(decoder, engine, ranks, samples)[0]


def _shapes(decoder: Decoder, engine: Engine, ranks: int, samples: int) -> Iterator[DecoderLayout]:
    """Yield every division of the ranks with every size of a micro-batch; nothing is sharded or recomputed."""
    for tensor in _powers(min(engine.ranks, decoder.heads)):
        if engine.ranks % tensor or decoder.heads % tensor or ranks % tensor:
            continue
        for pipeline in (size for size in range(1, decoder.layers + 1) if decoder.layers % size == 0):
            for context in _powers(decoder.context // SHORTEST_PART):
                if ranks % (tensor * pipeline * context) == 0:
                    data = ranks // (tensor * pipeline * context)
                    shape = DecoderLayout(data=data, tensor=tensor, pipeline=pipeline, context=context)
                    shape = replace(shape, experts=_expert_ranks(decoder, data, engine.ranks // tensor))
                    yield from _divide_into_micro_batches(shape, samples // data)


def _divide_into_micro_batches(shape: DecoderLayout, each: int) -> Iterator[DecoderLayout]:
    """Yield a shape with micro-batches of 1, 2, 4, … of the samples of a replica, as long as its pipeline is busy."""
    for micro_batch in _powers(min(each, LARGEST_MICRO_BATCH)) if each else ():
        layout = replace(shape, micro_batch=micro_batch, micro_batches=each // micro_batch)
        if layout.bubble >= MOST_BUBBLE:
            return
        yield layout


def _ways(shape: DecoderLayout) -> Iterator[DecoderLayout]:
    """Yield the ways to save memory in a shape, those that cost no time first."""
    if shape.data * shape.context == 1:
        shares = SHARDED[:1]  # there is no other rank to share the state with
    elif shape.pipeline > 1:
        shares = SHARDED[:2]  # stages 2 and 3 would exchange gradients and weights after every micro-batch
    else:
        shares = SHARDED
    for recompute in (False, True):
        for sharded in shares:
            yield replace(shape, sharded=sharded, recompute=recompute)


def _expert_ranks(decoder: Decoder, data: int, in_node: int) -> int:
    fitting = [size for size in _powers(max(1, in_node)) if data % size == 0 and decoder.experts % size == 0]
    return max(fitting) if decoder.experts > 1 else 1


def _powers(most: int) -> list[int]:
    """Return 1, 2, 4, … up to ``most``."""
    return [1 << bit for bit in range(max(1, most).bit_length()) if 1 << bit <= max(1, most)]
