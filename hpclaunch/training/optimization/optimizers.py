"""Makes the optimizers that a job can ask for, of classes that every supported Horovod wraps; wraps none itself."""

from __future__ import annotations

from typing import Any

from hpclaunch.training.optimization.lamb import AdamW, Lamb
from hpclaunch.training.optimization.lars import Lars
from hpclaunch.training.optimization.momentum import MomentumSGD
from hpclaunch.training.rank import legacy_keras

NAMES = ("adam", "adamw", "lamb", "larc", "lars", "sgd")
LARC_TRUST = 0.02  # apex's default; LARS's 0.001 would leave the global rate without a say


def make(
    name: str,
    rate: float,
    weight_decay: float = 0.0,
    momentum: float = 0.9,
    exclude_vectors: bool = True,
    momentum_correction: bool = True,
) -> Any:
    """The optimizer `name` (one of NAMES) with learning rate `rate`.

    momentum: of sgd, lars and larc. weight_decay: of adamw, lamb, lars and larc; exclude_vectors: leaves biases and
    normalization out of it, and out of layer-wise rates. momentum_correction: of sgd; without it, it is Keras's own.
    """
    layer: dict[str, Any] = {"weight_decay": weight_decay, "exclude_vectors": exclude_vectors}
    if name == "sgd":
        corrected = momentum_correction and momentum > 0
        return MomentumSGD(rate, momentum) if corrected else legacy_keras.SGD(rate, momentum=momentum)
    if name == "adam":
        return legacy_keras.Adam(rate)
    if name == "adamw":
        return AdamW(rate, **layer)
    if name == "lamb":
        return Lamb(rate, **layer)
    if name == "lars":
        return Lars(rate, momentum=momentum, **layer)
    if name == "larc":
        return Lars(rate, momentum=momentum, trust=LARC_TRUST, clip=True, name="Larc", **layer)
    raise ValueError("{!r} is none of {}".format(name, ", ".join(NAMES)))


def asked_for(asked: Any, rate: float) -> Any:
    """The optimizer that a job's options ask for (parameters.json), with learning rate `rate`."""
    return make(
        asked.optimizer,
        rate,
        asked.weight_decay,
        asked.momentum,
        asked.exclude_vectors,
        asked.momentum_correction,
    )
