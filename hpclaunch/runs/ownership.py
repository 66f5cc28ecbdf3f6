"""Which runs are this user's: a file for each in the user's folder of state, which no project can write.

A record in a run directory is only a claim: a cloned repository may hold one with the job ID or the process of anybody.
The file has the run's token as its name, and says in which directory the run is, and which inode that directory has.
``state`` is the folder of the user's state (``core/folders.py``).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hpclaunch.core.errors import unwritable
from hpclaunch.core.files import json_object, read_text, send_text
from hpclaunch.runs.record import Run, change

FOLDER = "own-runs"
_TOKEN = "[0-9a-f]{32}"


def new_token() -> str:
    """Return a text that nobody can guess, by which the user's list and a run directory know each other."""
    return os.urandom(16).hex()


def list_own(state: Path, run: Run) -> str:
    """Add a run to the user's own runs. Returns why that failed, else an empty text.

    The file is sent to the disk; the line that the list of runs then gets is waited for, in the same file system.
    """
    try:
        if not (state / FOLDER).is_dir():
            (state / FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
        place = {**_place_of(run), **({"inode": run.inode} if run.inode else {})}
        send_text(state / FOLDER / run.token, json.dumps(place) + "\n")
    except OSError as error:
        return f"{state / FOLDER}: the list of your own runs cannot be written: {error.strerror}"
    return ""


def _place_of(run: Run) -> dict[str, Any]:
    return {"directory": os.path.realpath(run.home), "inode": os.stat(run.home).st_ino}


def is_own(state: Path, run: Run) -> bool:
    """Whether the run is one that this user submitted here or adopted, in the same directory as then.

    A directory that was moved, copied, or made anew is another one.
    """
    listed = _listed_place(state, run)
    try:
        return bool(listed) and listed == _place_of(run)
    except OSError:
        return False


def is_unlisted(state: Path, run: Run) -> bool:
    """Whether no directory is listed for the run's token: its submission could not, or had another home."""
    return bool(re.fullmatch(_TOKEN, run.token)) and not _listed_place(state, run)


def _listed_place(state: Path, run: Run) -> dict[str, Any]:
    return json_object(read_text(state / FOLDER / run.token)) if re.fullmatch(_TOKEN, run.token) else {}


@contextlib.contextmanager
def opened(state: Path, run: Run) -> Iterator[str]:
    """Yield a path by which the directory of a run stays the same one, whoever exchanges its name meanwhile.

    It is the one that was made or adopted, and nobody else can write to it. Raises Refused.
    """
    from hpclaunch.runs.directories import exchanged, require_private  # a list of runs opens none

    inode = _listed_place(state, run).get("inode") or run.inode
    try:
        descriptor = os.open(run.home, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise exchanged(run.home) from None
        raise unwritable(run.home, error, "the run directory cannot be opened") from None
    try:
        if inode not in (0, os.fstat(descriptor).st_ino):
            raise exchanged(run.home)
        place = f"/proc/self/fd/{descriptor}"
        require_private(run.home, f"{place}/.")
        yield place
    finally:
        os.close(descriptor)


def adopt(state: Path, run: Run, user: str) -> Run:
    """Make a run this user's (``user`` is the name), in the directory where it is now. Raises OSError.

    It keeps its token, so that it stays the user's on another cluster with another home; but not if it is a copy of
    a run that is listed.
    """
    listed = _listed_place(state, run)
    is_copy = bool(listed) and listed != _place_of(run) and os.path.isdir(str(listed.get("directory")))
    token = run.token if re.fullmatch(_TOKEN, run.token) and not is_copy else new_token()
    adopted = change(run, user=user, uid=str(os.getuid()), token=token)
    problem = list_own(state, adopted)
    if problem:
        raise OSError(0, problem)
    return adopted


def unlist_own(state: Path, runs: Iterable[Run]) -> None:
    """Remove runs from the user's own runs; a file that remains does no harm."""
    for run in runs:
        if re.fullmatch(_TOKEN, run.token):
            with contextlib.suppress(OSError):
                (state / FOLDER / run.token).unlink()
