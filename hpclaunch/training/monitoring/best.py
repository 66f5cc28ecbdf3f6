"""The callback of Keras that watches one metric of the epochs (best_epoch); it saves nothing itself."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.monitoring.best_epoch import BestEpoch
from hpclaunch.training.rank.world import World


class WatchBest(BestEpoch, tf.keras.callbacks.Callback):
    """Notes the best epoch, and stops training when `patience` epochs have brought nothing better.

    validation: the callback before this one, if there is one; else the metric is the loss of the training, unless the
    settings name one. All ranks have the same logs (agreement.SameLogs), so all find the same. It raises AgreedError
    after the first step if there is no such metric.
    """

    def __init__(self, world: World, log: MetricsLog, asked: Any, validation: Any = None, before: Any = None) -> None:
        super().__init__(world, log, asked, validation.default if validation else "loss", before)
        self._validation = validation
        self._checked = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if not self._checked and logs is not None:
            names = self._validation.names(self.model) if self._validation else ()
            self.check([*logs, *names], bool(self._validation))
            self._checked = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.judge(epoch + 1, logs):
            self.model.stop_training = True
