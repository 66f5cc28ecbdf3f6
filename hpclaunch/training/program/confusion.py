"""Writes a confusion matrix to a file of the run directory."""

from __future__ import annotations

import csv
import os
from typing import Any

from hpclaunch.training.program.run import Run
from hpclaunch.training.program.sharded_data import Data
from hpclaunch.training.rank.failure import TrainingError, leave_if_superseded


def write(run: Run, data: Data, split: str, matrix: Any) -> str:
    """Write `matrix` (int64 [classes, classes]) as confusion-SPLIT.csv on rank 0; returns the name of the file.

    Rows are the classes of the samples, columns those that the model gives them. Classes have the names of the data
    set's folders, if it has such, else their numbers. Raises TrainingError if the file cannot be written.
    """
    name = "confusion-{}.csv".format(split)
    path = os.path.join(run.folder, name)
    named = getattr(data.source, "classes", ())
    classes = list(named) if len(named) == len(matrix) else list(range(len(matrix)))
    if run.is_root:
        leave_if_superseded()
        try:
            with open(path, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
                rows = csv.writer(file)
                rows.writerow(["class", *classes])
                rows.writerows([label, *row] for label, row in zip(classes, matrix.tolist()))
        except OSError as error:
            raise TrainingError("cannot write the confusion matrix: {}: {}".format(path, error.strerror)) from error
    return name
