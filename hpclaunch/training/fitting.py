"""Runs model.fit from any step of any epoch; it reads and writes no checkpoint."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow as tf

from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.checkpoints.training_state import TrainingState


def fit(
    model: Any,
    batches_from: Callable[[int, int], tf.data.Dataset],
    steps: int,
    epochs: int,
    steady: list[Any],
    place: Place,
    state: TrainingState,
    class_weight: Any = None,
) -> None:
    """Run model.fit from `place` to the end; batches_from(epoch, step) gives the batches from there on.

    class_weight: as for model.fit.

    Keras cannot begin within an epoch. So another fit finishes an interrupted epoch; its callbacks get the numbers that
    the steps have in the whole epoch. For them both fits are one: training begins once, and ends once.
    """
    epoch, broken = place.epoch, bool(place.step or place.parts)
    if broken:
        # It comes before the other callbacks, because they report and save the sums.
        first = [_MetricsBefore(state), *(Shifted(callback, place.step, ends=False) for callback in steady)]
        model.fit(
            batches_from(epoch, place.step),
            initial_epoch=epoch,
            epochs=epoch + 1,
            steps_per_epoch=steps - place.step,
            callbacks=first,
            class_weight=class_weight,
            verbose=0,
        )
        epoch += 1
        if model.stop_training or epoch >= epochs:
            for callback in steady:
                callback.on_train_end()
            return
    if epoch < epochs:
        model.fit(
            batches_from(epoch, 0),
            initial_epoch=epoch,
            epochs=epochs,
            steps_per_epoch=steps,
            callbacks=[Shifted(callback, 0, begins=False) for callback in steady] if broken else steady,
            class_weight=class_weight,
            verbose=0,
        )


class Shifted(tf.keras.callbacks.Callback):
    """Calls a callback with batch numbers that are higher by `by`; begins, ends: whether training does for it."""

    def __init__(self, callback: Any, by: int, begins: bool = True, ends: bool = True) -> None:
        super().__init__()
        self._callback, self._by, self._begins, self._ends = callback, by, begins, ends

    def set_model(self, model: Any) -> None:
        self._callback.set_model(model)

    def set_params(self, params: Any) -> None:
        self._callback.set_params(params)

    def on_train_begin(self, logs: Any = None) -> None:
        if self._begins:
            self._callback.on_train_begin(logs)

    def on_train_end(self, logs: Any = None) -> None:
        if self._ends:
            self._callback.on_train_end(logs)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._callback.on_epoch_begin(epoch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._callback.on_epoch_end(epoch, logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._callback.on_train_batch_begin(batch + self._by, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._callback.on_train_batch_end(batch + self._by, logs)


class _MetricsBefore(tf.keras.callbacks.Callback):
    """Adds the metrics' sums of an epoch's first part, after the first step of the rest.

    Before that step Keras has no sums to add to. The logs of that step lack the first part; this matters at the epoch's
    end if the step is the last one as well.
    """

    def __init__(self, state: TrainingState) -> None:
        super().__init__()
        self._state = state

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._state.add_metrics()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs.update((metric.name, float(metric.result())) for metric in self.model.metrics)
