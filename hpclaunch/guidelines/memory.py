"""GPU memory in training: states, activations and the rest, and the largest batch that fits; it probes no model."""

from __future__ import annotations

import math
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.parallelism import USABLE_MEMORY, Room
from hpclaunch.guidelines.reasoning import Number, Reason, positive

Precision = Literal["float32", "mixed"]

GRADIENT_BYTES = 4
"""Gradient bytes per parameter: Keras keeps variables and gradients in float32 under ``mixed_*`` too."""
WEIGHT_BYTES, COPY_BYTES, SLOT_BYTES = 4, 2, 4
SLOTS: dict[str, int] = {"sgd": 0, "momentum": 1, "lars": 1, "larc": 1, "muon": 2, "adam": 2, "adamw": 2, "lamb": 2}
"""Values that an optimizer keeps per parameter; ``momentum`` is SGD with momentum.

``muon``: at most; it keeps one for a matrix of a hidden layer, AdamW two for the others.
"""
ALLOCATED = 1.1
"""Measured over probed activations: 1.09 to 1.14 (ResNet-50), 0.8 to 1.12 (VGG16), 1.10 to 1.13 (InceptionV3)."""
REPEATED = 10 / 34
"""Part of a transformer layer's activations that every rank of a tensor-parallel group keeps whole: 10 of 34 s b h,
without attention's own (Korthikanti et al. 2022). It is taken for other layers as well, and is an upper bound there."""
BUCKET_BYTES = 64 * 2**20
"""Gradients that ranks copy to send them at a time, if they share the optimizer's values (as the training does)."""
SOURCE = "Keras's float32 variables, Horovod's operations.cc, and peaks measured by the project"


def bytes_per_parameter(optimizer: str, precision: Precision) -> int:
    """Return the bytes of one parameter: weight, gradient and optimizer values.

    In float32: SGD 8, momentum 12, Adam, AdamW and LAMB 16. Mixed precision adds a copy in 16 bits: Adam 18.
    Raises ValueError for an unknown optimizer. Source: Keras keeps variables in float32 under mixed precision.
    """
    slots = SLOTS.get(optimizer.lower())
    if slots is None:
        raise ValueError(f"optimizer {optimizer!r} is not one of {', '.join(SLOTS)}")
    copy = COPY_BYTES if precision == "mixed" else 0
    return WEIGHT_BYTES + GRADIENT_BYTES + SLOT_BYTES * slots + copy


def states_bytes(parameters: float, optimizer: str, precision: Precision = "float32") -> float:
    """Return the bytes of all weights, gradients and optimizer values; raises as ``bytes_per_parameter`` does."""
    return parameters * bytes_per_parameter(optimizer, precision)


def activation_bytes(saved_bytes: float, batch: float) -> float:
    """Return the activation bytes of ``batch`` samples, each of which saves ``saved_bytes`` for the backward pass."""
    return ALLOCATED * saved_bytes * batch


def transformer_layer_bytes(sequence: int, batch: int, hidden: int, heads: int, *, tensor_parallel: int = 1) -> float:
    """Return the activation bytes of one transformer layer in 16 bits, without recomputation.

    s b h (34 + 5 a s / h) on one GPU; split among t GPUs, s b h (10 + 24 / t + 5 a s / (h t)) on each.
    Source: Korthikanti et al. 2022.
    """
    positive(sequence=sequence, batch=batch, hidden=hidden, heads=heads, tensor_parallel=tensor_parallel)
    attention = 5 * heads * sequence / hidden
    return sequence * batch * hidden * (10 + (24 + attention) / tensor_parallel)


@record
class Model:
    """The figures of a model: parameters, bytes saved for backward per sample, and what a split of it depends on.

    ``largest_layer``: parameters of the largest layer. ``layers``: those of each layer, in the order of the forward
    pass (empty: not known). ``unsplittable``: parameters that every rank of a tensor-parallel group holds whole.
    ``first_stage`` and ``last_stage``: parameters that the first and the last pipeline stage hold beside their equal
    share, such as an embedding (None: not known). ``repeated_bytes``: of ``saved_bytes``, what every rank of a
    tensor-parallel group saves whole (None: ``REPEATED``). ``kept_bytes``: the inputs of all layers that
    recomputation computes again, and ``layer_bytes``: what the largest of them saves (None: not known).
    """

    parameters: float
    saved_bytes: float
    largest_layer: float = 0.0
    layers: tuple[float, ...] = ()
    unsplittable: float = 0.0
    first_stage: float | None = None
    last_stage: float | None = None
    repeated_bytes: float | None = None
    kept_bytes: float | None = None
    layer_bytes: float | None = None


