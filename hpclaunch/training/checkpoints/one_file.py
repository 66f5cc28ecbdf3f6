"""A checkpoint in one file, which rank 0 writes and every rank reads, where ranks have no state of their own."""

from __future__ import annotations

import os
import re
from typing import Any, Callable

from hpclaunch.training.checkpoints.folders import MOST_REASON, NewerFormat, failure_text, sync_folder
from hpclaunch.training.checkpoints.resuming import folder_of
from hpclaunch.training.input import loading
from hpclaunch.training.rank import fence
from hpclaunch.training.rank.failure import TrainingError, leave_if_superseded
from hpclaunch.training.rank.world import World

FORMAT = 2
"""The number that a framework writes into its file. Format 1 has no number, and no names of arrays or optimizer."""


def read(path: str, read_file: Callable[[], Any], number_of: Callable[[Any], int]) -> Any:
    """What `read_file` reads from a checkpoint. number_of: the number of the format in it.

    Raises TrainingError, which leaves the file as it is: NewerFormat for that of a newer version.
    """
    try:
        content = read_file()
        number = number_of(content)
    except Exception as error:  # of the framework, for whatever is damaged
        text = (str(error).strip() or type(error).__name__).split("\n")[0][:MOST_REASON]
        raise TrainingError(
            "the checkpoint {} cannot be read: {}. It was left as it is: move it away to start from the "
            "beginning".format(path, text)
        ) from error
    if number > FORMAT:
        raise NewerFormat(path, number, FORMAT)
    return content


def other(path: str, what: str) -> TrainingError:
    """The error that a checkpoint is not of this model or optimizer."""
    return TrainingError(
        "the checkpoint {} belongs to another model or optimizer: {}. Train with the one that it was saved with, or "
        "start from the beginning in another run directory".format(path, what)
    )


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
