"""Horovod's module for TensorFlow, loaded when it is first used: a strategy of TensorFlow needs none of it."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from hpclaunch.training.rank.failure import TrainingError


class _Loaded:
    """What `import horovod.tensorflow as hvd` gives. Raises TrainingError where Horovod cannot be loaded."""

    def __getattr__(self, name: str) -> Any:
        return getattr(load("horovod.tensorflow"), name)


hvd = _Loaded()


def load(module: str) -> Any:
    """A module of Horovod by its name. Raises TrainingError if it cannot be loaded."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # a library built for another TensorFlow may raise other errors than ImportError
        import tensorflow as tf

        raise TrainingError(
            "Horovod cannot be loaded with TensorFlow {} by {}: {}. Build it where this TensorFlow can be imported "
            "(HOROVOD_WITH_TENSORFLOW=1), or train without it: --strategy=multiworker, or on one node "
            "--strategy=mirrored.".format(tf.__version__, sys.executable, error)
        ) from error
