"""The folder of a trained model in the run directory, which has its name only when it is complete."""

from __future__ import annotations

import os
import shutil
from typing import Callable

from hpclaunch.training.program.run import Run
from hpclaunch.training.rank.failure import TrainingError, leave_if_superseded

FOLDER, ABOUT = "model", "model.json"


def write(run: Run, fill: Callable[[str], list[str]]) -> list[str]:
    """Write model/ on this rank, in place of an earlier one; returns the names of its files.

    fill: writes all files to the folder that it is given, and returns the names of those with the model. Raises
    TrainingError if the disk is full.
    """
    leave_if_superseded()
    folder = os.path.join(run.folder, FOLDER)
    partial, old = (os.path.join(run.folder, ".{}-{}".format(FOLDER, word)) for word in ("partial", "old"))
    try:
        for left in (partial, old):
            shutil.rmtree(left, ignore_errors=True)
        os.mkdir(partial)
        names = fill(partial)
        leave_if_superseded()  # it takes long to write them
        if os.path.isdir(folder):  # of an earlier end of this run
            os.rename(folder, old)
        os.rename(partial, folder)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise TrainingError(
            "cannot write the trained model to {}: {}. The checkpoints hold its weights. Make room and resume the run, "
            "or leave the model out (--export-model=false).".format(folder, error.strerror or error)
        ) from error
    print("trained model: {} ({})".format(folder, ", ".join(names)), flush=True)
    return names
