"""GPU memory in training: states, activations and the rest, and the largest batch that fits; it probes no model."""

from __future__ import annotations

import math
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.parallelism import USABLE_MEMORY, Need
from hpclaunch.guidelines.reasoning import Number, Reason, positive

Precision = Literal["float32", "mixed"]

GRADIENT_BYTES = 4
"""Gradient bytes per parameter: Keras keeps variables and gradients in float32 under ``mixed_*`` too."""
WEIGHT_BYTES, COPY_BYTES, SLOT_BYTES = 4, 2, 4
SLOTS: dict[str, int] = {"sgd": 0, "momentum": 1, "lars": 1, "larc": 1, "adam": 2, "adamw": 2, "lamb": 2}
"""Values that an optimizer keeps per parameter; ``momentum`` is SGD with momentum."""
ALLOCATED = 1.1
"""Measured over probed activations: 1.09 to 1.14 (ResNet-50), 0.8 to 1.12 (VGG16), 1.10 to 1.13 (InceptionV3)."""
FUSION_BYTES = 128 * 2**20
"""Horovod's fusion buffer (0.28.1, operations.cc)."""
LIBRARY_BYTES = 2**30
"""Approximate memory of the CUDA context, NCCL and cuDNN's workspace."""
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


def other_bytes(largest_gradient_bytes: float = 0.0) -> float:
    """Return the bytes of the fusion buffer, the CUDA libraries, and a second copy of the largest gradient."""
    return FUSION_BYTES + LIBRARY_BYTES + largest_gradient_bytes


@record
class Model:
    """The figures of a model: parameters (and how many of them can be split), bytes saved for backward per sample.

    ``largest_layer``: parameters of the largest layer. ``flops``: operations of the forward pass of one sample.
    """

    parameters: float
    saved_bytes: float
    flops: float = 0.0
    largest_layer: float = 0.0
    unsplittable: float = 0.0


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


def memory(
    model: Model, optimizer: str, precision: Precision, batch: int, gpu_bytes: float, *, gpus_per_replica: int = 1
) -> Memory:
    """Return the memory of one GPU for ``batch`` samples per replica, which ``gpus_per_replica`` GPUs share.

    Activations count as split evenly; in Megatron's layers each GPU repeats a small part of them.
    Raises ValueError for an unknown optimizer. Source: the sum of the formulas above.
    """
    positive(parameters=model.parameters, batch=batch, gpu_bytes=gpu_bytes, gpus_per_replica=gpus_per_replica)
    here = (model.parameters - model.unsplittable) / gpus_per_replica + model.unsplittable
    states = states_bytes(here, optimizer, precision)
    activations = activation_bytes(model.saved_bytes, batch) / gpus_per_replica
    other = other_bytes(model.largest_layer * GRADIENT_BYTES)
    usable = USABLE_MEMORY * gpu_bytes
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
            verdict=f"{'fits' if fits else 'does not fit'}: {total / 1e9:.2f} of {usable / 1e9:.2f} GB",
            source=SOURCE,
        ),
    )


def largest_batch(
    model: Model, optimizer: str, precision: Precision, gpu_bytes: float, *, gpus_per_replica: int = 1
) -> int:
    """Return the largest batch size of a replica (samples) that fits; 0 if not even one sample does.

    Raises ValueError if the bytes per sample are not above zero: then nothing would limit the batch.
    """
    positive(saved_bytes=model.saved_bytes)
    single = memory(model, optimizer, precision, 1, gpu_bytes, gpus_per_replica=gpus_per_replica)
    room = single.usable - single.states - single.other
    batch = max(0, math.floor(room / single.activations))
    # Rounding in the division may give a batch that is a byte too large.
    while batch and single.states + single.other + batch * single.activations > single.usable:
        batch -= 1
    return batch


def need(model: Model, optimizer: str, precision: Precision, batch: int = 1) -> Need:
    """Return the bytes of one replica at its smallest batch: what GPUs can share, and what each must hold."""
    shared = states_bytes(model.parameters - model.unsplittable, optimizer, precision)
    repeated = states_bytes(model.unsplittable, optimizer, precision)
    return Need(
        shardable_bytes=shared + activation_bytes(model.saved_bytes, batch),
        replicated_bytes=repeated + other_bytes(model.largest_layer * GRADIENT_BYTES),
    )
