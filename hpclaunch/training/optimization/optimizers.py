"""Makes the optimizers that a job can choose, of classes that every supported Horovod can wrap; wraps none itself.

Modules that need TensorFlow are imported when an optimizer is made, because the rows are read before TensorFlow starts.
"""

from __future__ import annotations

import argparse
from typing import Any, Callable, NamedTuple

from hpclaunch.training import options

LARC_TRUST = 0.02  # apex's default; with LARS's 0.001 the global rate would have no effect


class Row(NamedTuple):
    """One optimizer. is_adaptive: it divides by the gradient's size.

    make: gets the learning rate, and the options of the job (parameters.json). needs_matrices: its step of a weight
    depends on the whole matrix, so no rank may hold only a part of it.
    """

    make: Callable[[float, Any], Any]
    is_adaptive: bool = False
    needs_matrices: bool = False


def _decay(asked: Any) -> Any:
    """The arguments of an optimizer with weight decay."""
    return {"weight_decay": asked.weight_decay, "exclude_vectors": asked.exclude_vectors}


def _sgd(rate: float, asked: Any) -> Any:
    from hpclaunch.training.optimization.momentum import MomentumSGD
    from hpclaunch.training.rank import legacy_keras

    corrected = asked.momentum_correction and asked.momentum > 0
    kind = MomentumSGD if corrected else legacy_keras.SGD
    return kind(rate, momentum=asked.momentum)


def _adam(rate: float, asked: Any) -> Any:
    from hpclaunch.training.rank import legacy_keras

    return legacy_keras.Adam(rate)


def _adamw(rate: float, asked: Any) -> Any:
    from hpclaunch.training.optimization.lamb import AdamW

    return AdamW(rate, **_decay(asked))


def _lamb(rate: float, asked: Any) -> Any:
    from hpclaunch.training.optimization.lamb import Lamb

    return Lamb(rate, **_decay(asked))


def _lars(rate: float, asked: Any) -> Any:
    from hpclaunch.training.optimization.lars import Lars

    return Lars(rate, momentum=asked.momentum, **_decay(asked))


def _larc(rate: float, asked: Any) -> Any:
    from hpclaunch.training.optimization.lars import Lars

    return Lars(rate, momentum=asked.momentum, trust=LARC_TRUST, clip=True, name="Larc", **_decay(asked))


def _muon(rate: float, asked: Any) -> Any:
    from hpclaunch.training.optimization.muon import Muon

    return Muon(rate, momentum=asked.muon_momentum, weight_decay=asked.weight_decay)


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


def make(name: str, rate: float, **chosen: Any) -> Any:
    """The optimizer `name` (one of NAMES) with learning rate `rate`, and the options `chosen`.

    The others have their defaults. parameters.json tells both, and which of them an optimizer has.
    """
    defaults = {option: row["default"] for option, row in options.rows_of({options.FROM: "optimizer"}).items()}
    if not chosen.keys() <= defaults.keys():
        raise TypeError("{} is not one of {}".format(", ".join(chosen.keys() - defaults.keys()), ", ".join(defaults)))
    return from_options(argparse.Namespace(**{**defaults, **chosen, "optimizer": name}), rate)


def from_options(asked: Any, rate: float) -> Any:
    """The optimizer of a job's options (parameters.json), with learning rate `rate`."""
    if asked.optimizer not in ROWS:
        raise ValueError("{!r} is not one of {}".format(asked.optimizer, ", ".join(NAMES)))
    return ROWS[asked.optimizer].make(rate, asked)
