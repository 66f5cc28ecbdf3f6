"""The complete state of a training run: reads it from a compiled Keras model, and restores it."""

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
    """The variables of one rank: those that all ranks share, and its own.

    Shared are the trainable weights, the optimizer's state with its step count, float16's loss scale, and `extras`
    (AdaScale's averages). A rank's own are batch normalization's statistics (which differ between ranks within an
    epoch), the random generators of layers such as Dropout, and the sums behind the metrics of an interrupted epoch.
    """

    def __init__(self, model: Any, world: World, seed: int, extras: Sequence[Any] = ()) -> None:
        self._model, self._world, self._seed, self._extras = model, world, seed, list(extras)
        self._sums_before: Arrays = {}
        if world.distribute is not None:
            # There, to make a variable is a collective; but only rank 0 reads the shared ones.
            with strategies.scope(world):
                self._shared_variables()

    def shared(self) -> Arrays:
        """Arrays weight-NNN, optimizer-NNN, scale-NNN, extra-NNN."""
        return {name: variable.numpy() for name, variable in self._shared_variables()}

    def own(self, metrics: bool) -> Arrays:
        """Arrays statistic-NNN, random-NNN, and with `metrics` metric-NNN."""
        found = {name: variable.numpy() for name, variable in self._statistics() + self._generators()}
        if metrics:
            found.update((name, variable.numpy()) for name, variable in self._metrics())
        return found

    def put_shared(self, arrays: Arrays) -> None:
        """Restore the arrays of `shared`; on rank 0, before `spread`. Raises TrainingError for another model."""
        put(self._shared_variables(), arrays)

    def spread(self) -> None:
        """Give every rank the shared variables of rank 0. A collective."""
        if self._world.size > 1:
            for name, variable in self._shared_variables():
                variable.assign(hvd.broadcast(variable.read_value(), root_rank=0, name="restore." + name))

    def put_own(self, arrays: Arrays) -> None:
        """Restore the arrays of `own`; the sums of metrics wait for `add_metrics`."""
        self._sums_before = {name: array for name, array in arrays.items() if name.startswith("metric")}
        kept = {name: array for name, array in arrays.items() if name not in self._sums_before}
        put(self._statistics() + self._generators(), kept)

    def put_average(self, several: Iterable[Arrays], made: int) -> None:
        """Restore the arrays of `own` from a world of another size: averaged statistics, and new random numbers.

        made: steps so far; together with the rank it determines the new random numbers.
        """
        held = list(several)
        put(self._statistics(), {name: _mean([one[name] for one in held]) for name, _ in self._statistics()})
        for n, (_, state) in enumerate(self._generators()):
            fresh = tf.random.Generator.from_seed(stream_seed(self._seed, "layer", n, self._world.rank, made))
            state.assign(fresh.state)

    def add_metrics(self) -> None:
        """Add the sums of an interrupted epoch to those of its rest, once: Keras's means are a total and a count."""
        for name, variable in self._metrics():
            if name in self._sums_before:
                variable.assign(variable.read_value() + self._sums_before[name])
        self._sums_before = {}

    def _shared_variables(self) -> list[tuple[str, Any]]:
        model, optimizer = self._model, self._model.optimizer
        precision.unscaled(optimizer)._create_all_weights(
            model.trainable_variables
        )  # else the first step would create them
        return [
            *_name_all("weight", model.trainable_variables),
            *_name_all("optimizer", precision.unscaled(optimizer).variables()),
            *_name_all("scale", precision.scale_variables(optimizer)),
            *_name_all("extra", self._extras),
        ]

    def _statistics(self) -> list[tuple[str, Any]]:
        return _name_all("statistic", self._model.non_trainable_variables)

    def _generators(self) -> list[tuple[str, Any]]:
        return _name_all("random", [generator.state for generator in generators(self._model)])

    def _metrics(self) -> list[tuple[str, Any]]:
        return _name_all("metric", [variable for metric in self._model.metrics for variable in metric.variables])


def generators(model: Any) -> list[Any]:
    """The tf.random.Generators of a Keras model's layers; rank.start makes Keras use them for all random state."""
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
            "the checkpoint belongs to another model or optimizer: {} is {} here, but {} there".format(
                different[0], wanted.get(different[0], "not"), held.get(different[0], "not")
            )
        )
    for name, variable in variables:
        variable.assign(arrays[name])


def _name_all(kind: str, variables: Iterable[Any]) -> list[tuple[str, Any]]:
    return [("{}-{:03d}".format(kind, n), variable) for n, variable in enumerate(variables)]


def _mean(arrays: list[Any]) -> Any:
    return np.mean(arrays, axis=0).astype(arrays[0].dtype)
