"""What the planner needs to know of a model: stored with a job, or measured by a probe; it loads no model itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpclaunch.core.records import record
from hpclaunch.guidelines.memory import GRADIENT_BYTES, Model, Precision
from hpclaunch.guidelines.parallelism import FUSION_BYTES
from hpclaunch.guidelines.reasoning import Number, positive

if TYPE_CHECKING:
    from hpclaunch.guidelines.decoders import Decoder

HALVED = 0.5
"""Activation bytes in mixed precision relative to float32 (ResNet-50: 40.0 of 79.8 MiB per sample)."""


@record
class LayerFigures:
    """One layer: its name and its class in Keras, its trainable parameters, and its output values per sample."""

    name: str
    layer_class: str
    parameters: int
    outputs: int


@record
class ModelFigures:
    """The size and the arithmetic of a model, in float32.

    ``parameters``: trainable ones; ``fixed_parameters``: all others (statistics of batch norm, frozen layers).
    ``flops_per_sample``: floating-point operations of the forward pass of one sample; a multiply-add counts as two.
    ``flops_at_least``: some operations could not be counted (loops of recurrent layers).
    ``saved_bytes_per_sample``: bytes of one sample that the forward pass saves for the backward pass;
    ``saved_at_most``: this is an upper bound (the sum of all layers' outputs, up to 1.8 times too high), because the
    graph could not be read. ``layers``: in the order of the forward pass; empty if not known, and then
    ``largest_parameters`` may give the size of the largest one. ``operations``: those of the graph of a training step
    (None: not counted), on which a step's fixed time depends. ``origin``: how the figures were obtained, in words.

    What a split depends on, as far as the job says (None: not known; guidelines/memory.py): ``replicated_parameters``,
    ``first_stage_parameters``, ``last_stage_parameters``, ``repeated_bytes_per_sample``, ``kept_bytes_per_sample``,
    ``layer_bytes_per_sample``. ``tensor_collectives``: the dependent all-reduces of a tensor-parallel step, each of
    ``tensor_bytes_per_sample``. ``decoder``: the shape of a decoder language model, whose samples are tokens.
    """

    parameters: int
    fixed_parameters: int = 0
    flops_per_sample: float
    saved_bytes_per_sample: float
    saved_at_most: bool = False
    flops_at_least: bool = False
    layers: tuple[LayerFigures, ...] = ()
    largest_parameters: int | None = None
    operations: int | None = None
    replicated_parameters: float | None = None
    first_stage_parameters: float | None = None
    last_stage_parameters: float | None = None
    repeated_bytes_per_sample: float | None = None
    kept_bytes_per_sample: float | None = None
    layer_bytes_per_sample: float | None = None
    tensor_collectives: float | None = None
    tensor_bytes_per_sample: float | None = None
    decoder: Decoder | None = None
    origin: str

    def __post_init__(self) -> None:
        positive(
            parameters=self.parameters,
            flops_per_sample=self.flops_per_sample,
            saved_bytes_per_sample=self.saved_bytes_per_sample,
        )

    @property
    def doubts(self) -> tuple[str, ...]:
        """Which of the figures are only bounds, in words."""
        found = []
        if self.flops_at_least:
            found.append("forward FLOPs: a lower bound, since those in loops are not counted; measure the throughput")
        if self.saved_at_most:
            found.append(
                "saved for backward: an upper bound, the sum of all layers' outputs (the graph was not readable)"
            )
        return tuple(found)

    @property
    def largest_layer(self) -> int:
        """Parameters of the largest layer; if not known, at most as many as Horovod's fusion buffer holds."""
        largest = self.largest_parameters or min(self.parameters, FUSION_BYTES // GRADIENT_BYTES)
        return max((layer.parameters for layer in self.layers), default=largest)

    def model(self, precision: Precision) -> Model:
        """Return the input of the memory formulas. Keras keeps variables in float32 under mixed precision too."""
        share = HALVED if precision == "mixed" else 1.0
        return Model(
            parameters=self.parameters,
            saved_bytes=self.saved_bytes_per_sample * share,
            largest_layer=self.largest_layer,
            layers=tuple(float(layer.parameters) for layer in self.layers),
            unsplittable=self.replicated_parameters or 0.0,
            first_stage=self.first_stage_parameters,
            last_stage=self.last_stage_parameters,
            repeated_bytes=_scale(self.repeated_bytes_per_sample, share),
            kept_bytes=_scale(self.kept_bytes_per_sample, share),
            layer_bytes=_scale(self.layer_bytes_per_sample, share),
        )

    def numbers(self) -> tuple[Number, ...]:
        """Return the figures as a reason shows them."""
        return (
            Number(name="parameters", value=self.parameters, origin="given"),
            Number(name="forward FLOPs", value=self.flops_per_sample, unit="FLOP/sample", origin="given"),
            Number(name="saved for backward", value=self.saved_bytes_per_sample, unit="bytes/sample", origin="given"),
        )


def _scale(size: float | None, share: float) -> float | None:
    return None if size is None else size * share
