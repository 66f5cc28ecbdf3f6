"""The callbacks of every step and epoch of a training, in their order; at its end, the return to the best epoch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Sequence

import tensorflow as tf

from hpclaunch.training import callbacks
from hpclaunch.training.checkpoints import saving
from hpclaunch.training.monitoring import communication, given_callbacks, scalars, trace
from hpclaunch.training.monitoring.agreement import SameLogs, StopTogether
from hpclaunch.training.monitoring.best import WatchBest
from hpclaunch.training.monitoring.kept import Kept
from hpclaunch.training.monitoring.same_model import SameModel, Way
from hpclaunch.training.monitoring.step_clocks import InputClock, StepParts
from hpclaunch.training.monitoring.validation import AsAtTheEnd, Compiled, Validation
from hpclaunch.training.optimization import group_updates, noise_scale, techniques, training_step
from hpclaunch.training.optimization.pipelined import Pipelined
from hpclaunch.training.optimization.weight_average import Averaging
from hpclaunch.training.program import trained_model
from hpclaunch.training.program.best_weights import take_best
from hpclaunch.training.program.preparation import Prepared
from hpclaunch.training.program.run import Run
from hpclaunch.training.program.sharded_data import Data
from hpclaunch.training.rank.failure import AgreedError


@dataclass(frozen=True)
class Steady:
    """callbacks: those of this rank, in their order. kept: what they know beyond the weights.

    waits: measures how long the steps wait for their batches, which must be made with it. same: proves that the ranks
    hold one model.
    """

    callbacks: list[Any]
    kept: Kept
    waits: InputClock
    same: SameModel


def steady(run: Run, data: Data, prepared: Prepared, own: Sequence[Any] = (), in_fit: bool = True) -> Steady:
    """The callbacks of a training. own: those of the program. in_fit: whether Keras's fit makes the steps.

    Metrics are averaged over the ranks, so that all ranks decide alike. All ranks save together, because each has state
    of its own. Raises AgreedError if one of `own` cannot work.
    """
    given_callbacks.check(own, run.world)
    _check_results(run, data, prepared.model)
    asked, world, feed, place = prepared.asked, run.world, data.feed, prepared.place
    before = place.epochs_facts
    rates = callbacks.LearningRate(prepared.schedule, feed.steps, prepared.gain, before.get("rate_factor", 1.0))
    validation = _validation(run, data, prepared)
    best = []
    if techniques.watches_best(asked):
        best = [WatchBest(world, run.log, asked, validation[0] if validation else None, before.get("best"))]
    kept = Kept(world, rates, best[0] if best else None, own, place)
    parts = StepParts(world, InputClock(), prepared.exchange)
    same = SameModel(world, prepared.state, _way(run, prepared, own, in_fit))
    found = [
        *([Averaging(prepared.average)] if prepared.average else []),
        *([group_updates.ExchangeWeights(asked.group_steps)] if asked.update_groups > 1 else []),
        callbacks.AverageMetrics(world),
        callbacks.AverageStatistics(world),
        callbacks.StopOnNaN(world),
        *([same] if world.size > 1 else []),
        rates,
        *validation,
        SameLogs(world),
        parts,
        callbacks.Report(
            world, run.log, feed.samples, feed.steps, asked.epochs, validation[0] if validation else None, parts
        ),
        *(noise_scale.callbacks(run.settings, world, run.log) if in_fit else ()),
        *communication.callbacks(asked, world, run.log, feed.steps),
        *given_callbacks.own_of(own, world),
        *best,
        *_records(run),
        StopTogether(world),
        kept,
        saving.Saving(world, prepared.state, asked, feed.steps, place, run.log, kept.facts, same.before_checkpoint),
    ]
    return Steady(found, kept, parts.waits, same)


def steps_itself(model: Any, run: Run) -> bool:
    """Whether the model has a training step of its own, whose gradients Horovod averages over several ranks."""
    is_own = not isinstance(model, Pipelined) and training_step.has_own_step(model)
    return is_own and run.size > 1 and run.world.distribute is None


def _way(run: Run, prepared: Prepared, own: Sequence[Any], in_fit: bool) -> Way:
    is_own = in_fit and steps_itself(prepared.model, run)
    optimizer = str(prepared.asked.optimizer)  # in words, if the program gives it
    return Way(
        step=type(prepared.model).__name__ if is_own else "",
        loop=not in_fit,
        optimizer=optimizer if "." in optimizer and not optimizer.startswith("tf.keras.") else "",
        callbacks=[type(one).__name__ for one in own],
    )


def finish(run: Run, data: Data, prepared: Prepared, follows: Steady, seconds: float) -> None:
    """Return to the best epoch, if the settings say so, write the model, and note what the training has come to.

    A collective. seconds: those of the training.
    """
    kept = follows.kept
    made: dict[str, Any] = {"epochs": kept.epochs, "seconds": round(seconds, 3)}
    if kept.best and kept.best.best:
        made.update(kept.best.results)
        take_best(run, prepared.state, kept.best.best, kept.epochs, prepared.place.lineage)
    if prepared.average:
        prepared.average.take()
    follows.same.prove("before the export", are_shared=True)
    run.made = {**made, **trained_model.write(run, prepared.model, data)}


def _records(run: Run) -> list[Any]:
    """The callbacks that write files for TensorBoard, on the ranks that do."""
    asked = run.settings
    found: list[Any] = []
    if asked.tensorboard and run.is_root:
        found.append(scalars.Scalars(os.path.join(run.folder, scalars.FOLDER)))
    if asked.profile_first and asked.profile_rank in (run.rank, trace.ALL):
        folder = os.path.join(run.folder, trace.FOLDER)
        found.append(trace.Trace(folder, run.rank, asked.profile_first, asked.profile_steps, run.log))
    return found


def _check_results(run: Run, data: Data, model: Any) -> None:
    """Raise AgreedError for results that these data and this model cannot have: before the training, not after it."""
    asked = run.settings
    shape = model.outputs_spec.shape if isinstance(model, Pipelined) else getattr(model, "output_shape", None)
    if not isinstance(shape, tuple):  # of several outputs
        shape = None
    outputs = (shape or [0])[-1] if getattr(model, "inputs", None) or isinstance(model, Pipelined) else 0
    classes = 2 if outputs == 1 else outputs
    named = "--top-k" if asked.top_k else "--confusion-matrix=true"
    problem = ""
    if (asked.top_k or asked.confusion_matrix) and not data.source.has_classes:
        problem = "{} needs targets that are classes; these are {}".format(
            named, "numbers" if data.source.several_targets is None else "several"
        )
    elif (asked.top_k or asked.confusion_matrix) and data.source.is_weighted:
        problem = "{} counts samples, and these have weights: give fit a metric of Keras".format(named)
    elif asked.top_k and classes and asked.top_k >= classes:
        problem = "--top-k={} of {} classes is always right: use fewer".format(asked.top_k, classes)
    elif asked.profile_first and asked.profile_rank >= run.size:
        problem = "--profile-rank={}: the ranks of this run are 0 to {}".format(asked.profile_rank, run.size - 1)
    if problem:
        raise AgreedError(problem, speaks=run.is_root)


def _validation(run: Run, data: Data, prepared: Prepared) -> list[Any]:
    """The callback that validates the model; none if the data have no samples for it, or the settings say so."""
    if not data.validation:
        return []
    measure: Any
    if not prepared.model.loss or run.world.distribute is not None:
        measure = AsAtTheEnd(run.world, lambda: data.held_out(data.validation), data.source.has_classes)
    else:
        measure = Compiled(run.world, lambda: _batches_for_loss(data, data.held_out(data.validation)))
    return [Validation(measure, run.settings.validation_every, run.settings.epochs, prepared.average)]


def _batches_for_loss(data: Data, batches: Any) -> Any:
    """Batches with labels as the loss expects them: mixup and cutmix make it expect [b, classes]."""
    if not data.augment.mixes:
        return batches
    return ((inputs, tf.one_hot(labels, data.augment.classes)) for inputs, labels in batches)
