"""Measures how much of a step the ranks spend in the all-reduce of the gradients, once in a training; it judges it too.

The all-reduce is measured beside the training, with values of its own, as soon as an epoch has shown how long a step
takes. Real steps may hide a part of it behind their computation, so the share says how much there is to hide.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any, Callable, Sequence

import tensorflow as tf

from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.rank.horovod import hvd
from hpclaunch.training.rank.world import World

WARM_UP, REPEATS = 1, 3
FEWEST_STEPS = 100 * (WARM_UP + REPEATS)
"""Steps of a training from which on it is measured: each has an all-reduce of its own, so it costs at most 1 %."""
FEWEST_LENGTHS, MOST_LENGTHS = 5, 1000
"""Of how many executions (steps_per_execution steps each) of an epoch a step's time is the median."""
MOST_BYTES = 64 * 2**20
"""What is sent at most, so that it needs little memory; more bytes take longer in proportion to their number."""
DOMINATES = 0.5
"""The share of a step from which on a run is warned of: hpclaunch's own choice."""


def step_length(ends: Sequence[tuple[int, float]]) -> float:
    """The median seconds of a step, given (number, seconds on a clock) of the steps at which executions ended.

    0 if there are too few. The first execution, which may trace the step, does not count.
    """
    pairs = [(before, after) for before, after in zip(ends, ends[1:]) if after[0] > before[0]]
    if len(pairs) < FEWEST_LENGTHS:
        return 0.0
    return median((after[1] - before[1]) / (after[0] - before[0]) for before, after in pairs)


def warning_of(all_reduce_s: float, step_s: float, ranks: int) -> str:
    """One sentence if the all-reduce takes more than half as long as a whole step; empty if it does not.

    Source: Nair 2021, "Why Parallelized Training Might Not be Working for You": with 8 samples per process the
    communication made a distributed training six times slower than one process with the same global batch.
    """
    if all_reduce_s <= DOMINATES * step_s:
        return ""
    return (
        "the {} ranks spend most of a step in communication: the all-reduce of the gradients takes {:.3g} ms, a whole "
        "step {:.3g} ms. More samples per rank, or fewer ranks with the same global batch, may be faster".format(
            ranks, 1e3 * all_reduce_s, 1e3 * step_s
        )
    )


def gradient_bytes(model: Any, itemsize: int) -> int:
    """Bytes of the gradients that every rank sends whole; those of embeddings are sparse, and do not count."""
    sparse = {
        id(weight)
        for layer in model._flatten_layers()
        if isinstance(layer, tf.keras.layers.Embedding)
        for weight in layer.trainable_weights
    }
    sizes = [int(tf.size(one)) for one in model.trainable_variables if id(one) not in sparse]
    return itemsize * sum(sizes)


class Communication(tf.keras.callbacks.Callback):
    """Logs an event `communication` on rank 0, and prints a warning if communication dominates the step.

    half: gradients are sent as float16. clock: seconds.
    """

    def __init__(
        self, world: World, log: MetricsLog, half: bool = False, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        super().__init__()
        self._world, self._log, self._half, self._clock = world, log, half, clock
        self._ends: list[tuple[int, float]] = []
        self._done = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._ends = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if not self._done and len(self._ends) <= MOST_LENGTHS:
            self._ends.append((batch, self._clock()))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Measure, at the end of the first epoch with enough steps: a collective, as all ranks make equal steps."""
        step_s = step_length(self._ends)
        if self._done or not step_s:
            return
        self._done = True
        size = gradient_bytes(self.model, 2 if self._half else 4)
        if not size:
            return
        all_reduce_s = self._all_reduce_s(size)
        warning = warning_of(all_reduce_s, step_s, self._world.size)
        self._log.write(
            "communication",
            epoch=epoch + 1,
            gradient_bytes=size,
            all_reduce_s=round(all_reduce_s, 7),
            step_s=round(step_s, 7),
            share=round(all_reduce_s / step_s, 4),
            **({"warning": warning} if warning else {}),
        )
        if warning and self._world.is_root:
            print("warning: {}".format(warning), flush=True)

    def _all_reduce_s(self, size: int) -> float:
        """The median seconds of an all-reduce of so many bytes, sent as one tensor. A collective."""
        sent = min(size, MOST_BYTES)
        values = tf.zeros([sent // (2 if self._half else 4)], tf.float16 if self._half else tf.float32)
        lengths = []
        for _ in range(WARM_UP + REPEATS):
            began = self._clock()
            total = hvd.allreduce(values, op=hvd.Sum, name="communication")
            float(total[0])  # reading it also waits for a GPU
            lengths.append(self._clock() - began)
        return median(lengths[WARM_UP:]) * size / sent


def callbacks(asked: Any, world: World, log: MetricsLog, steps: int) -> list[Any]:
    """The callback, if every rank sends whole gradients with Horovod, and the training is long enough.

    asked: has compression, adasum, shard_optimizer, update_groups and epochs. steps: of an epoch.
    """
    alone = world.size == 1 or world.distribute is not None or world.mesh is not None
    other = asked.adasum or asked.shard_optimizer or getattr(asked, "update_groups", 1) > 1
    if alone or other or steps * asked.epochs < FEWEST_STEPS:
        return []
    return [Communication(world, log, half=asked.compression == "fp16")]
