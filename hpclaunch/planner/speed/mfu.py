"""The model FLOP utilization that a plan expects: how much of its GPUs' peak the model's own operations use."""

from __future__ import annotations

from hpclaunch.guidelines.hardware import FORWARD_AND_BACKWARD
from hpclaunch.guidelines.intervals import Interval, scaled
from hpclaunch.planner.amounts import Mfu
from hpclaunch.planner.speed.prediction import Predictor

NAMES = {"float32": "float32", "tf32": "TF32", "mixed": "16 bits"}
"""The arithmetic of a peak in words."""


def mfu_of(predictor: Predictor, samples_per_s: Interval, ranks: int) -> Mfu | None:
    """Return the expected utilization of so many ranks; None if they do not compute on GPUs of known peaks.

    Three times the operations of the forward pass count, of a decoder those of ``Decoder.model_flops``. Source:
    Chowdhery et al. 2022 (PaLM), arXiv 2204.02311, appendix B.
    """
    node, figures, work = predictor.node, predictor.figures, predictor.work
    if not node.on_gpus or node.speed is None or node.speed.is_measured:
        return None
    arithmetic = work.arithmetic(node.speed.tf32 > 0)
    peak = node.speed.peak(arithmetic)
    decoder = figures.decoder
    flops = decoder.model_flops * decoder.context if decoder else FORWARD_AND_BACKWARD * figures.flops_per_sample
    return Mfu(
        share=scaled(samples_per_s, flops / (ranks * peak * 1e12)),
        peak=peak,
        arithmetic=NAMES[arithmetic],
        device=node.speed.name,
        flops=flops,
    )
