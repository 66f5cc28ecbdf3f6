"""Trains a Keras model on all ranks with model.fit; resumes, saves, logs and schedules as the settings say."""

from __future__ import annotations

import time
from typing import Any, Sequence

from hpclaunch.training import fitting
from hpclaunch.training.input import streaming
from hpclaunch.training.optimization import reduction
from hpclaunch.training.program import first_step
from hpclaunch.training.program.preparation import Compiled, prepare
from hpclaunch.training.program.run import Run
from hpclaunch.training.program.sharded_data import Data
from hpclaunch.training.program.steady import finish, steady, steps_itself
from hpclaunch.training.rank.failure import AgreedError


def fit(
    run: Run,
    network: Any,
    data: Data,
    *,
    loss: Any = None,
    metrics: Sequence[Any] | None = None,
    optimizer: Any = None,
    callbacks: Sequence[Any] = (),
) -> Any:
    """Train to the last epoch of the settings, or to an early end. A collective.

    Returns the Keras model, the same on every rank.

    network: a function without arguments that makes the model (or the model, under Horovod and float32): inputs
    [b, ...] as the data are, outputs that fit `loss`. loss, metrics: as for model.compile; without them cross-entropy
    and accuracy, for targets that are classes and outputs that are probabilities. optimizer: one of Keras, such as
    tf.keras.optimizers.Adam(0.001), in place of that of the settings; its learning rate, a number for a single batch,
    is scaled, warmed up and decayed as the settings say. callbacks: the program's own, of Keras, called on every rank,
    but those that write files on rank 0 alone (docs/training.md). All see the same metrics at the end of an epoch.
    A run that was interrupted continues at its last checkpoint. Raises RunAgain, after saving, if it is asked to stop.
    """
    if loss is None and not data.source.has_classes:
        raise AgreedError('the targets are numbers, not classes: name a loss, as in loss="mse"', speaks=run.is_root)
    if loss is None:
        loss, metrics = data.augment.loss, ["accuracy"] if metrics is None else metrics
    elif data.augment.mixes:
        raise AgreedError("mixup and cutmix mix the labels, so they need the loss of fit's own", speaks=run.is_root)
    prepared = prepare(run, network, data, Compiled(loss, metrics or (), optimizer))
    if steps_itself(prepared.model, run):
        reduction.average_on_apply(prepared.model.optimizer)
    follows = steady(run, data, prepared, callbacks)
    began = time.perf_counter()
    if not follows.kept.is_over:
        read = data.feed.read_from(prepared.place.epoch, run.world.own_replicas)
        with streaming.damage_named(data.source, read, run.settings.input == "stream"):
            if not run.world.distribute:
                # Of a whole epoch: to make what is left of one would read it.
                first_step.make_variables(prepared.model, data.feed.batches_from(prepared.place.epoch + 1, 0))
            fitting.fit(
                prepared.model,
                data.feed.batches_from if run.world.distribute else follows.waits.in_pipeline(data.feed.batches_from),
                data.feed.steps,
                run.settings.epochs,
                follows.callbacks,
                prepared.place,
                prepared.state,
            )
    finish(run, data, prepared, follows, time.perf_counter() - began)
    return prepared.model
