"""Keras callbacks of a rank: learning rate, shared statistics, progress, the stop on a NaN loss."""

from __future__ import annotations

import math
import time
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.model_parallel import groups
from hpclaunch.training.monitoring.validation import add_up, results_of
from hpclaunch.training.optimization import precision
from hpclaunch.training.optimization.learning_rate import Schedule
from hpclaunch.training.progress import step_times
from hpclaunch.training.rank import over_ranks
from hpclaunch.training.rank.equality import same_on_copies
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.horovod import hvd
from hpclaunch.training.rank.world import World


class LearningRate(tf.keras.callbacks.Callback):
    """Sets the learning rate of a schedule before every step, or before every steps_per_execution steps.

    gain: another factor, which is measured during training (AdaScale). Another callback may change the rate at the
    beginning or the end of an epoch, as Keras's ReduceLROnPlateau does. The schedule is then multiplied by what it
    changed. factor: the product of such changes in earlier attempts.
    """

    def __init__(
        self, schedule: Schedule, steps: int, gain: Callable[[], float] = lambda: 1.0, factor: float = 1.0
    ) -> None:
        super().__init__()
        self._schedule, self._steps, self._gain, self._factor = schedule, steps, gain, factor
        self._epoch, self._looks = 0, False
        self._set: float | None = None

    @property
    def factor(self) -> float:
        """By how much other callbacks have multiplied the rates of the schedule."""
        if not self._set:
            return self._factor
        now = float(tf.keras.backend.get_value(self.model.optimizer.learning_rate))
        # What was set is float32 here, too: unless another callback has changed it, the factor stays exact.
        return self._factor if now == self._set else self._factor * now / self._set

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch, self._looks = epoch, True
        if self._set is None:
            self._put(float(epoch))

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._looks:  # once in an epoch: to read a variable waits for a GPU
            self._factor, self._looks = self.factor, False
        self._put(self._epoch + batch / self._steps)

    def _put(self, epoch: float) -> None:
        rate = self._schedule.at(epoch) * self._gain() * self._factor
        self.model.optimizer.learning_rate = rate
        self._set = float(np.float32(rate))


class AverageMetrics(tf.keras.callbacks.Callback):
    """Makes loss and metrics of an epoch those of all ranks. Place it first: the callbacks after it get these.

    What a metric of Keras has measured comes from its sums over the ranks: a mean of weighted samples has another
    weight on each rank, and an AUC is no mean. All other values, as a train_step of the program's own may give them,
    are averaged.

    hvd.callbacks.MetricAverageCallback does the same, and fails where Keras 3 is installed beside tf-keras.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._world.data_size == 1 or not logs:
            return
        # A strategy of TensorFlow adds up its metrics itself.
        metrics = [] if self.model is None or self._world.distribute is not None else self.model.metrics
        own = results_of(metrics)
        names = sorted(logs)  # in the same order on every rank
        values = [float(logs[name]) for name in names]
        measured = [float(is_measured(own, name, value)) for name, value in zip(names, values)]
        averages = over_ranks.averaged(self._world, [values, measured], "metrics")
        logs.update((name, float(value)) for name, value in zip(names, averages[0]))
        add_up(self._world, [variable for metric in metrics for variable in metric.variables])
        of_all = results_of(metrics)
        size = self._world.data_size
        logs.update((name, of_all[name]) for name, share in zip(names, averages[1]) if is_of_all(share, size))


def is_measured(results: Mapping[str, float], name: str, logged: float) -> bool:
    """Whether a value of the logs is what the metric of that name has measured (`results`), but for rounding.

    A compiled function may add in another order than what is computed one by one.
    """
    return name in results and math.isclose(results[name], logged, rel_tol=1e-5)


def is_of_all(share: float, ranks: int) -> bool:
    """Whether an average of zeros and ones over ranks is one of ones alone.

    Horovod multiplies the sum by 1 / ranks, which is rounded: for 49 ranks the average of ones is below 1.
    """
    return share * ranks > ranks - 0.5


class AverageStatistics(tf.keras.callbacks.Callback):
    """Averages the variables that are not trained (batch norm's moving mean and variance) over the ranks every epoch.

    Each rank computes them from its own shard. Without the average, ranks would evaluate different models, and the
    checkpoint would contain those of rank 0. Place it before saving.Saving. A TensorFlow strategy averages by itself.
    Frozen weights are equal on all ranks and stay as they are: an average of three equal numbers is rounded.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._world.data_size == 1 or self._world.distribute is not None:
            return
        found = [variable for variable in self.model.non_trainable_variables if variable.dtype.is_floating]
        same = same_on_copies(self._world, [variable.numpy() for variable in found])
        ranks = groups.samples_set(self._world)
        for number, variable in enumerate(v for v, is_same in zip(found, same) if not is_same):
            name = "statistics.{}".format(number)
            variable.assign(hvd.allreduce(variable.read_value(), name=name, process_set=ranks))


class StopOnNaN(tf.keras.callbacks.Callback):
    """Ends all ranks together when the loss or a weight of any rank is not a finite number.

    The loss alone does not show it: oneDNN's ReLU turns NaN into zero, so that a model full of NaN may have a finite
    loss. Weights are equal on all ranks unless a processor or its memory is faulty, so ranks share what they find.
    Under float16, overflowing gradients do not end the run: loss scaling skips the step, and no weight changes.
    """

    EVERY = 50  # steps between two checks; all ranks check at the same step, since a check is a collective

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._looks = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._looks = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        looks = (batch + 1) // self.EVERY
        if looks > self._looks:  # with steps_per_execution not every step ends here
            self._looks = looks
            stop_if_diverged(self._world, self.model, logs["loss"], "step {}".format(batch + 1))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        stop_if_diverged(self._world, self.model, logs["loss"], "the end of epoch {}".format(epoch + 1))


def stop_if_diverged(world: World, model: Any, loss: float, when: str) -> None:
    """Raise AgreedError on all ranks if the loss or a weight of any rank is not a finite number. A collective."""
    sound = 1.0 if _all_finite(precision.plain(model.trainable_variables)) else 0.0
    if world.size > 1:  # their averages: all ranks stop, or none
        averages = over_ranks.averaged(world, [float(loss), sound], "divergence_check", of_all=True)
        loss, sound = [float(value) for value in averages]
    if not np.isfinite(loss):
        found = "the loss is {}".format(loss)
    elif sound < 1:
        found = "a weight is not a finite number"
    else:
        return
    raise AgreedError(
        "{} at {}: training has diverged. Lower the learning rate, or lengthen the warm-up.".format(found, when),
        speaks=world.is_root,
    )


@tf.function(autograph=False)
def _all_finite(variables: Sequence[tf.Variable]) -> tf.Tensor:
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(variable)) for variable in variables])


