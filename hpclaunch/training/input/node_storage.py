"""Copies a data set to a node's own disk: one rank of every node copies, the others wait; it never deletes a copy."""

from __future__ import annotations

import copy
import os
import shutil
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor

from hpclaunch.training.input.source import Source
from hpclaunch.training.rank import watch
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.world import World

BLOCK = 4096  # bytes on disk of even the smallest file
NEXT = "  next: name another folder, or train without staging"
PIECE = 2**23  # bytes that are copied at once: each is progress that other ranks wait for
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
    goal = os.path.join(folder, "{}-{}-{}".format(source.wanted.name, source.fingerprint, os.geteuid()))
    world.together(lambda: _place(source, goal, world.host) if world.local_rank == 0 else None, long=True)
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
    """Copy the files to `goal`, which exists only when the copy is complete.

    A folder that another user could have filled, or could change while ranks read from it, is refused.
    """
    folder = os.path.dirname(goal)
    fresh = ""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        _check_owner(folder, host, shared=True)
        if os.path.lexists(goal):
            _check_owner(goal, host, shared=False)
            return
        _check_space(source, folder, host)
        fresh = tempfile.mkdtemp(prefix=".staging-", dir=folder)
        _copy(source, fresh)
        os.rename(fresh, goal)
    except OSError as error:
        if not os.path.isdir(goal):
            raise TrainingError(
                "{} on {}: the data set cannot be staged: {}\n{}".format(folder, host, error, NEXT)
            ) from None
        _check_owner(goal, host, shared=False)  # another node's rank was first: the nodes share the folder
    finally:
        if fresh:
            shutil.rmtree(fresh, ignore_errors=True)


def _check_owner(folder: str, host: str, shared: bool) -> None:
    """Raise TrainingError unless only this user (and root) can change what is in the folder.

    shared: others may write into it, if its sticky bit keeps them from renaming what they do not own (as in /tmp).
    """
    about = os.stat(folder) if shared else os.lstat(folder)
    others_write = bool(about.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    owners = (os.geteuid(), 0) if shared else (os.geteuid(),)
    wrong = ""
    if not stat.S_ISDIR(about.st_mode):
        wrong = "is not a folder"
    elif about.st_uid not in owners:
        wrong = "belongs to another user (uid {})".format(about.st_uid)
    elif others_write and not (shared and about.st_mode & stat.S_ISVTX):
        wrong = "can be changed by other users (mode {:o}; chmod go-w forbids it)".format(stat.S_IMODE(about.st_mode))
    if wrong:
        raise TrainingError("{} on {}: the folder to stage to {}\n{}".format(folder, host, wrong, NEXT))


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
        for _ in copies.map(lambda pair: _copy_file(*pair), pairs):
            pass  # raises the error of a copy


def _copy_file(path: str, goal: str) -> None:
    with open(path, "rb") as file, open(goal, "wb") as copied:
        piece = file.read(PIECE)
        while piece:
            copied.write(piece)
            watch.this_rank.mark()
            piece = file.read(PIECE)