@record
class Arrangement:
    """How ranks hold the replicas of a model: the number format, and what several ranks share.

    ``recompute``: the backward pass computes the activations again. ``state_shards``: ranks that share the values of
    the optimizer. ``tensor_parallel``: ranks that share every layer; ``pipeline_stages``: parts of the model, one after
    the other. With 1, nothing is shared. In a pipeline a step has at least as many micro-batches as stages.
    ``gradient_lag``: a rank holds the gradient of the step before as well.
    """

    precision: Precision = "float32"
    recompute: bool = False
    state_shards: int = 1
    tensor_parallel: int = 1
    pipeline_stages: int = 1
    gradient_lag: bool = False

    def __post_init__(self) -> None:
        positive(
            state_shards=self.state_shards,
            tensor_parallel=self.tensor_parallel,
            pipeline_stages=self.pipeline_stages,
        )

    @property
    def gpus_per_replica(self) -> int:
        """The GPUs that hold one replica."""
        return self.tensor_parallel * self.pipeline_stages


def largest_stage(model: Model, stages: int) -> float:
    """Return the parameters of the largest pipeline stage.

    With known ends of the model, its equal layers are divided evenly, and the larger end is added. With known layers,
    it is the least that any division into ``stages`` runs of layers reaches. Otherwise it is what cutting at the layer
    boundary next to each equal share cannot exceed: (P - m) / stages + m, where m is the largest layer.
    """
    if stages == 1:
        return model.parameters
    if model.first_stage is not None or model.last_stage is not None:
        first, last = model.first_stage or 0.0, model.last_stage or 0.0
        return (model.parameters - first - last) / stages + max(first, last)
    if model.layers:
        return _least_largest_run(model.layers, stages)
    return (model.parameters - model.largest_layer) / stages + model.largest_layer


def _least_largest_run(sizes: tuple[float, ...], runs: int) -> float:
    """Return the sum of the largest run, if the sizes are cut into runs so that it is as small as possible."""
    # best[n]: of the first n sizes, cut into as many runs as the loop has counted.
    best = [0.0, *(sum(sizes[: end + 1]) for end in range(len(sizes)))]
    starts = best[:]
    for _ in range(1, min(runs, len(sizes))):
        best = [
            min((max(best[cut], starts[end] - starts[cut]) for cut in range(end)), default=0.0)
            for end in range(len(sizes) + 1)
        ]
    return best[-1]


def parameters_on_rank(model: Model, arrangement: Arrangement) -> float:
    """Return the parameters of the rank that holds most: of the largest stage, its part of what layers can split.

    stage x (r + (1 - r) / T), where r is the unsplittable part of the model. Source: Shoeybi et al. 2019.
    """
    whole = model.unsplittable / model.parameters
    stage = largest_stage(model, arrangement.pipeline_stages)
    return stage * (whole + (1 - whole) / arrangement.tensor_parallel)


def states_on_rank(model: Model, optimizer: str, arrangement: Arrangement) -> float:
    """Return the bytes of weights, gradients and optimizer values on the rank that holds most.

    P x (w + g + copy) + P x o / N, and with N > 1 also P x w / N: a rank updates its own part of the weights. Weights
    and gradients stay whole on each of the N ranks. Source: stage 1 of ZeRO (Rajbhandari et al. 2019, arXiv 1910.02054)
    as ``training.optimization.sharded_optimizer`` holds it; docs/training.md has measured bytes.
    """
    here, shards = parameters_on_rank(model, arrangement), arrangement.state_shards
    held = states_bytes(here, optimizer, arrangement.precision)
    held += GRADIENT_BYTES * here if arrangement.gradient_lag else 0.0
    if shards == 1:
        return held
    values = SLOT_BYTES * SLOTS[optimizer.lower()] * here
    return held - values + (values + WEIGHT_BYTES * here) / shards


def copied_on_rank(model: Model, arrangement: Arrangement) -> float:
    """Return the bytes of copies on the rank that holds most: of the largest gradient, and of what sharding sends.

    With state sharding among N ranks that is a bucket of gradients, and the rank's 1 / N of it.
    """
    largest = model.largest_layer * GRADIENT_BYTES / arrangement.tensor_parallel
    if arrangement.state_shards == 1:
        return largest
    bucket = min(BUCKET_BYTES, GRADIENT_BYTES * parameters_on_rank(model, arrangement))
    return largest + bucket * (1 + 1 / arrangement.state_shards)


