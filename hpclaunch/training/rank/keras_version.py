"""Lets tf.keras be Keras 2, with which Horovod works; says what to do where it is Keras 3. It imports no TensorFlow.

TensorFlow 2.16 and newer have Keras 3. There tf.keras is the package tf-keras, which is Keras 2, if TF_USE_LEGACY_KERAS
is 1 when TensorFlow is imported. Programs that use no Keras may leave it as it is.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from importlib import metadata
from typing import Any, Container, MutableMapping

from hpclaunch.training.rank.failure import TrainingError

VARIABLE = "TF_USE_LEGACY_KERAS"
_ON = ("1", "true", "True")  # what TensorFlow takes for yes
OLDEST, NEWEST = (2, 9), (2, 20)
"""The TensorFlow versions between which programs of this library were run (docs/training.md names each)."""


def prefer_keras_2(environ: MutableMapping[str, str], imported: Container[str] = sys.modules) -> None:
    """Set or remove TF_USE_LEGACY_KERAS, so that tf.keras will be Keras 2. `imported`: the modules that are loaded.

    A value that somebody has chosen is kept, and so is one that TensorFlow has read already. Without the package
    tf-keras the variable is removed: TensorFlow 2.15 would find no Keras at all, although its own is Keras 2.
    """
    if not _has_tf_keras():
        environ.pop(VARIABLE, None)
    elif "tensorflow" not in imported and _has_keras_3() and not environ.get(VARIABLE):
        environ[VARIABLE] = "1"


def is_loaded_keras_3(tensorflow: Any) -> bool:
    """Whether the program has loaded Keras 3 as tf.keras, which TensorFlow itself does on first use only."""
    return str(vars(tensorflow.keras).get("__version__", "")).startswith("3.")


def is_keras_2(tensorflow: Any) -> bool:
    """Whether tf.keras is Keras 2. This loads it."""
    return not str(getattr(tensorflow.keras, "__version__", "")).startswith("3.")


def require(tensorflow: Any) -> None:
    """Raise TrainingError, with what to do, if tf.keras is not Keras 2."""
    if not is_keras_2(tensorflow):
        raise TrainingError(refusal(tensorflow.__version__))


def refusal(tensorflow: str) -> str:
    """Why Keras 3 cannot be used with this version of TensorFlow, and what to do, in words."""
    why = (
        "tf.keras of TensorFlow {} is Keras 3 here, but Horovod's optimizers work with Keras 2 only, which is the "
        "package tf-keras from TensorFlow 2.16 on. ".format(tensorflow)
    )
    if not _has_tf_keras():
        return why + "Install it: pip install --no-deps 'tf-keras=={}.*'".format(".".join(_version(tensorflow)))
    return why + (
        "It is installed: add the line `from hpclaunch import training` above the program's first import of "
        "TensorFlow, or the line `export {}=1` before the program starts{}.".format(VARIABLE, _chosen_otherwise())
    )


def untried(tensorflow: str) -> str:
    """A line about a TensorFlow version that this library was not run with; empty for the others."""
    number = tuple(int(part) for part in _version(tensorflow))
    if not number or OLDEST <= number <= NEWEST:
        return ""
    return "TensorFlow {}: hpclaunch.training was not tried with it, but with {}.{} to {}.{}".format(
        tensorflow, *OLDEST, *NEWEST
    )


def _chosen_otherwise() -> str:
    value = os.environ.get(VARIABLE)
    return "" if not value or value in _ON else " (it is {!r} now)".format(value)


def _has_tf_keras() -> bool:
    return importlib.util.find_spec("tf_keras") is not None


def _has_keras_3() -> bool:
    try:
        return int(metadata.version("keras").split(".")[0]) >= 3
    except (metadata.PackageNotFoundError, ValueError):
        return False


def _version(text: str) -> list[str]:
    numbers = re.findall(r"\d+", text)[:2]
    return numbers if len(numbers) == 2 else []
