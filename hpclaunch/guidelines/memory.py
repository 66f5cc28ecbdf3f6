"""A GPU's memory in training: states, activations and the rest, and the largest batch that fits; it probes nothing."""

from __future__ import annotations

import math
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.parallelism import USABLE_MEMORY, Need
from hpclaunch.guidelines.reasoning import Number, Reason, positive

Precision = Literal["float32", "mixed"]

GRADIENT_BYTES = 4
"""Bytes of a gradient of one parameter: Keras keeps variables and gradients in float32 under ``mixed_*`` too."""
WEIGHT_BYTES, COPY_BYTES, SLOT_BYTES = 4, 2, 4
SLOTS: dict[str, int] = {"sgd": 0, "momentum": 1, "lars": 1, "larc": 1, "adam": 2, "adamw": 2, "lamb": 2}
"""Values that an optimizer keeps for every parameter; ``momentum`` is SGD with momentum."""
ALLOCATED = 1.1
"""Measured over probed activations: 1.09 to 1.14 (ResNet-50), 0.8 to 1.12 (VGG16), 1.10 to 1.13 (InceptionV3)."""
FUSION_BYTES = 128 * 2**20
"""Horovod's fusion buffer (0.28.1, operations.cc)."""
LIBRARY_BYTES = 2**30
"""About what the CUDA context, NCCL and cuDNN's workspace take."""
SOURCE = "Keras's float32 variables, Horovod's operations.cc, and peaks measured by the project"


def bytes_per_parameter(optimizer: str, precision: Precision) -> int:
    """Return bytes of weight, gradient and optimizer values of one parameter.

    float32: SGD 8, momentum 12, Adam, AdamW and LAMB 16; mixed precision adds the cast copy: Adam 18. Raises
    ValueError for an optimizer that is not known. Source: Keras mixed precision keeps variables in float32.
    """
    slots = SLOTS.get(optimizer.lower())
    if slots is None:
        raise ValueError(f"optimizer {optimizer!r} is not one of {', '.join(SLOTS)}")
    copy = COPY_BYTES if precision == "mixed" else 0
    return WEIGHT_BYTES + GRADIENT_BYTES + SLOT_BYTES * slots + copy


def states_bytes(parameters: float, optimizer: str, precision: Precision = "float32") -> float:
    """Return bytes of all weights, gradients and optimizer values. Raises ValueError like ``bytes_per_parameter``."""
    return parameters * bytes_per_parameter(optimizer, precision)


def activation_bytes(saved_bytes: float, batch: float) -> float:
    """Return bytes of activations of ``batch`` samples, of which the backward pass needs ``saved_bytes`` each."""
    return ALLOCATED * saved_bytes * batch


def transformer_layer_bytes(sequence: int, batch: int, hidden: int, heads: int, *, tensor_parallel: int = 1) -> float:
    """Return bytes of activations of one transformer layer in 16 bit, nothing recomputed.

    s b h (34 + 5 a s / h); split among t GPUs s b h (10 + 24 / t + 5 a s / (h t)). Source: Korthikanti et al. 2022.
    """
    positive(sequence=sequence, batch=batch, hidden=hidden, heads=heads, tensor_parallel=tensor_parallel)
    attention = 5 * heads * sequence / hidden
    return sequence * batch * hidden * (10 + (24 + attention) / tensor_parallel)


def other_bytes(largest_gradient_bytes: float = 0.0) -> float:
    """Return bytes of fusion buffer, CUDA libraries, and the largest gradient once more (its copy on the way)."""
    return FUSION_BYTES + LIBRARY_BYTES + largest_gradient_bytes


@record
class Model:
    """What is known of a model: parameters (and how many of them can be split), bytes that backward needs per sample.

    ``largest_layer``: parameters of the largest one. ``flops``: forward pass of one sample.
    """

    parameters: float
    saved_bytes: float
    flops: float = 0.0
    largest_layer: float = 0.0
    unsplittable: float = 0.0


@record
class Memory:
    """Memory of one GPU in training, bytes, against what it may fill."""

    states: float
    activations: float
    other: float
    usable: float
    reason: Reason

    @property
    def total(self) -> float:
        """Bytes of everything."""
        return self.states + self.activations + self.other

    @property
    def fits(self) -> bool:
        """Whether everything fits."""
        return self.total <= self.usable


def memory(
    model: Model, optimizer: str, precision: Precision, batch: int, gpu_bytes: float, *, gpus_per_replica: int = 1
) -> Memory:
    """Return the memory of one GPU for ``batch`` samples per replica, which ``gpus_per_replica`` GPUs share.

    Activations are counted as split evenly, as in Megatron's layers but for what each GPU repeats.
    Raises ValueError for an optimizer that is not known. Source: the sum of the formulas above.
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
    """Return the largest batch size of a replica, samples, that fits; 0 if not even one sample does.

    Raises ValueError if the bytes that a sample needs are not known (not above zero): then nothing limits the batch.
    """
    positive(saved_bytes=model.saved_bytes)
    one = memory(model, optimizer, precision, 1, gpu_bytes, gpus_per_replica=gpus_per_replica)
    room = one.usable - one.states - one.other
    found = max(0, math.floor(room / one.activations))
    # The division may round up to a batch that is a byte too large.
    while found and one.states + one.other + found * one.activations > one.usable:
        found -= 1
    return found


def need(model: Model, optimizer: str, precision: Precision, batch: int = 1) -> Need:
    """Return what one replica needs at its smallest batch, split into what GPUs can share and what each must hold."""
    shared = states_bytes(model.parameters - model.unsplittable, optimizer, precision)
    repeated = states_bytes(model.unsplittable, optimizer, precision)
    return Need(
        shardable_bytes=shared + activation_bytes(model.saved_bytes, batch),
        replicated_bytes=repeated + other_bytes(model.largest_layer * GRADIENT_BYTES),
    )
