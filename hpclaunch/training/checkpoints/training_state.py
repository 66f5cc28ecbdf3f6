"""All that a training run would lose if it ended now: reads it from a compiled Keras model, and puts it back."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from hpclaunch.training.input.shards import stream_seed
from hpclaunch.training.optimization import precision
from hpclaunch.training.rank import strategies
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.world import World

Arrays = dict


class TrainingState:
    """The variables of one rank: those that all ranks share, and those that are its own.

    Shared: trainable weights, the optimizer's state with its count of steps, float16's loss scale, and `extras`
    (AdaScale's averages). Own: batch normalization's statistics (within an epoch every rank has gathered others), the
    random generators of layers such as Dropout, and the sums behind the metrics of a broken epoch.
    """

    def __init__(self, model: Any, world: World, seed: int, extras: Sequence[Any] = ()) -> None:
        self._model, self._world, self._seed, self._extras = model, world, seed, list(extras)
        self._sums_before: Arrays = {}
        if world.distribute is not None:
            # Making a variable is a collective there, and rank 0 alone reads the shared ones.
            with strategies.scope(world):
                self._shared()

    def shared(self) -> Arrays:
        """Arrays weight-NNN, optimizer-NNN, scale-NNN, extra-NNN."""
        return {name: variable.numpy() for name, variable in self._shared()}

    def own(self, metrics: bool) -> Arrays:
        """Arrays statistic-NNN, random-NNN, and with `metrics` metric-NNN."""
        found = {name: variable.numpy() for name, variable in self._statistics() + self._generators()}
        if metrics:
            found.update((name, variable.numpy()) for name, variable in self._metrics())
        return found

    def put_shared(self, arrays: Arrays) -> None:
        """Take over what `shared` gave; on rank 0, before `spread`. Raises TrainingError for another model's."""
        put(self._shared(), arrays)

    def spread(self) -> None:
        """Give every rank rank 0's shared variables. A collective."""
        if self._world.size > 1:
            for name, variable in self._shared():
                variable.assign(hvd.broadcast(variable.read_value(), root_rank=0, name="restore." + name))

    def put_own(self, arrays: Arrays) -> None:
        """Take over what `own` gave; the metrics' sums wait for `add_metrics`."""
        self._sums_before = {name: array for name, array in arrays.items() if name.startswith("metric")}
        kept = {name: array for name, array in arrays.items() if name not in self._sums_before}
        put(self._statistics() + self._generators(), kept)

    def put_average(self, several: Iterable[Arrays], made: int) -> None:
        """Take over what `own` gave in a world of another size: averaged statistics, and random numbers begun anew.

        made: steps so far; with the rank it decides the new random numbers.
        """
        held = list(several)
        put(self._statistics(), {name: _mean([one[name] for one in held]) for name, _ in self._statistics()})
        for n, (_, state) in enumerate(self._generators()):
            fresh = tf.random.Generator.from_seed(stream_seed(self._seed, "layer", n, self._world.rank, made))
            state.assign(fresh.state)

    def add_metrics(self) -> None:
        """Add the sums of a broken epoch to those of its rest, once: Keras's means are a total and a count."""
        for name, variable in self._metrics():
            if name in self._sums_before:
                variable.assign(variable.read_value() + self._sums_before[name])
        self._sums_before = {}

    def _shared(self) -> list[tuple[str, Any]]:
        model, optimizer = self._model, self._model.optimizer
        precision.unscaled(optimizer)._create_all_weights(model.trainable_variables)  # else they come with step one
        return [
            *_named("weight", model.trainable_variables),
            *_named("optimizer", precision.unscaled(optimizer).variables()),
            *_named("scale", precision.scale_variables(optimizer)),
            *_named("extra", self._extras),
        ]

    def _statistics(self) -> list[tuple[str, Any]]:
        return _named("statistic", self._model.non_trainable_variables)

    def _generators(self) -> list[tuple[str, Any]]:
        return _named("random", [generator.state for generator in generators(self._model)])

    def _metrics(self) -> list[tuple[str, Any]]:
        return _named("metric", [variable for metric in self._model.metrics for variable in metric.variables])


def generators(model: Any) -> list[Any]:
    """The tf.random.Generators of a Keras model's layers; start() makes Keras use them (Keras keeps no other state)."""
    found = []
    for layer in model.submodules:
        random = getattr(layer, "_random_generator", None)
        if random is not None:
            random._maybe_init()
            if random._generator is not None:
                found.append(random._generator)
    return found


def put(variables: list[tuple[str, Any]], arrays: Arrays) -> None:
    """Assign arrays to the variables of the same names; raises TrainingError unless names and shapes are the same."""
    wanted = {name: tuple(variable.shape) for name, variable in variables}
    held = {name: tuple(array.shape) for name, array in arrays.items()}
    if wanted != held:
        different = sorted(name for name in set(wanted) | set(held) if wanted.get(name) != held.get(name))
        raise TrainingError(
            "the checkpoint is of another model or optimizer: {} is {} here and {} there".format(
                different[0], wanted.get(different[0], "not"), held.get(different[0], "not")
            )
        )
    for name, variable in variables:
        variable.assign(arrays[name])


def _named(kind: str, variables: Iterable[Any]) -> list[tuple[str, Any]]:
    return [("{}-{:03d}".format(kind, n), variable) for n, variable in enumerate(variables)]


def _mean(arrays: list[Any]) -> Any:
    return np.mean(arrays, axis=0).astype(arrays[0].dtype)
