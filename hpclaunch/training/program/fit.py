"""Trains a Keras model on all ranks with model.fit; resumes, saves, logs and schedules as the settings say."""

from __future__ import annotations

import time
from typing import Any, Mapping, Sequence

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
    metrics: Any = None,
    loss_weights: Any = None,
    weighted_metrics: Any = None,
    class_weight: Mapping[int, float] | None = None,
    optimizer: Any = None,
    callbacks: Sequence[Any] = (),
) -> Any:
    """Train to the last epoch of the settings, or to an early end. A collective.

    Returns the Keras model, the same on every rank.

    network: a function without arguments that makes the model (or the model, under Horovod and float32): inputs
    [b, ...] as the data are, outputs that fit `loss`. loss, metrics, loss_weights, weighted_metrics: as for
    model.compile, for several outputs a dictionary or list; without loss and metrics cross-entropy and accuracy, for
    targets that are classes and outputs that are probabilities. class_weight: as for model.fit, the weight of each
    class in the loss of the training, {0: 1.0, 1: 5.0}. optimizer: one of Keras, such as
    tf.keras.optimizers.Adam(0.001), in place of that of the settings; its learning rate, a number for a single batch,
    is scaled, warmed up and decayed as the settings say. callbacks: the program's own, of Keras, called on every rank,
    but those that write files on rank 0 alone (docs/training.md). All see the same metrics at the end of an epoch.
    A run that was interrupted continues at its last checkpoint. Raises RunAgain, after saving, if it is asked to stop.
    """
    _refuse(run, _why_not(run, data, loss, class_weight))
    if loss is None:
        loss, metrics = data.augment.loss, ["accuracy"] if metrics is None else metrics
    prepared = prepare(run, network, data, Compiled(loss, metrics, optimizer, loss_weights, weighted_metrics))
    if class_weight is not None:
        _refuse(run, _why_not_weighted(prepared.model, class_weight))
    if steps_itself(prepared.model, run):
        reduction.average_on_apply(prepared.model.optimizer)
    follows = steady(run, data, prepared, callbacks)
    if not run.world.distribute:
        # Of a whole epoch: to make what is left of one would read it.
        first_step.make_variables(prepared.model, data.feed.batches_from(prepared.place.epoch + 1, 0))
    began = time.perf_counter()
    if not follows.kept.is_over:
        read = data.feed.read_from(prepared.place.epoch, run.world.own_replicas)
        with streaming.damage_named(data.source, read, run.settings.input == "stream"):
            fitting.fit(
                prepared.model,
                data.feed.batches_from if run.world.distribute else follows.waits.in_pipeline(data.feed.batches_from),
                data.feed.steps,
                run.settings.epochs,
                follows.callbacks,
                prepared.place,
                prepared.state,
                class_weight,
            )
    finish(run, data, prepared, follows, time.perf_counter() - began)
    return prepared.model


def _refuse(run: Run, problem: str) -> None:
    if problem:
        raise AgreedError(problem, speaks=run.is_root)


def _why_not(run: Run, data: Data, loss: Any, class_weight: Any) -> str:
    """Why these samples cannot be trained on so, in words; empty if they can."""
    source = data.source
    is_class = source.has_classes and not data.augment.mixes
    several = source.several_inputs is not None or source.needs_own_measures or class_weight is not None
    rules = [
        (
            loss is None and source.several_targets is not None,
            'a sample has several targets: name the loss of each output, as in loss={"price": "mse", "rooms": "mae"}',
        ),
        (
            loss is None and not source.has_classes,
            'the targets are numbers, not classes: name a loss, as in loss="mse"',
        ),
        (
            loss is not None and data.augment.mixes,
            "mixup and cutmix mix the labels, so they need the loss of fit's own",
        ),
        (
            run.size > 1 and any(str(getattr(one, "reduction", "")) == "sum" for one in _list_losses(loss)),
            "a loss with reduction='sum' grows with the batch, and ranks average their gradients: with {} ranks it "
            "would train with 1/{} of the gradient. Leave the reduction out; with sgd, multiply the learning rate by "
            "the global batch".format(run.size, run.size),
        ),
        (
            several and run.world.distribute is not None,
            "several inputs or targets, and weights, need --strategy=horovod",
        ),
        (
            class_weight is not None and not is_class,
            "class_weight needs one target that is a class, without mixup and cutmix: give the samples weights",
        ),
        (
            class_weight is not None and sorted(class_weight) != list(range(len(class_weight))),
            "class_weight must have every class from 0 on: {0: 1.0, 1: 5.0}",
        ),
    ]
    return next((text for broken, text in rules if broken), "")


def _list_losses(loss: Any) -> list[Any]:
    """The losses of all outputs."""
    if isinstance(loss, Mapping):
        return [one for part in loss.values() for one in _list_losses(part)]
    return [one for part in loss for one in _list_losses(part)] if isinstance(loss, (list, tuple)) else [loss]


def _why_not_weighted(model: Any, class_weight: Mapping[int, float]) -> str:
    """Why the model's classes cannot have these weights, in words; empty if they can, or are not known."""
    outputs = getattr(model, "outputs", None) or []
    size = outputs[0].shape[-1] if len(outputs) == 1 else None
    classes = 2 if size == 1 else size
    if classes in (None, len(class_weight)):
        return ""
    return "class_weight has {} classes, the model {}: give every class its weight".format(len(class_weight), classes)
