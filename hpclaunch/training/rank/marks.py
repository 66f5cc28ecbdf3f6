"""Marks beside the exit file: rank 0 has begun a training in this start of the run, and has ended it with all its work.

The script calls a run completed only if a training that has begun has also ended in the same start (docs/contract.md),
because a launcher may end with 0 although its ranks were killed.
"""

from __future__ import annotations

import contextlib
import os

from hpclaunch.training.rank.failure import EXIT_FILE_VARIABLE, TrainingError, leave_if_superseded
from hpclaunch.training.rank.world import World

BEGUN, ENDED = "training", "trained"


def begin(world: World) -> None:
    """Mark on rank 0 that a training begins in this start. Raises TrainingError if that cannot be written.

    A superseded start ends here, and in `end`.
    """
    leave_if_superseded()
    folder = _folder(world)
    if folder:
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, ENDED))  # of a training before it, in the same start
        _write(os.path.join(folder, BEGUN))


def end(world: World) -> None:
    """Mark on rank 0 that it has ended, after all that it writes. Raises TrainingError if that cannot be written."""
    leave_if_superseded()
    folder = _folder(world)
    if folder:
        _write(os.path.join(folder, ENDED))


def _folder(world: World) -> str:
    """The folder of this start; empty on the other ranks, and without a script."""
    return os.path.dirname(os.environ.get(EXIT_FILE_VARIABLE, "")) if world.is_root else ""


def _write(path: str) -> None:
    try:
        with open(path, "w", encoding="ascii"):
            pass
    except OSError as error:
        raise TrainingError(
            "cannot write {}: {}. Without this mark the script does not call the run completed.".format(
                path, error.strerror
            )
        ) from error
