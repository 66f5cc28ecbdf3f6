"""Makes the optimizers that a job can choose, of classes that every supported Horovod can wrap; wraps none itself.

Modules that need TensorFlow are imported when an optimizer is made, because the rows are read before TensorFlow starts.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

LARC_TRUST = 0.02  # apex's default; with LARS's 0.001 the global rate would have no effect


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
    """One optimizer. is_adaptive: it divides by the gradient's size.

    needs_matrices: its step of a weight depends on the whole matrix, so no rank may hold only a part of it.
    """

    make: Callable[[Wanted], Any]
    is_adaptive: bool = False
    needs_matrices: bool = False


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


def _muon(wanted: Wanted) -> Any:
    from hpclaunch.training.optimization.muon import Muon

    return Muon(wanted.rate, momentum=wanted.momentum, weight_decay=wanted.weight_decay)


ROWS = {
    "adam": Row(_adam, is_adaptive=True),
    "adamw": Row(_adamw, is_adaptive=True),
    "lamb": Row(_lamb, is_adaptive=True),
    "larc": Row(_larc),
    "lars": Row(_lars),
    "muon": Row(_muon, is_adaptive=True, needs_matrices=True),
    "sgd": Row(_sgd),
}
NAMES = tuple(ROWS)
OF_MATRICES = tuple(name for name, row in ROWS.items() if row.needs_matrices)
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

    momentum: of sgd, lars, larc and muon. weight_decay: of those that have it (parameters.json, effects).
    exclude_vectors: exclude biases and normalization from weight decay and layer-wise rates. momentum_correction: of
    sgd; without it, sgd is Keras's.
    """
    if name not in ROWS:
        raise ValueError("{!r} is not one of {}".format(name, ", ".join(NAMES)))
    return ROWS[name].make(Wanted(rate, weight_decay, momentum, exclude_vectors, momentum_correction))


def from_options(asked: Any, rate: float) -> Any:
    """The optimizer of a job's options (parameters.json), with learning rate `rate`."""
    return make(
        asked.optimizer,
        rate,
        asked.weight_decay,
        asked.muon_momentum if asked.optimizer == "muon" else asked.momentum,
        asked.exclude_vectors,
        asked.momentum_correction,
    )
