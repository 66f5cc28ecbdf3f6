"""Writes what the network answers for each held-out volume, beside the true values, as answers.json in the run."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import tensorflow as tf
import volumes

from hpclaunch.training import Data, Run, evaluation
from hpclaunch.training.rank import strategies
from hpclaunch.training.rank.failure import TrainingError

FILE = "answers.json"


def write(run: Run, model: Any, data: Data, split: str = "test") -> None:
    """Let every rank answer for its own volumes, and rank 0 write all answers. A collective.

    The file has `targets` (name, low and high of each parameter), and `true` and `answered`: a row for each volume, its
    parameters in -1 .. 1. Rows are sorted, so that they do not depend on the number of ranks.
    """
    trained = strategies.alone(model, run.world)
    answer = tf.function(lambda inputs: evaluation.outputs_of(trained, inputs))
    rows = [np.zeros((0, 2, volumes.TARGETS))]
    for inputs, targets in data.held_out(split):
        rows.append(np.stack([np.asarray(targets, float), np.asarray(answer(inputs), float)], axis=1))
    every = np.concatenate(run.world.gather(np.concatenate(rows))).tolist()
    if not run.is_root:
        return
    found = {"targets": volumes.targets_of(data.source.path), "true": [], "answered": []}
    for true, answered in sorted(every):
        found["true"].append(true)
        found["answered"].append(answered)
    path = os.path.join(run.folder, FILE)
    run.leave_if_superseded()
    try:
        with open(path + ".partial", "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(path + ".partial", path)
    except OSError as error:
        raise TrainingError("cannot write the answers: {}: {}".format(path, error.strerror)) from error
