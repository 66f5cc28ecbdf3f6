"""Makes Keras optimizers that every supported Horovod can wrap; wraps none itself."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

MOMENTUM = 0.9


def make(name: str, rate: float) -> Any:
    """The optimizer "adam" or "sgd" (momentum 0.9) with learning rate `rate`.

    From Keras 2.11 on the old classes live in `optimizers.legacy`; Horovod before 0.28 wraps only those, and they are
    what the published figures were made with.
    """
    legacy = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
    if name == "sgd":
        return legacy.SGD(rate, momentum=MOMENTUM)
    return legacy.Adam(rate)
