"""The number format of a model's arithmetic: float32, float16 with loss scaling, or bfloat16; weights stay float32."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np
import tensorflow as tf

from hpclaunch.training.failure import TrainingError

POLICIES = {"float32": "float32", "float16": "mixed_float16", "bfloat16": "mixed_bfloat16"}


def use(precision: str) -> None:
    """Compute in `precision` (a key of POLICIES) in all layers made from now on, unless one names its own dtype.

    Let a model's last layer name float32: a softmax in 16 bits loses small probabilities.
    """
    tf.keras.mixed_precision.set_global_policy(POLICIES[precision])


def scaled(optimizer: Any, precision: str) -> Any:
    """The optimizer, with dynamic loss scaling for float16: gradients below 6e-8 would be zero there.

    It goes around hvd.DistributedOptimizer, not into it: so ranks look at the same, averaged gradients when they
    decide whether a step overflowed, and keep the same scale.
    """
    if precision != "float16":
        return optimizer
    return tf.keras.mixed_precision.LossScaleOptimizer(optimizer)


def unscaled(optimizer: Any) -> Any:
    """The optimizer inside the loss scaling, or the optimizer itself."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def loss_scale_state(optimizer: Any) -> dict[str, np.ndarray]:
    """What the loss scaling of a model's optimizer has found out, for a checkpoint; empty without dynamic scaling.

    loss_scale: float32, by what losses are multiplied; loss_scale_good_steps: int64, steps since it last changed.
    Keras leaves both out of the optimizer's own variables.
    """
    if getattr(optimizer, "dynamic_counter", None) is None:
        return {}
    scale, steps = optimizer.loss_scale, optimizer.dynamic_counter
    return {
        "loss_scale": np.asarray(scale.numpy(), np.float32),
        "loss_scale_good_steps": np.asarray(steps.numpy(), np.int64),
    }


def restore_loss_scale(optimizer: Any, state: Mapping[str, Any]) -> None:
    """Put back what loss_scale_state gave (`state` may hold other names too), on every rank and before training.

    A run in float16 that began in another precision starts with Keras's first scale. Raises TrainingError if the state
    is none that training can leave.
    """
    if getattr(optimizer, "dynamic_counter", None) is None or "loss_scale" not in state:
        return
    scale, steps = float(state["loss_scale"]), int(state["loss_scale_good_steps"])
    if not 1 <= scale < float("inf") or steps < 0:
        raise TrainingError("the checkpoint's loss scale is {} after {} good steps: damaged".format(scale, steps))
    # The scale is handed out as a tensor; its variable is named only inside.
    optimizer._loss_scale.current_loss_scale.assign(scale)
    optimizer.dynamic_counter.assign(steps)
