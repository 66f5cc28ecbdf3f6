"""What the callbacks of a training know beyond its weights: goes into every checkpoint, and comes back from it."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import tensorflow as tf

from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.monitoring import given_callbacks
from hpclaunch.training.monitoring.best import WatchBest
from hpclaunch.training.rank.world import World


class Kept(tf.keras.callbacks.Callback):
    """The best epoch, the factor that callbacks gave the learning rate, an early end, and what Keras's callbacks count.

    rates: the callback that sets the learning rate. best: that of the best epoch, if one watches it. given: the
    callbacks of the program. epochs: how many have been made. Place it after the callbacks that may stop.
    """

    def __init__(self, world: World, rates: Any, best: WatchBest | None, given: Sequence[Any], place: Place) -> None:
        super().__init__()
        self._world, self._rates, self._given = world, rates, given
        self.best, self.epochs = best, place.epoch
        self._before: Mapping[str, Any] = place.epochs_facts
        self._stopped = bool(self._before.get("stopped", False))

    @property
    def is_over(self) -> bool:
        """Whether training has ended early, in this attempt or before, so that nothing remains to be trained."""
        return self._stopped or bool(self.best and self.best.is_over(self.epochs))

    def on_train_begin(self, logs: Any = None) -> None:
        given_callbacks.put_back(self._given, self._before.get("callbacks", []), self._world)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs = epoch + 1
        self._stopped = bool(self.model.stop_training) and not (self.best and self.best.is_over(self.epochs))

    def facts(self, place: Place) -> dict[str, Any]:
        """What a checkpoint at `place` says of the epochs, as values for JSON."""
        if self.best and not place.step:
            self.best.note_checkpoint(place.made, place.epoch)
        return {
            "best": self.best.facts if self.best else None,
            "rate_factor": self._rates.factor,
            "stopped": self._stopped,
            "callbacks": given_callbacks.known_by(self._given),
        }
