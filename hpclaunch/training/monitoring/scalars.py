"""Writes the metrics of the epochs for TensorBoard, on rank 0."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from hpclaunch.training.metrics import VALIDATION_PREFIX
from hpclaunch.training.rank.failure import leave_if_superseded

FOLDER = "tensorboard"  # in the run directory


class Scalars(tf.keras.callbacks.Callback):
    """Writes the metrics and the learning rate of every epoch to `folder`, named as Keras's TensorBoard names them.

    Its runs are "train" and "validation", whose scalars have the same names (epoch_loss), so that TensorBoard draws
    both into one chart. A resumed run adds files. Use it on rank 0 alone; it is no collective.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder
        self._writers: dict[str, Any] = {}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        rate = float(tf.keras.backend.get_value(self.model.optimizer.learning_rate))
        training = {name: value for name, value in logs.items() if not name.startswith(VALIDATION_PREFIX)}
        validation = {
            name[len(VALIDATION_PREFIX) :]: value for name, value in logs.items() if name.startswith(VALIDATION_PREFIX)
        }
        self._write("train", epoch, {**training, "learning_rate": rate})
        self._write("validation", epoch, validation)

    def _write(self, run: str, epoch: int, values: dict[str, Any]) -> None:
        if not values:
            return
        leave_if_superseded()
        if run not in self._writers:
            self._writers[run] = tf.summary.create_file_writer(os.path.join(self._folder, run))
        with self._writers[run].as_default():
            for name, value in values.items():
                tf.summary.scalar("epoch_" + name, float(value), step=epoch + 1)
        self._writers[run].flush()
