"""A checkpoint in one file, which rank 0 writes and every rank reads, where ranks have no state of their own."""

from __future__ import annotations

import os
import re
from typing import Any, Callable

from hpclaunch.training.checkpoints.folders import failure_text, sync_folder
from hpclaunch.training.checkpoints.resuming import folder_of
from hpclaunch.training.input import loading
from hpclaunch.training.rank import fence
from hpclaunch.training.rank.failure import TrainingError, leave_if_superseded
from hpclaunch.training.rank.world import World


def save(world: World, name: str, write: Callable[[str], Any]) -> None:
    """Let `write` write the checkpoint to the path that it is given, then rename it to `name`. A collective.

    So a file of that name is always complete. The number of this start is a part of the name: what a superseded start
    still completes lies beside the file of the later one, which is the newer (rank.fence). Raises AgreedError on every
    rank if it cannot be written.
    """

    def on_root() -> None:
        leave_if_superseded()
        folder = folder_of(world)
        earlier = _list_existing(folder, name)
        start = max([fence.number(), *(number for number, _ in earlier)])
        path = os.path.join(folder, _name_of_start(name, start))
        try:
            os.makedirs(folder, exist_ok=True)
            write(path + ".new")
            with open(path + ".new", "rb") as file:
                os.fsync(file.fileno())
            leave_if_superseded()
            os.replace(path + ".new", path)
            sync_folder(folder)
        except OSError as error:
            raise TrainingError(failure_text(path, folder, error)) from error
        leave_if_superseded()
        for number, old in earlier:
            if number < start:
                os.remove(old)

    loading.from_root(world, on_root)


def found(world: World, name: str) -> str:
    """The path of the newest start's checkpoint, the same on every rank; empty if there is none yet. A collective."""
    paths = loading.from_root(world, lambda: [path for _, path in _list_existing(folder_of(world), name)])
    if paths and world.is_root:
        print("resuming from {}".format(paths[-1]), flush=True)
    return str(paths[-1]) if paths else ""


def _name_of_start(name: str, start: int) -> str:
    stem, kind = os.path.splitext(name)
    return "{}-start-{}{}".format(stem, start, kind) if start else name


def _list_existing(folder: str, name: str) -> list[tuple[int, str]]:
    """The checkpoints of this name: the start that wrote each, and its path; the newest last."""
    stem, kind = map(re.escape, os.path.splitext(name))
    pattern = re.compile("^{}(?:-start-([1-9][0-9]{{0,8}}))?{}$".format(stem, kind))
    try:
        matches = [pattern.match(entry) for entry in os.listdir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((int(one.group(1) or 0), os.path.join(folder, one.string)) for one in matches if one)
