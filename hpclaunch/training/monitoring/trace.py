"""Records a trace of some training steps with TensorFlow's profiler, for TensorBoard's profile page."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.rank.failure import leave_if_superseded

FOLDER = "profile"  # in the run directory
ALL = -1  # in place of a rank's number


class Trace(tf.keras.callbacks.Callback):
    """Traces `steps` steps into `folder`/rank-NNNN; the first of them is step `first` of this attempt, counted from 1.

    With steps_per_execution above 1, only whole executions are traced. Training does not fail if the profiler does.
    """

    def __init__(self, folder: str, rank: int, first: int, steps: int, log: MetricsLog) -> None:
        super().__init__()
        self._folder = os.path.join(folder, "rank-{:04d}".format(rank))
        self._rank, self._first, self._last, self._log = rank, first, first + steps - 1, log
        self._made, self._last_batch, self._state = 0, -1, "waits"

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._last_batch = -1

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._last_batch < 0:
            self._last_batch = batch - 1  # not -1 in an epoch that another attempt has begun
        if self._state == "waits" and self._made + 1 >= self._first:
            self._first = self._made + 1
            self._try("runs", lambda: tf.profiler.experimental.start(self._folder))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._made += batch - self._last_batch
        self._last_batch = batch
        if self._state == "runs" and self._made >= self._last:
            self._stop()

    def on_train_end(self, logs: Any = None) -> None:
        if self._state == "runs":
            self._stop()
        elif self._state == "waits":
            self._report("nothing was traced: this attempt made {} steps".format(self._made))

    def _stop(self) -> None:
        self._try("ended", tf.profiler.experimental.stop)
        if self._state == "ended":
            self._log.write("profile", folder=self._folder, first=self._first, last=self._made)
            self._report("steps {} to {} were traced: {}".format(self._first, self._made, self._folder))

    def _try(self, state: str, work: Any) -> None:
        leave_if_superseded()
        try:
            work()
            self._state = state
        except tf.errors.OpError as error:
            self._state = "failed"
            self._report("the profiler cannot trace: {}".format(str(error).splitlines()[0]))

    def _report(self, text: str) -> None:
        print("profile of rank {}: {}".format(self._rank, text), flush=True)