class Report(tf.keras.callbacks.Callback):
    """Prints progress and logs an epoch line on rank 0: the loss and whatever metrics the model is compiled with.

    samples: images of one epoch over all ranks. If single steps can be timed, the line also has the median of the
    epoch's steps (step_s, seconds) and how much they vary (step_spread). validation: of the epochs, whose seconds do
    not count as training, but are in the line as well (validation_s). parts: the StepParts of the epochs.
    """

    EVERY_S = 10.0

    def __init__(
        self,
        world: World,
        log: MetricsLog,
        samples: int,
        steps: int,
        epochs: int,
        validation: Any = None,
        parts: Any = None,
    ) -> None:
        super().__init__()
        self._validation, self._parts = validation, parts
        self._world, self._log, self._samples, self._steps, self._epochs = world, log, samples, steps, epochs
        self._epoch, self._first = 0, -1
        self._began = self._printed = 0.0
        self._ends: list[tuple[int, float]] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch, self._first = epoch, -1
        self._began = self._printed = time.perf_counter()
        self._ends = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._first < 0:
            self._first = batch  # not 0 in an epoch that another attempt has begun

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        now = time.perf_counter()
        self._ends.append((batch, now))
        if now - self._printed >= self.EVERY_S:
            self._printed = now
            rate = (batch + 1 - self._first) / self._steps * self._samples / (now - self._began)
            self._print("step {}/{}".format(batch + 1, self._steps), logs, rate)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        validating = self._validation.seconds if self._validation else 0.0
        seconds = time.perf_counter() - self._began - validating
        rate = (1 - max(0, self._first) / self._steps) * self._samples / seconds
        current = float(tf.keras.backend.get_value(self.model.optimizer.learning_rate))
        self._log.write(
            "epoch",
            epoch=epoch + 1,
            **{name: float(value) for name, value in logs.items()},
            images_per_s=round(rate, 1),
            seconds=round(seconds, 3),
            learning_rate=current,
            **({"validation_s": round(validating, 3)} if validating else {}),
            **self._step_times(),
            **(self._parts.line if self._parts else {}),
        )
        self._print("{:.1f} s".format(seconds), logs, rate)

    def _step_times(self) -> dict[str, float]:
        pairs = zip(self._ends, self._ends[1:])
        return step_times([end - begin for (before, begin), (batch, end) in pairs if batch == before + 1])

    def _print(self, where: str, logs: Any, rate: float) -> None:
        if self._world.is_root:
            values = "  ".join("{} {:.4f}".format(name, value) for name, value in logs.items())
            print(
                "epoch {}/{} {}  {}  {:.0f} images/s".format(self._epoch + 1, self._epochs, where, values, rate),
                flush=True,
            )
