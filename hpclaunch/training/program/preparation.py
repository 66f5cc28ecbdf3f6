"""What a training needs before its first step: the model on every rank, its optimizer, its state, its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import tensorflow as tf

from hpclaunch.training import progress
from hpclaunch.training.checkpoints import resuming
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.checkpoints.training_state import TrainingState
from hpclaunch.training.exports import whole_model
from hpclaunch.training.input import loading
from hpclaunch.training.model_parallel.recomputation import Recomputed
from hpclaunch.training.monitoring import same_model
from hpclaunch.training.monitoring.step_clocks import ExchangeClock, exchange_clock
from hpclaunch.training.optimization import (
    adascale,
    learning_rate,
    precision,
    reduction,
    training_step,
)
from hpclaunch.training.optimization import batch_norm as normalization
from hpclaunch.training.optimization.adascale import Gain
from hpclaunch.training.optimization.learning_rate import Schedule
from hpclaunch.training.optimization.pipelined import Pipelined
from hpclaunch.training.optimization.weight_average import WeightAverage
from hpclaunch.training.program import own_optimizer
from hpclaunch.training.program.run import Run
from hpclaunch.training.program.sharded_data import Data
from hpclaunch.training.rank import strategies, watch
from hpclaunch.training.rank.failure import AgreedError


@dataclass(frozen=True)
class Compiled:
    """What a model is compiled with, as model.compile takes it. optimizer: None for that of the settings.

    loss, metrics: a custom loop has none.
    """

    loss: Any = None
    metrics: Any = None
    optimizer: Any = None
    loss_weights: Any = None
    weighted_metrics: Any = None


@dataclass(frozen=True)
class Prepared:
    """A training before its first step. place: where it begins; schedule and gain: of the learning rate.

    asked: the settings, with the learning rate of the optimizer that the program gives. exchange: measures the exchange
    of the gradients, if that can be measured. average: of the weights, if the settings ask for it.
    """

    asked: Any
    model: Any
    state: TrainingState
    place: Place
    schedule: Schedule
    gain: Gain
    exchange: ExchangeClock | None
    average: WeightAverage | None = None


def batch_norm(run: Run, momentum: float = 0.99) -> Callable[[], Any]:
    """A function that makes the normalization layer of the settings (batch_norm, ghost_batch_size) for [b, ..., c]."""
    return normalization.maker(run.settings.batch_norm, run.settings.ghost_batch_size, momentum)


def prepare(run: Run, network: Any, data: Data, compiled: Compiled) -> Prepared:
    """Make the model and its optimizer, and restore the newest checkpoint, if there is one. A collective.

    network: a function without arguments that makes the Keras model, or the model.
    """
    watch.reached("the making of the model")
    asked, world = own_optimizer.settings(run, compiled.optimizer), run.world
    precision.use(asked.precision)
    with strategies.scope(world):  # empty, unless a strategy of TensorFlow replaces Horovod
        # All ranks begin with rank 0's weights.
        model = _step_in_parts(run, _make_model(run, network, data))
        same_model.prove_structure(world, model)
        reduction.broadcast_weights(model, world)

        # hvd.DistributedOptimizer averages gradients over all ranks; the rate grows with the batch.
        schedule = learning_rate.schedule(asked, world.replicas, data.feed.steps)
        if compiled.optimizer is None:
            own_optimizer.divide_weights(run, asked, model)
        optimizer = own_optimizer.make(run, asked, compiled.optimizer, schedule.rate)
        optimizer = _distribute(run, asked, optimizer, model)
        exchange = exchange_clock(optimizer, world, asked)
        gain = adascale.gain_for(asked, optimizer, world, own_optimizer.is_adaptive(compiled.optimizer))
        model.compile(
            precision.scaled(optimizer, asked.precision),
            loss=compiled.loss,
            metrics=compiled.metrics,
            loss_weights=compiled.loss_weights,
            weighted_metrics=compiled.weighted_metrics,
            steps_per_execution=asked.steps_per_execution,
        )
        own_optimizer.check_state(run, optimizer, model)

    # Training continues at the exact step that an earlier attempt has saved.
    average = WeightAverage(model, asked.ema_decay) if getattr(asked, "ema_decay", 0.0) else None
    extras = [*gain.variables, *(average.variables if average else ())]
    state = TrainingState(model, world, asked.seed, extras)
    feed, told = data.feed, data.source.fingerprint
    place = resuming.restore(world, state, asked, feed.steps, run.log, told, feed.sampler)
    _report(run, data, model, asked, schedule)
    watch.reached("the first step")
    return Prepared(asked, model, state, place, schedule, gain, exchange, average)


def _distribute(run: Run, asked: Any, optimizer: Any, model: Any) -> Any:
    """The optimizer that averages gradients over the ranks; with one copy of the model there is nothing to shard."""
    world, weights = run.world, model.trainable_variables
    if asked.shard_optimizer and world.data_size > 1:
        return reduction.sharded(optimizer, weights, world, asked)
    if asked.shard_optimizer and run.is_root:
        copies = "rank" if world.mesh is None else "copy of the model"
        print("--shard-optimizer=true has no effect on one {}".format(copies), flush=True)
    if asked.gradient_lag:
        return reduction.lagged(optimizer, weights, world, asked)
    if world.mesh is not None:
        return reduction.split(optimizer, weights, world, asked)
    return reduction.distributed(optimizer, world, asked.compression, asked.adasum)


def _make_model(run: Run, network: Any, data: Data) -> Any:
    """The model that `network` is or makes, with its weights. Raises AgreedError if it cannot be used as it is."""
    if isinstance(network, tf.keras.Model):
        if run.world.distribute is not None or run.settings.precision != "float32":
            raise AgreedError(
                "--strategy and --precision concern every layer when it is made: give a function that makes the model, "
                "in place of the model itself",
                speaks=run.is_root,
            )
        model = network
    else:
        model = network()
    if not isinstance(model, tf.keras.Model):
        raise AgreedError(
            "the network is of {}.{}, not a tf.keras.Model: make it with the layers of tf.keras, not with the package "
            "keras".format(type(model).__module__, type(model).__name__),
            speaks=run.is_root,
        )
    if not model.built:  # a subclass of Model without Input has no weights before it sees the shape of a batch
        with tf.name_scope(model.name):
            model(tf.nest.map_structure(_zeros_like, data.feed.batches_from(0, 0).element_spec[0]))
    return model


def _check_division(run: Run, model: Any) -> None:
    """Raise AgreedError if the model is not divided as the settings say."""
    stages, recompute = getattr(run.settings, "pipeline_stages", 1), getattr(run.settings, "recompute", False)
    wanted = ["--pipeline-stages={}".format(stages)] if stages > 1 and not isinstance(model, Pipelined) else []
    if recompute and not any(isinstance(one, Recomputed) for one in model._flatten_layers()):
        wanted.append("--recompute=true")
    if wanted:
        raise AgreedError(
            "{} need{} a model that training.layers.in_blocks makes".format(
                " and ".join(wanted), "" if wanted[1:] else "s"
            ),
            speaks=run.is_root,
        )


def _zeros_like(spec: tf.TensorSpec) -> Any:
    return tf.zeros([1, *spec.shape[1:]], spec.dtype)


def _step_in_parts(run: Run, model: Any) -> Any:
    asked = run.settings
    _check_division(run, model)
    if isinstance(model, Pipelined):
        model.micro_batches = asked.accumulation
        return model
    if asked.accumulation > 1 or asked.xla:
        reason = training_step.why_not_in_parts(model)
        if reason:
            raise AgreedError("--accumulation above 1 and --xla=true need {}".format(reason), speaks=run.is_root)
    return training_step.in_parts(model, asked.accumulation, asked.xla)


def _report(run: Run, data: Data, model: Any, asked: Any, schedule: Schedule) -> None:
    """Log settings, data and the shard of every rank, so that a run can be verified. A collective."""
    validation = {"split": data.validation, "samples": data.held_out.counts[data.validation]} if data.validation else {}
    facts = {
        "job": run.name,
        "steps_per_epoch": data.feed.steps,
        "validation": validation,
        "parameters": whole_model.parameters_of(model),
        "scaled_learning_rate": schedule.rate,
    }
    loading.report_start(run.world, run.log, asked, data.source, **facts)
    progress.report_warm_up(run.world, schedule)
    loading.report_shards(run.world, data.feed.shard, run.log, run.settings.record_shards)