def activations_on_rank(model: Model, batch: float, arrangement: Arrangement) -> float:
    """Return the activation bytes of the rank that holds most, for micro-batches of ``batch`` samples of a replica.

    A tensor-parallel rank keeps r + (1 - r) / T of a layer's (Korthikanti et al. 2022). In a pipeline (1F1B) the first
    of P stages keeps 1 / P of the model's for each of P micro-batches, which is one whole (Narayanan et al. 2021).
    With recomputation only the layers' inputs remain, and one layer's activations at a time; if those are not known,
    sqrt(n) groups of the n layers, 2 / sqrt(n) of all (Chen et al. 2016, arXiv 1604.06174).
    """
    shared = _part_of_activations(model, arrangement.tensor_parallel)
    if not arrangement.recompute:
        return activation_bytes(model.saved_bytes, batch) * shared
    if model.kept_bytes is not None and model.layer_bytes is not None:
        return activation_bytes(model.kept_bytes + model.layer_bytes * shared, batch)
    layers = len(model.layers) or model.parameters / max(1.0, model.largest_layer)
    group = min(1.0, 1 / math.sqrt(layers))
    # The inputs of the groups are whole on every rank of a tensor-parallel group.
    return activation_bytes(model.saved_bytes, batch) * min(shared, group + group * shared)


def _part_of_activations(model: Model, ranks: int) -> float:
    """Return the part of a model's activations that each of so many tensor-parallel ranks keeps."""
    repeated = REPEATED if model.repeated_bytes is None else model.repeated_bytes / model.saved_bytes
    return repeated + (1 - repeated) / ranks


UNSHARED = Arrangement()
"""Each GPU holds a replica, in float32."""


@record
class Memory:
    """Memory of one GPU in training, and the memory that it may use, in bytes."""

    states: float
    activations: float
    other: float
    usable: float
    reason: Reason

    @property
    def total(self) -> float:
        """Bytes of all parts together."""
        return self.states + self.activations + self.other

    @property
    def fits(self) -> bool:
        """Whether the total fits into the usable memory."""
        return self.total <= self.usable


def memory(model: Model, optimizer: str, batch: float, room: Room, arrangement: Arrangement = UNSHARED) -> Memory:
    """Return the memory of the GPU that holds most, for micro-batches of ``batch`` samples of a replica.

    Raises ValueError for an unknown optimizer. Source: the sum of the formulas above, what the libraries take
    (``room.taken_bytes``), and copies of gradients.
    """
    positive(parameters=model.parameters, batch=batch)
    states = states_on_rank(model, optimizer, arrangement)
    activations = activations_on_rank(model, batch, arrangement)
    other = room.taken_bytes + copied_on_rank(model, arrangement)
    usable = room.usable_bytes
    total = states + activations + other
    fits = total <= usable
    return Memory(
        states=states,
        activations=activations,
        other=other,
        usable=usable,
        reason=Reason(
            rule=f"states + activations + other <= {USABLE_MEMORY:.0%} of a GPU's memory",
            numbers=(
                Number(name="states", value=states, unit="bytes"),
                Number(name="activations", value=activations, unit="bytes"),
                Number(name="other", value=other, unit="bytes", origin="default"),
                Number(name="usable", value=usable, unit="bytes", origin="site"),
            ),
            verdict=f"{'fits' if fits else 'does not fit'}: {total / 2**30:.2f} of {usable / 2**30:.2f} GB",
            source=SOURCE,
        ),
    )


def largest_batch(model: Model, optimizer: str, room: Room, arrangement: Arrangement = UNSHARED) -> int:
    """Return the largest micro-batch of a replica (samples) that fits; 0 if not even one sample does.

    Raises ValueError if the bytes per sample are not above zero: then nothing would limit the batch.
    """
    positive(saved_bytes=model.saved_bytes)
    single = memory(model, optimizer, 1, room, arrangement)
    free = single.usable - single.states - single.other
    batch = max(0, math.floor(free / single.activations))
    # Rounding in the division may give a batch that is a byte too large.
    while batch and single.states + single.other + batch * single.activations > single.usable:
        batch -= 1
    return batch
