"""Validates a model after its epochs, on samples that are spread over the ranks; every sample counts once."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, Iterable, Sequence

import tensorflow as tf

from hpclaunch.training import evaluation
from hpclaunch.training.metrics import VALIDATION_PREFIX
from hpclaunch.training.model_parallel import groups
from hpclaunch.training.monitoring.best_epoch import is_validated
from hpclaunch.training.optimization.weight_average import WeightAverage
from hpclaunch.training.rank import strategies, watch
from hpclaunch.training.rank.horovod import hvd
from hpclaunch.training.rank.world import World

Batches = Callable[[], Iterable[Any]]


class Validation(tf.keras.callbacks.Callback):
    """Adds val_loss and the other metrics of the validation to the logs of an epoch, as Keras names them.

    measure: from the model to the metrics, without the prefix: a Compiled or an AsAtTheEnd. every: so many epochs; the
    last one, `epochs`, is validated as well. average: of the weights, which is validated in their place.
    seconds: how long the validation of the last epoch took. Place it after AverageStatistics, so that all ranks
    validate the same model, and before whatever reads the metrics.
    """

    def __init__(self, measure: Any, every: int, epochs: int, average: WeightAverage | None = None) -> None:
        super().__init__()
        self._average = average
        self._measure, self._every, self._epochs = measure, every, epochs
        self.seconds = 0.0

    @property
    def default(self) -> str:
        """The name of the metric by which an epoch is judged where nobody names one."""
        return VALIDATION_PREFIX + str(self._measure.default)

    def names(self, model: Any) -> list[str]:
        """The names of the metrics that it adds; known after the first step of the training."""
        return [VALIDATION_PREFIX + name for name in self._measure.names(model)]

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seconds = 0.0
        if not is_validated(epoch + 1, self._every, self._epochs):
            return
        watch.reached("the validation after epoch {}".format(epoch + 1))
        began = time.perf_counter()
        with self._average.in_use() if self._average else contextlib.nullcontext():
            found = self._measure(self.model)
        logs.update((VALIDATION_PREFIX + name, value) for name, value in found.items())
        self.seconds = time.perf_counter() - began
        watch.reached("training")


class Compiled:
    """Measures the loss and the metrics that a model is compiled with. Calling it is a collective.

    batches: makes one pass over this rank's batches, of any number and any sizes. Keras's metrics are sums and counts,
    which are added over the ranks before a metric divides them: an average of the ranks' averages would have the wrong
    weights. A metric of one's own must have such variables too.
    """

    default = "loss"

    def __init__(self, world: World, batches: Batches) -> None:
        self._world, self._batches = world, batches
        self._step: Any = None

    def names(self, model: Any) -> list[str]:
        """The names of its metrics; known after the first step of the training."""
        return [metric.name for metric in model.metrics]

    def __call__(self, model: Any) -> dict[str, float]:
        if self._step is None:
            self._step = tf.function(model.test_step)
        model.reset_metrics()  # fit has read those of the epoch, and resets them before the next one
        for batch in self._batches():
            self._step(batch)
            watch.this_rank.mark()
        add_up(self._world, [variable for metric in model.metrics for variable in metric.variables])
        found = results_of(model.metrics)
        model.reset_metrics()
        return found


def results_of(metrics: Sequence[Any]) -> dict[str, float]:
    """What metrics have measured, by name; one of several values has their names."""
    found: dict[str, Any] = {}
    for metric in metrics:
        result = metric.result()
        found.update(result if isinstance(result, dict) else {metric.name: result})
    return {name: float(value) for name, value in found.items()}


def add_up(world: World, variables: list[Any]) -> None:
    """Replace the values of variables by their sums over all ranks with different samples. A collective."""
    if world.data_size == 1 or not variables:
        return
    flat = tf.concat([tf.cast(tf.reshape(variable, [-1]), tf.float64) for variable in variables], axis=0)
    total = hvd.allreduce(flat, op=hvd.Sum, name="validation", process_set=groups.samples_set(world))
    parts = tf.split(total, [variable.shape.num_elements() for variable in variables])
    for variable, part in zip(variables, parts):
        variable.assign(tf.cast(tf.reshape(part, variable.shape), variable.dtype))


class AsAtTheEnd:
    """Measures a model that cannot validate itself, as the evaluation at the end does. Calling it is a collective.

    Such are a model without a loss, as a custom loop trains, and one of a strategy of TensorFlow, where each rank
    would need as many batches as the others. Its metrics are loss (cross-entropy) and accuracy for classes, mse and mae
    for numbers.
    """

    def __init__(self, world: World, batches: Batches, has_classes: bool) -> None:
        self._world, self._batches, self._has_classes = world, batches, has_classes

    @property
    def default(self) -> str:
        """The metric by which an epoch is judged."""
        return self.names(None)[0]

    def names(self, model: Any) -> list[str]:
        """The names of its metrics."""
        return ["loss", "accuracy"] if self._has_classes else ["mse", "mae"]

    def __call__(self, model: Any) -> dict[str, float]:
        own = strategies.alone(model, self._world)
        if self._has_classes:
            logits = evaluation.gives_logits(model.loss)
            found = evaluation.evaluate(own, self._batches(), self._world, logits)
        else:
            found = evaluation.errors(own, self._batches(), self._world)
        return {name: found["test_" + name] for name in self.names(model)}
