"""Makes the optimizers that a job can ask for, of classes that every supported Horovod wraps; wraps none itself.

What needs TensorFlow is imported when an optimizer is made: the rows are read before it starts.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

LARC_TRUST = 0.02  # apex's default; LARS's 0.001 would leave the global rate without a say


class Wanted(NamedTuple):
    """What an optimizer is made of: the arguments of `make`."""

    rate: float
    weight_decay: float
    momentum: float
    exclude_vectors: bool
    momentum_correction: bool

    @property
    def layer(self) -> Any:
        """The arguments of an optimizer with weight decay."""
        return {"weight_decay": self.weight_decay, "exclude_vectors": self.exclude_vectors}


class Row(NamedTuple):
    """One optimizer. has_weight_decay: it takes --weight-decay; is_adaptive: it divides by the gradient's size."""

    make: Callable[[Wanted], Any]
    has_weight_decay: bool = False
    is_adaptive: bool = False


def _sgd(wanted: Wanted) -> Any:
    from hpclaunch.training.optimization.momentum import MomentumSGD
    from hpclaunch.training.rank import legacy_keras

    corrected = wanted.momentum_correction and wanted.momentum > 0
    kind = MomentumSGD if corrected else legacy_keras.SGD
    return kind(wanted.rate, momentum=wanted.momentum)


def _adam(wanted: Wanted) -> Any:
    from hpclaunch.training.rank import legacy_keras

    return legacy_keras.Adam(wanted.rate)


def _adamw(wanted: Wanted) -> Any:
    from hpclaunch.training.optimization.lamb import AdamW

    return AdamW(wanted.rate, **wanted.layer)


def _lamb(wanted: Wanted) -> Any:
    from hpclaunch.training.optimization.lamb import Lamb

    return Lamb(wanted.rate, **wanted.layer)


def _lars(wanted: Wanted) -> Any:
    from hpclaunch.training.optimization.lars import Lars

    return Lars(wanted.rate, momentum=wanted.momentum, **wanted.layer)


def _larc(wanted: Wanted) -> Any:
    from hpclaunch.training.optimization.lars import Lars

    return Lars(wanted.rate, momentum=wanted.momentum, trust=LARC_TRUST, clip=True, name="Larc", **wanted.layer)


ROWS = {
    "adam": Row(_adam, is_adaptive=True),
    "adamw": Row(_adamw, has_weight_decay=True, is_adaptive=True),
    "lamb": Row(_lamb, has_weight_decay=True, is_adaptive=True),
    "larc": Row(_larc, has_weight_decay=True),
    "lars": Row(_lars, has_weight_decay=True),
    "sgd": Row(_sgd),
}
NAMES = tuple(ROWS)
WITH_WEIGHT_DECAY = tuple(name for name, row in ROWS.items() if row.has_weight_decay)
ADAPTIVE = tuple(name for name, row in ROWS.items() if row.is_adaptive)


def make(
    name: str,
    rate: float,
    weight_decay: float = 0.0,
    momentum: float = 0.9,
    exclude_vectors: bool = True,
    momentum_correction: bool = True,
) -> Any:
    """The optimizer `name` (one of NAMES) with learning rate `rate`.

    momentum: of sgd, lars and larc. weight_decay: of those that have it (Row); exclude_vectors: leaves biases and
    normalization out of it, and out of layer-wise rates. momentum_correction: of sgd; without it, it is Keras's own.
    """
    if name not in ROWS:
        raise ValueError("{!r} is none of {}".format(name, ", ".join(NAMES)))
    return ROWS[name].make(Wanted(rate, weight_decay, momentum, exclude_vectors, momentum_correction))


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
