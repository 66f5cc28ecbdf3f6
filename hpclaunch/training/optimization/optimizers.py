"""Makes the optimizers that a job can choose, of classes that every supported Horovod can wrap; wraps none itself."""

from __future__ import annotations

from typing import Any

from hpclaunch.training.optimization.lamb import AdamW, Lamb
from hpclaunch.training.optimization.lars import Lars
from hpclaunch.training.optimization.momentum import MomentumSGD
from hpclaunch.training.rank import legacy_keras

NAMES = ("adam", "adamw", "lamb", "larc", "lars", "sgd")
LARC_TRUST = 0.02  # apex's default; with LARS's 0.001 the global rate would have no effect


def make(
    name: str,
    rate: float,
    weight_decay: float = 0.0,
    momentum: float = 0.9,
    exclude_vectors: bool = True,
    momentum_correction: bool = True,
) -> Any:
    """The optimizer `name` (one of NAMES) with learning rate `rate`.

    momentum: of sgd, lars and larc. weight_decay: of adamw, lamb, lars and larc. exclude_vectors: exclude biases and
    normalization from weight decay and layer-wise rates. momentum_correction: of sgd; without it, sgd is Keras's own.
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
    raise ValueError("{!r} is not one of {}".format(name, ", ".join(NAMES)))


def from_options(asked: Any, rate: float) -> Any:
    """The optimizer of a job's options (parameters.json), with learning rate `rate`."""
    return make(
        asked.optimizer,
        rate,
        asked.weight_decay,
        asked.momentum,
        asked.exclude_vectors,
        asked.momentum_correction,
    )
