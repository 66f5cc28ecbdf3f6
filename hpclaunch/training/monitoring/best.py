"""Watches one metric of the epochs: which epoch was the best, and whether training ends early; saves nothing itself."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Mapping

import tensorflow as tf

from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World

GROWING = ("acc", "auc", "precision", "recall", "f1", "iou", "r2")
"""Parts of the names of metrics that are better when they are larger; all others are errors and losses."""


@dataclass(frozen=True)
class Best:
    """The best epoch so far (from 1), its value of `metric`, and the step whose checkpoint is kept for it (0: none)."""

    metric: str
    value: float
    epoch: int
    step: int = 0


class WatchBest(tf.keras.callbacks.Callback):
    """Notes the best epoch by a metric, and stops training when `patience` epochs have brought nothing better.

    asked: has monitor (the name of the metric; empty: the loss of the validation, or that of the training without
    one), monitor_mode, min_delta, patience (0: never stop), keep_best and restore_best. validation: the callback before
    this one, if there is one. before: the facts of an earlier attempt's. All ranks have the same logs
    (agreement.SameLogs), so all find the same. It raises AgreedError after the first step if there is no such metric.
    """

    def __init__(self, world: World, log: MetricsLog, asked: Any, validation: Any = None, before: Any = None) -> None:
        super().__init__()
        self._world, self._log, self._asked, self._validation = world, log, asked, validation
        self.metric = asked.monitor or (validation.default if validation else "loss")
        self.grows = is_growing(self.metric, asked.monitor_mode)
        self._keeps = asked.keep_best or asked.restore_best
        usable = before and before["metric"] == self.metric and (before["step"] or not self._keeps)
        self.best = Best(**before) if usable else None
        if before and not usable and world.is_root:
            text = (
                "warning: the best epoch by {} before, {}, is forgotten: it was judged by another metric, or not kept"
            )
            print(text.format(before["metric"], before["epoch"]), flush=True)
        self._checked = False

    @property
    def facts(self) -> dict[str, Any] | None:
        """The best epoch as values for JSON; None if there is none yet."""
        return asdict(self.best) if self.best else None

    def note_checkpoint(self, step: int, epoch: int) -> None:
        """Note that the state at the end of `epoch` (from 1) is in the checkpoint of `step`, if it is to be kept."""
        if self.best and self.best.epoch == epoch and self._keeps:
            self.best = Best(self.best.metric, self.best.value, epoch, step)

    def is_over(self, epochs: int) -> bool:
        """Whether training has ended early after `epochs` epochs."""
        return bool(self._asked.patience and self.best and epochs - self.best.epoch >= self._asked.patience)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if not self._checked and logs is not None:
            self._check(logs)
            self._checked = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.metric in logs:  # not every epoch is validated
            value = float(logs[self.metric])
            if math.isfinite(value) and self._is_better(value):
                self.best = Best(self.metric, value, epoch + 1)
            if self.is_over(epoch + 1):
                self._report_end(epoch + 1)
                self.model.stop_training = True

    def _is_better(self, value: float) -> bool:
        if self.best is None:
            return True
        gain = value - self.best.value if self.grows else self.best.value - value
        return gain > self._asked.min_delta

    def _report_end(self, epochs: int) -> None:
        assert self.best is not None
        self._log.write("early_stop", after=epochs, **self.facts or {})
        if self._world.is_root:
            print(
                "stopped after epoch {}: {} has not been better than {:.6g} (epoch {}) for {} epochs".format(
                    epochs, self.metric, self.best.value, self.best.epoch, epochs - self.best.epoch
                ),
                flush=True,
            )

    def _check(self, logs: Mapping[str, Any]) -> None:
        names = [*logs, *(self._validation.names(self.model) if self._validation else ())]
        if self.metric in names:
            return
        raise AgreedError(
            "--monitor={}: there is no such metric; this training has {}{}".format(
                self.metric,
                ", ".join(names),
                "" if self._validation else " (no validation: see --validation-part)",
            ),
            speaks=self._world.is_root,
        )


def is_growing(metric: str, mode: str) -> bool:
    """Whether a larger value of a metric is better. mode: min, max, or auto (by the name of the metric)."""
    if mode != "auto":
        return mode == "max"
    return any(part in metric.lower() for part in GROWING)
