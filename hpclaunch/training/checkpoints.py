"""Writes checkpoints so that there is always a whole one: temporary name, fsync, rename; keeps the last two."""

from __future__ import annotations

import errno
import os
import re
from typing import Any, Mapping

import numpy as np

from hpclaunch.training.failure import TrainingError

KEEP = 2
_NAME = re.compile(r"^epoch-(\d+)\.npz$")


def save(folder: str, epoch: int, arrays: Mapping[str, Any]) -> str:
    """Write `arrays` as folder/epoch-NNNN.npz (epochs finished) and remove all but the last two; returns its path.

    Raises TrainingError if it cannot be written; checkpoints that were there stay as they are.
    """
    path = os.path.join(folder, "epoch-{:04d}.npz".format(epoch))
    temporary = path + ".partial"
    try:
        os.makedirs(folder, exist_ok=True)
        with open(temporary, "wb") as file:
            np.savez(file, epoch=np.int64(epoch), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(folder)
    except OSError as error:
        _remove(temporary)
        raise TrainingError(_failure_text(path, folder, error)) from error
    for old in _existing(folder)[:-KEEP]:
        _remove(os.path.join(folder, old))
    return path


def latest(folder: str) -> str | None:
    """Path of the newest whole checkpoint, or None."""
    names = _existing(folder)
    return os.path.join(folder, names[-1]) if names else None


def model_state(model: Any) -> dict[str, Any]:
    """Weights and optimizer state of a compiled Keras model: arrays weight-NNN and optimizer-NNN, in Keras's order."""
    state = {"weight-{:03d}".format(n): value for n, value in enumerate(model.get_weights())}
    for n, variable in enumerate(model.optimizer.variables()):
        state["optimizer-{:03d}".format(n)] = variable.numpy()
    return state


def _existing(folder: str) -> list[str]:
    try:
        names = [name for name in os.listdir(folder) if _NAME.match(name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(names, key=lambda name: int(_NAME.match(name).group(1)))  # type: ignore[union-attr]


def _failure_text(path: str, folder: str, error: OSError) -> str:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    reason = "the disk is full or the quota is used up" if full else error.strerror or str(error)
    good = latest(folder)
    kept = "the last good checkpoint is {}".format(good) if good else "there is no earlier checkpoint"
    return "cannot write the checkpoint {}: {} ({}); {}.".format(path, reason, error.strerror, kept)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems refuse it; the rename itself has happened
        pass
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        pass
