"""A checkpoint in one file, which rank 0 writes and every rank reads, where ranks have no state of their own."""

from __future__ import annotations

import os
from typing import Any, Callable

from hpclaunch.training.checkpoints.folders import failure_text
from hpclaunch.training.checkpoints.resuming import folder_of
from hpclaunch.training.input import loading
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.world import World


def save(world: World, name: str, write: Callable[[str], Any]) -> None:
    """Let `write` write the checkpoint to the path that it is given, then rename it to `name`. A collective.

    So a file of that name is always complete. Raises AgreedError on every rank if it cannot be written.
    """

    def on_root() -> None:
        path = os.path.join(folder_of(world), name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write(path + ".new")
            os.replace(path + ".new", path)
        except OSError as error:
            raise TrainingError(failure_text(path, os.path.dirname(path), error)) from error

    loading.from_root(world, on_root)


def found(world: World, name: str) -> str:
    """The path of the checkpoint, the same on every rank; empty if there is none yet. A collective."""
    path = os.path.join(folder_of(world), name)
    exists = loading.from_root(world, lambda: os.path.isfile(path))
    if exists and world.is_root:
        print("resuming from {}".format(path), flush=True)
    return path if exists else ""
