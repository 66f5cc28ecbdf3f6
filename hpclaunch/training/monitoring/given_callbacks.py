"""The Keras callbacks that a program gives to `fit`: which cannot work, which belong to rank 0, and what they know."""

from __future__ import annotations

import math
from typing import Any, Sequence

import tensorflow as tf

from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World

_KERAS = tf.keras.callbacks
ON_ROOT = (_KERAS.ModelCheckpoint, _KERAS.CSVLogger, _KERAS.TensorBoard, _KERAS.RemoteMonitor, _KERAS.ProgbarLogger)
"""They write a file, a message or the screen: once for the run, not once for each rank."""
_STATE = (
    (_KERAS.EarlyStopping, ("wait", "best", "best_epoch", "stopped_epoch")),
    (_KERAS.ReduceLROnPlateau, ("wait", "best", "cooldown_counter")),
    (_KERAS.ModelCheckpoint, ("best", "epochs_since_last_save")),
)
"""The numbers by which Keras's callbacks decide. Keras itself forgets them when training is interrupted."""
Known = list  # of [name of the class, {attribute: number}], one for each callback of the program


def check(given: Sequence[Any], world: World) -> None:
    """Raise AgreedError with the callbacks that cannot work, and what to use instead."""
    found = [text for text in map(_why_not, given) if text]
    if world.mesh is not None and any(isinstance(one, _KERAS.ModelCheckpoint) for one in given):
        found.append(
            "ModelCheckpoint: rank 0 has a part of the model alone. Leave it out, and set --keep-best=true or "
            "--restore-best=true"
        )
    if found:
        raise AgreedError("; ".join(found), speaks=world.is_root)


def _why_not(one: Any) -> str:
    if not isinstance(one, _KERAS.Callback):
        return "callbacks: {!r} is not a Keras callback".format(type(one).__name__)
    if isinstance(one, _KERAS.BackupAndRestore):
        return "BackupAndRestore: leave it out. The run's own checkpoints resume it, with the state of all ranks"
    if isinstance(one, _KERAS.EarlyStopping) and one.restore_best_weights:
        return (
            "EarlyStopping(restore_best_weights=True) keeps the best weights in memory alone, so a resumed run would "
            "lose them: leave it out, and set --restore-best=true"
        )
    if type(one).__module__.startswith("horovod."):
        return "{} of Horovod: leave it out. The library does its work already".format(type(one).__name__)
    return ""


def own_of(given: Sequence[Any], world: World) -> list[Any]:
    """The callbacks that this rank calls."""
    return [one for one in given if world.is_root or not isinstance(one, ON_ROOT)]


def known_by(given: Sequence[Any]) -> Known:
    """What Keras's callbacks have counted, as values for JSON; infinite values, which they begin with, are left out."""
    return [[type(one).__name__, _numbers(one)] for one in given]


def _numbers(one: Any) -> dict[str, float]:
    values = {name: getattr(one, name, None) for name in _names(one)}
    finite = {name: value for name, value in values.items() if value is not None and math.isfinite(value)}
    return {name: value if type(value) is int else float(value) for name, value in finite.items()}


def _names(one: Any) -> tuple[str, ...]:
    return next((names for cls, names in _STATE if isinstance(one, cls)), ())


def put_back(given: Sequence[Any], known: Known, world: World) -> None:
    """Give the callbacks what those of an earlier attempt have counted, after on_train_begin, which forgets it.

    If the program now has other callbacks, theirs begins anew, and rank 0 says so.
    """
    if [name for name, _ in known] != [type(one).__name__ for one in given]:
        if known and world.is_root:
            print("warning: the callbacks are not those of the checkpoint; they start from the beginning", flush=True)
        return
    for one, (_, numbers) in zip(given, known):
        for name in set(numbers) & set(_names(one)):
            setattr(one, name, numbers[name])
