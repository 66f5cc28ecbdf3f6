"""A run directory by its descriptor: who may write into the folder around it can exchange it for one of theirs."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.protection import weak_places, weakness
from hpclaunch.core.quoting import shell_word


@lru_cache
def weak_around(path: Path) -> bool:
    """Whether others can exchange a run directory, or a folder above it."""
    return bool(weak_places(path, os.environ.get("HOME", "")))


def make_directory(path: Path) -> os.stat_result:
    """Make a run directory with mode 0700, and return what identifies it.

    Raises OSError, and Refused if somebody exchanges it.

    The mode does not depend on the umask: with ``umask 002`` the code that the job runs would be its group's to change.
    """
    around = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.mkdir(path.name, mode=0o700, dir_fd=around)
        made = os.open(path.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=around)
        try:
            about = os.fstat(made)
            if about.st_uid not in (os.geteuid(), 0) or os.listdir(made):
                raise exchanged(path)
            return about
        finally:
            os.close(made)
    finally:
        os.close(around)


def require_private(path: Path, place: str) -> None:
    """Raise Refused if somebody else can change what is in a run directory; ``place`` is a path that stays the same."""
    try:
        why = weakness(place)
    except OSError as error:
        why = f"cannot be looked at: {error.strerror}"
    if why:
        what = f"the run directory {why}: others can change the code that the job runs"
        next_step = "--runs-dir FOLDER" if why.startswith("belongs") else f"chmod go-w {shell_word(str(path))}"
        raise Refused(Fault(where=str(path), what=what, next=next_step))


def exchanged(path: Path) -> Refused:
    """Return the error for a path that leads to another directory than the one that was made."""
    what = "is not the run directory that was made here: somebody exchanged it, or a folder above it"
    command = f"ls -ldi {shell_word(str(path))} {shell_word(str(path.parent))}"
    return Refused(Fault(where=str(path), what=what, next=f"{command}; --runs-dir FOLDER chooses one of your own"))
