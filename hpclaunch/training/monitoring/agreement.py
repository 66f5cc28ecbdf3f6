"""Lets ranks decide alike at the end of an epoch: from the same metrics, and whether training ends there."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hpclaunch.training.rank.world import World


class SameLogs(tf.keras.callbacks.Callback):
    """Gives every rank rank 0's metrics of an epoch, to the last bit, so that callbacks after it decide alike."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._world.size > 1:
            logs.update(self._world.gather({name: float(value) for name, value in logs.items()})[0])


class StopTogether(tf.keras.callbacks.Callback):
    """Ends training on all ranks at the end of an epoch if any rank's callback has set model.stop_training.

    A rank that stopped alone, or within an epoch, would leave the others in a collective. So a stop waits for the end
    of the epoch. Place it after the callbacks that may stop.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._wanted = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.model.stop_training:
            self._wanted, self.model.stop_training = True, False

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        wanted = self._wanted or bool(self.model.stop_training)
        self.model.stop_training, self._wanted = any(self._world.gather(wanted)), False
