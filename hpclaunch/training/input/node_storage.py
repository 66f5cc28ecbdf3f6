"""Copies a data set to a node's own disk: one rank of every node copies, the others wait; it never deletes a copy."""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor

from hpclaunch.training.input.source import Source
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.world import World

BLOCK = 4096  # bytes on disk of even the smallest file
NEXT = "  next: name another folder, or train without staging"
COPIES = 8  # files that are copied at the same time: small files wait for the file system, not for the disk


def staged(world: World, source: Source, folder: str) -> Source:
    """The same data set, read from `folder` (for instance $TMPDIR or /dev/shm) on every node. A collective.

    With an empty `folder` the data stay where they are. Variables in `folder` have the node's values. An existing copy
    with the same fingerprint is used. The copy stays when the run ends. All ranks fail together if it does not fit or
    cannot be written.
    """
    if not folder or not source.files():  # synthetic data in memory have no files
        return source
    folder = world.together(lambda: _expand(folder, world.host))
    goal = os.path.join(folder, "{}-{}".format(source.wanted.name, source.fingerprint))
    world.together(lambda: _place(source, goal, world.host) if world.local_rank == 0 else None)
    local = copy.copy(source)
    local.path = os.path.join(goal, os.path.basename(os.path.normpath(source.path)))
    return local


def _expand(folder: str, host: str) -> str:
    found = os.path.expanduser(os.path.expandvars(folder))
    if "$" in found or not os.path.isabs(found):
        what = "contains a variable that is not set" if "$" in found else "is not an absolute path"
        raise TrainingError("{} on {}: the folder to stage to {}\n{}".format(folder, host, what, NEXT))
    return found


def _place(source: Source, goal: str, host: str) -> None:
    """Copy the files to `goal`, which exists only when the copy is complete."""
    if os.path.isdir(goal):
        return
    folder = os.path.dirname(goal)
    fresh = ""
    try:
        os.makedirs(folder, exist_ok=True)
        _check_space(source, folder, host)
        fresh = tempfile.mkdtemp(prefix=".staging-", dir=folder)
        _copy(source, fresh)
        os.rename(fresh, goal)
    except OSError as error:
        if not os.path.isdir(goal):  # else another node's rank was first, because the nodes share the folder
            raise TrainingError(
                "{} on {}: the data set cannot be staged: {}\n{}".format(folder, host, error, NEXT)
            ) from None
    finally:
        if fresh:
            shutil.rmtree(fresh, ignore_errors=True)


def _check_space(source: Source, folder: str, host: str) -> None:
    needed = sum(-(-os.path.getsize(path) // BLOCK) * BLOCK for path in source.files())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise TrainingError(
            "{} on {}: the data set needs {:.1f} MiB, but only {:.1f} MiB are free\n{}".format(
                folder, host, needed / 2**20, free / 2**20, NEXT
            )
        )


def _copy(source: Source, fresh: str) -> None:
    above = os.path.dirname(os.path.normpath(source.path))
    pairs = [(path, os.path.join(fresh, os.path.relpath(path, above))) for path in source.files()]
    for place in sorted({os.path.dirname(goal) for _, goal in pairs}):
        os.makedirs(place, exist_ok=True)
    with ThreadPoolExecutor(COPIES) as copies:
        for _ in copies.map(lambda pair: shutil.copyfile(*pair), pairs):
            pass  # raises the error of a copy
