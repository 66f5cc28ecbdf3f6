"""The number format of a model's arithmetic: float32, float16 with loss scaling, or bfloat16; weights stay float32."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

POLICIES = {"float32": "float32", "float16": "mixed_float16", "bfloat16": "mixed_bfloat16"}


def use(precision: str) -> None:
    """Compute in `precision` (a key of POLICIES) in all layers made from now on, unless a layer has its own dtype.

    The last layer of a model should have float32: a softmax in 16 bits loses small probabilities.
    """
    tf.keras.mixed_precision.set_global_policy(POLICIES[precision])


def scaled(optimizer: Any, precision: str) -> Any:
    """The optimizer, with dynamic loss scaling for float16, in which gradients below 6e-8 would be zero.

    Loss scaling wraps hvd.DistributedOptimizer, and not the reverse. So all ranks check the same averaged gradients for
    an overflow, and keep the same scale.
    """
    if precision != "float16":
        return optimizer
    return tf.keras.mixed_precision.LossScaleOptimizer(optimizer)


def unscaled(optimizer: Any) -> Any:
    """The optimizer inside the loss scaling, or the optimizer itself."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def scale_variables(optimizer: Any) -> list[Any]:
    """The variables of float16's loss scaling, for checkpoints: the scale, and the steps since its last change."""
    scale = getattr(optimizer, "_loss_scale", None)
    return [] if scale is None else [scale._current_loss_scale, scale._counter]


def plain(variables: Sequence[Any]) -> list[Any]:
    """The float32 variables inside the casting variables of a 16-bit model, as arguments of a tf.function.

    Before TensorFlow 2.12 it accepts no casting ones ("could not be represented through the generic tracing type").
    """
    return [getattr(one, "_variable", one) if type(one).__name__.startswith("AutoCast") else one for one in variables]
