"""What the planner must know of a model, stored with a job or found by a probe; it looks at no model itself."""

from __future__ import annotations

from hpclaunch.core.records import record
from hpclaunch.guidelines.memory import FUSION_BYTES, GRADIENT_BYTES, Model, Precision
from hpclaunch.guidelines.reasoning import Number, positive

HALVED = 0.5
"""Bytes of activations in mixed precision over those in float32 (ResNet-50: 40.0 of 79.8 MiB a sample)."""


@record
class LayerFigures:
    """One layer: Keras's name and class of it, its trained parameters, the values that it puts out for one sample."""

    name: str
    kind: str
    parameters: int
    outputs: int


@record
class ModelFigures:
    """What a model needs, in float32.

    ``parameters``: what an optimizer trains; ``fixed_parameters``: what it does not (statistics of batch norm, frozen
    layers). ``flops_per_sample``: floating-point operations of the forward pass of one sample, a multiply-add is two.
    ``saved_bytes_per_sample``: what the backward pass needs of the forward pass of one sample; ``saved_at_most``: it
    is an upper bound (the sum of all layers' outputs, up to 1.8 times too high), because the graph could not be read.
    ``flops_at_least``: some operations could not be counted (loops of recurrent layers).
    ``layers``: in the order of the forward pass; empty where not known, and then ``largest_parameters`` may say what
    the largest one has. ``origin``: in words, how all this was found.
    """

    parameters: int
    fixed_parameters: int = 0
    flops_per_sample: float
    saved_bytes_per_sample: float
    saved_at_most: bool = False
    flops_at_least: bool = False
    layers: tuple[LayerFigures, ...] = ()
    largest_parameters: int | None = None
    origin: str

    def __post_init__(self) -> None:
        positive(
            parameters=self.parameters,
            flops_per_sample=self.flops_per_sample,
            saved_bytes_per_sample=self.saved_bytes_per_sample,
        )

    @property
    def doubts(self) -> tuple[str, ...]:
        """What of this is a bound, in words."""
        found = []
        if self.flops_at_least:
            found.append("forward FLOPs: at least so many, as those in loops are not counted; measure the throughput")
        if self.saved_at_most:
            found.append("saved for backward: at most the sum of all layers' outputs; TensorFlow does not tell")
        return tuple(found)

    @property
    def largest_layer(self) -> int:
        """Parameters of the largest layer; where that is not known, at most what Horovod's fusion buffer holds."""
        largest = self.largest_parameters or min(self.parameters, FUSION_BYTES // GRADIENT_BYTES)
        return max((layer.parameters for layer in self.layers), default=largest)

    def model(self, precision: Precision) -> Model:
        """Return what the memory formulas take. Keras keeps variables in float32 under mixed precision too."""
        share = HALVED if precision == "mixed" else 1.0
        return Model(
            parameters=self.parameters,
            saved_bytes=self.saved_bytes_per_sample * share,
            flops=self.flops_per_sample,
            largest_layer=self.largest_layer,
        )

    def numbers(self) -> tuple[Number, ...]:
        """Return the figures as a reason shows them."""
        return (
            Number(name="parameters", value=self.parameters, origin="given"),
            Number(name="forward FLOPs", value=self.flops_per_sample, unit="FLOP/sample", origin="given"),
            Number(name="saved for backward", value=self.saved_bytes_per_sample, unit="bytes/sample", origin="given"),
        )
