"""Judges epochs by one metric: which was the best, and whether training ends early; it needs no framework."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Iterable, Mapping

from hpclaunch.training.metrics import VALIDATION_PREFIX, MetricsLog
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


class BestEpoch:
    """Notes the best epoch by a metric, and whether `patience` epochs have brought nothing better.

    asked: has monitor (the name of the metric; empty: `default`), monitor_mode, min_delta, patience (0: never stop),
    keep_best and restore_best. before: the facts of an earlier attempt's. All ranks must see the same values.
    """

    def __init__(self, world: World, log: MetricsLog, asked: Any, default: str, before: Any = None) -> None:
        super().__init__()
        self._world, self._log, self._asked = world, log, asked
        self.metric = asked.monitor or default
        self.grows = is_growing(self.metric, asked.monitor_mode)
        self._keeps = asked.keep_best or asked.restore_best
        usable = before and before["metric"] == self.metric and (before["step"] or not self._keeps)
        self.best = Best(**before) if usable else None
        if before and not usable and world.is_root:
            text = (
                "warning: the best epoch by {} before, {}, is forgotten: it was judged by another metric, or not kept"
            )
            print(text.format(before["metric"], before["epoch"]), flush=True)

    @property
    def facts(self) -> dict[str, Any] | None:
        """The best epoch as values for JSON; None if there is none yet."""
        return asdict(self.best) if self.best else None

    @property
    def results(self) -> dict[str, Any]:
        """What the last line of the log says of the best epoch."""
        best = self.best
        return {} if best is None else {"best_" + name: getattr(best, name) for name in ("metric", "value", "epoch")}

    def note_checkpoint(self, step: int, epoch: int) -> None:
        """Note that the state at the end of `epoch` (from 1) is in the checkpoint of `step`, if it is to be kept."""
        if self.best and self.best.epoch == epoch and self._keeps:
            self.best = Best(self.best.metric, self.best.value, epoch, step)

    def is_over(self, epochs: int) -> bool:
        """Whether training has ended early after `epochs` epochs; it does so only after an epoch that is judged."""
        asked = self._asked
        of_validation = self.metric.startswith(VALIDATION_PREFIX)
        if of_validation and not is_validated(epochs, asked.validation_every, asked.epochs):
            return False
        return self._has_waited(epochs)

    def judge(self, epoch: int, metrics: Mapping[str, Any]) -> bool:
        """Note what `epoch` (from 1) has come to; whether training ends after it."""
        if self.metric not in metrics:  # not every epoch is validated
            return False
        value = float(metrics[self.metric])
        if math.isfinite(value) and self._is_better(value):
            self.best = Best(self.metric, value, epoch)
        if not self._has_waited(epoch):
            return False
        self._report_end(epoch)
        return True

    def _has_waited(self, epochs: int) -> bool:
        return bool(self._asked.patience and self.best and epochs - self.best.epoch >= self._asked.patience)

    def _is_better(self, value: float) -> bool:
        if self.best is None:
            return True
        gain = value - self.best.value if self.grows else self.best.value - value
        return bool(gain > self._asked.min_delta)

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

    def check(self, names: Iterable[str], is_validated: bool) -> None:
        """Raise AgreedError if the metric is not among the names of this training's."""
        names = list(names)
        if self.metric in names:
            return
        raise AgreedError(
            "--monitor={}: there is no such metric; this training has {}{}".format(
                self.metric,
                ", ".join(names),
                "" if is_validated else " (no validation: see --validation-part)",
            ),
            speaks=self._world.is_root,
        )


def is_validated(epoch: int, every: int, epochs: int) -> bool:
    """Whether `epoch` (from 1) of `epochs` is validated: each `every`-th one is, and the last; none if it is 0."""
    return bool(every) and (epoch % every == 0 or epoch == epochs)


def is_growing(metric: str, mode: str) -> bool:
    """Whether a larger value of a metric is better. mode: min, max, or auto (by the name of the metric)."""
    if mode != "auto":
        return mode == "max"
    return any(part in metric.lower() for part in GROWING)
