"""A custom training loop, with the data, the learning rates, the checkpoints and the log of `fit`."""

from __future__ import annotations

import time
from typing import Any, Iterator

from hpclaunch.training.input import streaming
from hpclaunch.training.optimization import reduction
from hpclaunch.training.program.preparation import Compiled, Prepared, prepare
from hpclaunch.training.program.run import Run
from hpclaunch.training.program.sharded_data import Data
from hpclaunch.training.program.steady import finish, steady
from hpclaunch.training.rank.failure import AgreedError, TrainingError


class Loop:
    """The batches of all epochs that are still to be made: iterate over it, and call `step` once for each batch.

    model: the Keras model, with the same weights on every rank.
    """

    def __init__(self, run: Run, data: Data, prepared: Prepared) -> None:
        self.model = prepared.model
        self._run, self._data, self._prepared = run, data, prepared
        self._follows = steady(run, data, prepared, in_fit=False)
        for callback in self._follows.callbacks:
            callback.set_model(self.model)
        self._losses: list[float] = []

    def __iter__(self) -> Iterator[Any]:
        """Yield this rank's batches, (inputs [b, ...], targets [b, ...]), from the place where training continues."""
        began, place = time.perf_counter(), self._prepared.place
        self._call("on_train_begin")
        read = self._data.feed.read_from(place.epoch, self._run.world.own_replicas)
        with streaming.damage_named(self._data.source, read, self._run.settings.input == "stream"):
            for epoch in range(place.epoch, self._run.settings.epochs):
                if self._follows.kept.is_over:
                    break
                yield from self._epoch(epoch, place.step if epoch == place.epoch else 0)
        self._call("on_train_end")
        finish(self._run, self._data, self._prepared, self._follows, time.perf_counter() - began)

    def step(self, loss: Any, gradients: Any) -> None:
        """Change the weights by the gradients of all ranks. A collective: once for each batch, on every rank.

        loss: of this rank's batch, a scalar. gradients: of the loss, one for each of model.trainable_variables.
        """
        optimizer, variables = self.model.optimizer, self.model.trainable_variables
        reduced = reduction.reduced(optimizer, gradients, variables)
        optimizer.apply_gradients(zip(reduced, variables))
        self._losses.append(float(loss))

    def _epoch(self, epoch: int, first: int) -> Iterator[Any]:
        self._losses = []
        self._call("on_epoch_begin", epoch)
        steps = range(first, self._data.feed.steps)
        batches = self._follows.waits.in_python(self._data.feed.batches_from(epoch, first))
        for made, (step, batch) in enumerate(zip(steps, batches), 1):
            self._call("on_train_batch_begin", step)
            yield batch
            if len(self._losses) != made:
                raise TrainingError("the loop must call step(loss, gradients) once for each batch")
            self._call("on_train_batch_end", step, {"loss": self._losses[-1]})
        self._call("on_epoch_end", epoch, {"loss": sum(self._losses) / max(1, len(self._losses))})

    def _call(self, event: str, *about: Any) -> None:
        for callback in self._follows.callbacks:
            getattr(callback, event)(*about)


def loop(run: Run, network: Any, data: Data, *, optimizer: Any = None) -> Loop:
    """A custom loop over the batches, in place of `fit`. A collective. network, optimizer: as for `fit`.

    ::

        loop = training.loop(run, network, data)
        for inputs, targets in loop:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((loop.model(inputs, training=True) - targets) ** 2)
            loop.step(loss, tape.gradient(loss, loop.model.trainable_variables))

    The loss of an epoch in metrics.jsonl is the mean over the steps of this attempt.
    Raises AgreedError for settings of a step that `fit` makes: accumulation, xla, steps_per_execution, float16,
    gradient_lag, and a strategy of TensorFlow.
    """
    asked = run.settings
    problems = [
        (asked.accumulation > 1, "--accumulation above 1"),
        (asked.xla, "--xla=true"),
        (asked.steps_per_execution > 1, "--steps-per-execution above 1"),
        (asked.precision == "float16", "--precision=float16"),
        (asked.gradient_lag, "--gradient-lag=true"),
        (run.world.distribute is not None, "--strategy"),
        (run.world.mesh is not None and run.world.mesh.pipeline > 1, "--pipeline-stages above 1"),
    ]
    found = [words for wrong, words in problems if wrong]
    if found:
        raise AgreedError(
            "{}: only training.fit can do this, not a custom loop".format(", ".join(found)), speaks=run.is_root
        )
    if data.source.needs_own_measures and data.validation:
        raise AgreedError(
            "samples with several targets, or with weights, are validated by the loss of training.fit, which a loop of "
            "one's own has not: set --validation-every=0",
            speaks=run.is_root,
        )
    return Loop(run, data, prepare(run, network, data, Compiled(optimizer=optimizer)))
