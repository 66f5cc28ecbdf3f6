"""A callback of Keras that looks at a training's loss after every so many samples, and ends it at a target."""

from __future__ import annotations

import math
import time
from typing import Any

import tensorflow as tf
from target import Crossing, Target

from hpclaunch import training
from hpclaunch.training.optimization.noise_scale import NoiseScale

NOISE_SAMPLES = 32_768
"""The noise scale is an average over about so many samples, so that it follows a training alike at every batch size."""


class Ended(Exception):
    """The training need not go on: at the target, or where it will not reach it in time."""


class Looks(tf.keras.callbacks.Callback):
    """Writes a line "look" to metrics.jsonl after every `every` samples of one rank, and "crossing" in `report`.

    Raises Ended at the target, after `most_samples`, or with a loss that is not a finite number: Keras and the library
    end a training between two epochs only. noise: to be given to fit as a callback, too. diverged: by this look, or by
    the library's own check. Batches must all have the same size.
    """

    def __init__(self, run: training.Run, batch: int) -> None:
        super().__init__()
        asked = run.settings
        self._log, self._batch, self._every, self._most = run.log, batch, asked.every, asked.most_samples
        self.noise = NoiseScale(run.world, run.log, span=max(2.0, NOISE_SAMPLES / batch))
        self.crossing = Crossing(Target(loss=asked.target_loss, every=asked.every))
        self.diverged = False
        self._accuracy = self._began = 0.0
        self._sums = {"loss": 0.0, "accuracy": 0.0}  # of the epoch
        self._correct = 0.0  # since the last look

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._sums = {"loss": 0.0, "accuracy": 0.0}

    def on_train_batch_end(self, step: int, logs: Any = None) -> None:
        self._began = self._began or time.perf_counter()  # the first step includes its tracing
        loss, accuracy = (self._of_the_batch(name, step, logs[name]) for name in ("loss", "accuracy"))
        if not math.isfinite(loss):
            self.diverged = True
            raise Ended
        self._correct += self._batch * accuracy
        if self.crossing.add(self._batch, loss):
            self._accuracy, self._correct = self._correct / self._every, 0.0
            self._look()

    def report(self) -> None:
        """Write the last line."""
        self._log.write(
            "crossing",
            samples=self.crossing.samples,
            seen=self.crossing.seen,
            accuracy=self._accuracy,
            seconds=self._seconds,
            diverged=self.diverged,
        )

    def _of_the_batch(self, name: str, step: int, mean: float) -> float:
        """A batch's own value: Keras gives means over the epoch so far."""
        whole = float(mean) * (step + 1)
        own, self._sums[name] = whole - self._sums[name], whole
        return own

    @property
    def _seconds(self) -> float:
        return round(time.perf_counter() - self._began, 3) if self._began else 0.0

    def _look(self) -> None:
        found, seen, loss = self.noise.result(), self.crossing.seen, self.crossing.loss
        known = {} if found is None else {"noise_scale": found.value, "low": found.low, "high": found.high}
        shown = None if math.isnan(loss) else loss
        self._log.write("look", samples=seen, loss=shown, accuracy=self._accuracy, seconds=self._seconds, **known)
        if self.crossing.samples is not None or seen >= self._most:
            raise Ended
