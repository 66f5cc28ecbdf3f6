"""Measures the gradient noise scale during training: the batch size up to which larger batches save steps."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.optimization import gradient_norms, noise_estimate, precision
from hpclaunch.training.optimization.learning_rate import gradient_noise
from hpclaunch.training.optimization.noise_estimate import SPAN, Estimate, estimate
from hpclaunch.training.rank.world import World


class NoiseScale(tf.keras.callbacks.Callback):
    """Estimates B_simple = tr(Sigma) / |G|^2 under model.fit (McCandlish et al. 2018, arXiv 1812.06162, appendix A.1).

    The small batch is that of one rank, the big one that of all ranks. On one rank they are a part of an accumulated
    step (training_step.in_parts) and the whole step. Batches must be independent samples along the first axis.
    Averages cover about the last `span` steps (infinity: all). They begin again when a run is resumed, because the
    world size may differ. Steps that overflowed do not count.
    Pass it to fit as a callback; it finds the optimizer (of reduction.distributed) in the model.
    """

    def __init__(self, world: World, log: MetricsLog, span: float = SPAN) -> None:
        super().__init__()
        self._world, self._log = world, log
        keep = 1 - 1 / span
        self._keep = tf.constant([keep, keep**2] + [keep] * 5 + [1.0], tf.float64)
        # Sums of a step's weight w, noise n and norm g: w, w^2, w n, w g, w n^2, w g^2, w n g, and the number of steps.
        self._sums = tf.Variable(tf.zeros(8, tf.float64), trainable=False)
        self._samples: Any = None  # the number on this rank, in the step that is being traced
        self._attached = False

    def set_model(self, model: Any) -> None:
        """Attach to the model, before fit traces its step."""
        super().set_model(model)
        if self._attached:
            return
        self._attached = True
        step = model.train_step

        def counted(data: Any) -> Any:
            self._samples = tf.shape(tf.nest.flatten(data)[0])[0]
            return step(data)

        model.train_step = counted
        model.train_function = None  # a function traced by an earlier fit would not count steps
        if self._world.size > 1:
            size = self._world.size
            optimizer = precision.unscaled(model.optimizer)
            gradient_norms.watch(optimizer, self._world, lambda one, both: self._add(one, both, size, 1.0))
        elif hasattr(model, "watch_parts"):
            model.watch_parts(lambda one, both, parts: self._add(one, both, parts, parts))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Log a line and print one, on rank 0."""
        found = self.result()
        if found is None or not self._world.is_root:
            return
        steps = int(self._sums[7])
        self._log.write("noise_scale", **noise_estimate.line(found, epoch + 1, steps))
        print(noise_estimate.in_words(found, epoch + 1, steps), flush=True)

    def result(self) -> Estimate | None:
        """The current estimate, the same on every rank; None before the second step."""
        return estimate([float(value) for value in self._sums.numpy()[:7]])

    def _add(self, one: Any, both: Any, size: Any, parts: Any) -> None:
        """Count a step: squared norms of gradients of a part of this rank's samples, and of `size` such parts."""
        optimizer = self.model.optimizer
        is_unscaled = getattr(optimizer, "averages_on_apply", False)  # before its gradients are reduced
        scale = tf.cast(1.0 if is_unscaled else getattr(optimizer, "loss_scale", 1.0), tf.float64)  # of float16
        one, both = [tf.cast(value, tf.float64) / scale**2 for value in (one, both)]
        variance, norm = gradient_noise(one, both, tf.cast(size, tf.float64))
        noise = variance * tf.cast(self._samples, tf.float64) / tf.cast(parts, tf.float64)
        now = tf.stack([1.0, 1.0, noise, norm, noise**2, norm**2, noise * norm, 1.0])
        finite = tf.reduce_all(tf.math.is_finite(now))
        self._sums.assign(tf.where(finite, self._keep * self._sums + now, self._sums))


def callbacks(asked: Any, world: World, log: MetricsLog) -> list[Any]:
    """The callback, if it is requested and there are two batch sizes to compare; otherwise rank 0 prints the reason.

    asked: has noise_scale, accumulation, adasum (whose sums are no averages), shard_optimizer, gradient_lag and
    update_groups.
    """
    if not asked.noise_scale or asked.adasum:
        return []
    rules = [
        (asked.shard_optimizer and world.size > 1, "not measured with --shard-optimizer=true"),
        (asked.gradient_lag, "not measured with --gradient-lag=true"),
        (asked.update_groups > 1, "not measured with --update-groups above 1"),
        (world.mesh is not None, "not measured if ranks share a model"),
        (world.distribute is not None, "measured with --strategy=horovod only"),
        (world.size == 1 and asked.accumulation == 1, "one rank can measure it with --accumulation=2 or more"),
    ]
    reasons = [text for applies, text in rules if applies]
    if not reasons:
        return [NoiseScale(world, log)]
    if world.is_root:
        print("gradient noise scale: " + reasons[0], flush=True)
    return []
