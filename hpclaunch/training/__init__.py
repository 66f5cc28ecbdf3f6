"""The library of a rank, for a training script: settings, start, data, fit, evaluate. It never imports the launcher.

A script imports this module alone, ``from hpclaunch import training``, and uses the names in `__all__`
(docs/training.md). A name is loaded when it is first used: the settings need no TensorFlow, and TensorFlow must not be
imported before `start` has set this rank up.

It needs only Python 3.8, NumPy, TensorFlow 2.9-2.20, and Horovod or a strategy of TensorFlow; on_pytorch and on_jax,
the same for programs of PyTorch and JAX, need one of these in place of TensorFlow. From TensorFlow 2.16 on it needs
tf-keras (rank.keras_version).
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from hpclaunch.training.rank import keras_version

if TYPE_CHECKING:
    from hpclaunch.training import layers
    from hpclaunch.training.program.fit import fit
    from hpclaunch.training.program.loop import Loop, loop
    from hpclaunch.training.program.own_arrays import arrays
    from hpclaunch.training.program.own_records import records
    from hpclaunch.training.program.own_samples import samples
    from hpclaunch.training.program.plain_data import data_folder
    from hpclaunch.training.program.preparation import batch_norm
    from hpclaunch.training.program.results import evaluate
    from hpclaunch.training.program.run import Run, start
    from hpclaunch.training.program.settings import Settings, settings
    from hpclaunch.training.program.sharded_data import Data, data, image_folder, image_set, source

__all__ = [
    "Data",
    "Loop",
    "Run",
    "Settings",
    "arrays",
    "batch_norm",
    "data",
    "data_folder",
    "evaluate",
    "fit",
    "image_folder",
    "image_set",
    "layers",
    "loop",
    "records",
    "samples",
    "settings",
    "source",
    "start",
]

_HOMES = {
    "plain_data": ("data_folder",),
    "sharded_data": ("Data", "data", "image_folder", "image_set", "source"),
    "fit": ("fit",),
    "loop": ("Loop", "loop"),
    "own_arrays": ("arrays",),
    "own_records": ("records",),
    "own_samples": ("samples",),
    "preparation": ("batch_norm",),
    "results": ("evaluate",),
    "run": ("Run", "start"),
    "settings": ("Settings", "settings"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "layers":
        return importlib.import_module("hpclaunch.training.layers")
    if name not in _HOME_OF:
        raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))
    return getattr(importlib.import_module("hpclaunch.training.program." + _HOME_OF[name]), name)


keras_version.prefer_keras_2(os.environ)
