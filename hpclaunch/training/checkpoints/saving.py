"""The callback of Keras that lets ranks save together (save_points)."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import tensorflow as tf

from hpclaunch.training.callbacks import stop_if_diverged
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.checkpoints.save_points import SavePoints
from hpclaunch.training.checkpoints.state import State
from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.rank import watch
from hpclaunch.training.rank.world import World


class Saving(tf.keras.callbacks.Callback):
    """Saves at the end of every epoch, as often as the options say (parameters.json), and when asked to stop.

    Place it last, and on every rank. Weights that are not finite are never saved: they would replace the last good
    ones. asked, steps, place, log: as for SavePoints. epoch_facts: what the checkpoint of a place says of the epochs.
    prove: is called with the step of the epoch (0: its end) before a checkpoint, and raises if ranks hold different
    models.
    """

    def __init__(
        self,
        world: World,
        state: State,
        asked: Any,
        steps: int,
        place: Place,
        log: MetricsLog,
        epoch_facts: Callable[[Place], Mapping[str, Any]] = lambda place: {},
        prove: Callable[[int], None] = lambda step: None,
    ) -> None:
        super().__init__()
        self._prove = prove
        self._points = SavePoints(world, state, asked, steps, place, log)
        self._epoch_facts = epoch_facts
        self._world, self._epochs, self._steps = world, asked.epochs, steps
        self._place, self._epoch, self._made, self._base = place, place.epoch, place.made, 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch
        begun = self._place.step if epoch == self._place.epoch else 0  # by an earlier attempt
        self._base = self._made - begun

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        step = batch + 1
        self._made = self._base + step
        watch.reached("training")
        if step >= self._steps:  # the end of the epoch saves, after the average of the statistics
            return
        due, stop = self._points.after_step(self._made)
        if due:
            self._save(Place(self._epoch, step, self._made), logs["loss"], stop)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        done = epoch + 1 >= self._epochs or self.model.stop_training
        self._save(Place(epoch + 1, 0, self._made), logs["loss"], self._points.look(self._made)[1] and not done)

    def _save(self, place: Place, loss: float, stop: bool) -> None:
        when = "step {}".format(place.step) if place.step else "the end of epoch {}".format(place.epoch)
        stop_if_diverged(self._world, self.model, loss, when)
        self._prove(place.step)
        self._points.save(place, stop, self._epoch_facts(place) or None)
