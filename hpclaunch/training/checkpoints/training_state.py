"""The complete state of a training run: reads it from a compiled Keras model, and restores it."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from hpclaunch.training.checkpoints import stored
from hpclaunch.training.input.shards import stream_seed
from hpclaunch.training.model_parallel import groups, splits
from hpclaunch.training.model_parallel.splits import Split
from hpclaunch.training.model_parallel.whole import seen_whole
from hpclaunch.training.optimization import optimizer_state, precision
from hpclaunch.training.optimization.sharded_optimizer import Slot, take_weights
from hpclaunch.training.rank import strategies
from hpclaunch.training.rank.equality import same_on_all
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.world import World

Arrays = dict
STATISTIC = "statistic"


class TrainingState:
    """The variables of one rank: those that all ranks share, and its own.

    Shared are the trainable weights, the optimizer's state with its step count, float16's loss scale, and `extras`
    (AdaScale's averages). A rank's own are the random generators of layers such as Dropout, and the sums behind the
    metrics of an interrupted epoch. The variables that are not trained, here called statistics, are of both kinds:
    frozen weights are the same on all ranks, but each rank changes its moving statistics of batch normalization until
    the end of the epoch. So their values decide.
    """

    def __init__(self, model: Any, world: World, seed: int, extras: Sequence[Any] = ()) -> None:
        self._model, self._world, self._seed, self._extras = model, world, seed, list(extras)
        self._sums_before: Arrays = {}
        self._to_spread: Arrays = {}
        self._spread: list[str] = []
        if world.distribute is not None:
            # There, to make a variable is a collective; but only rank 0 reads the shared ones.
            with strategies.scope(world):
                self._shared_variables()

    def shared(self, keep: bool = True) -> Arrays:
        """Arrays weight-NNN, optimizer-NNN (or optimizer-CLASS-NNN), scale-NNN, extra-NNN.

        keep: without it, this rank returns none. A collective if the optimizer's state is sharded: its arrays are
        gathered one after another.
        """
        return _read([one for one in self._shared_variables() if splits.split_of(one[1]) is None], keep)

    def parts(self, keep: bool = True) -> Arrays:
        """What this rank holds of the arrays that are split over the ranks, by the same names as in `shared`.

        keep: as for `shared`, also in what is a collective.
        """
        return _read(list(self._split_variables().items()), keep)

    def part_facts(self) -> dict[str, Any]:
        """What a manifest says of the parts (stored)."""
        own = self._split_variables()
        return stored.facts_of({name: (own[name].shape, split) for name, split in self.splits().items()})

    def splits(self) -> dict[str, Split]:
        """What this rank holds of the arrays that are split, by name: a Split."""
        found = {name: splits.split_of(variable) for name, variable in self._shared_variables()}
        return {name: split for name, split in found.items() if split is not None}

    def statistics(self) -> tuple[Arrays, Arrays]:
        """Arrays statistic-NNN: those that are equal on all ranks, and those of this rank alone. A collective."""
        held = {name: variable.numpy() for name, variable in self._statistics()}
        same = dict(zip(held, same_on_all(self._world, list(held.values()))))
        common = {name: array for name, array in held.items() if same[name]}
        return common, {name: array for name, array in held.items() if not same[name]}

    def own(self, metrics: bool) -> Arrays:
        """Arrays random-NNN, and with `metrics` metric-NNN."""
        found = {name: variable.numpy() for name, variable in self._generators()}
        if metrics:
            found.update((name, variable.numpy()) for name, variable in self._metrics())
        return found

    def put_shared(self, arrays: Arrays) -> None:
        """Restore the arrays of `shared`, with the statistics in common; on rank 0, before `spread`.

        Raises TrainingError for another model.
        """
        common = [(name, variable) for name, variable in self._statistics() if name in arrays]
        shared = self._shared_variables()
        check(shared + common, arrays)
        self._put_or_keep(shared + common, arrays)

    def put_parts(self, arrays: Arrays) -> None:
        """Restore this rank's parts; on the other ranks that share rank 0's model, before `spread`."""
        own = list(self._split_variables().items())
        check(own, arrays)
        self._put_or_keep(own, arrays)

    def _put_or_keep(self, variables: list[tuple[str, Any]], arrays: Arrays) -> None:
        """Assign arrays to trained variables; what each rank holds in its own way waits for `spread`."""
        now = [one for one in variables if not isinstance(one[1], Slot) and not one[0].startswith(STATISTIC)]
        assign(now, arrays)
        self._to_spread = {name: arrays[name] for name in set(dict(variables)) - set(dict(now))}

    def put_average(self, several: Iterable[Arrays]) -> None:
        """Average the statistics in the ranks' files of a world of another size; on rank 0, before `spread`.

        several: the arrays of each file, which are read one after another. Raises TrainingError for another model.
        """
        own = [(name, variable) for name, variable in self._statistics() if name not in self._to_spread]
        sums, ranks = {name: np.zeros(variable.shape, np.float64) for name, variable in own}, 0
        for arrays in several:
            check(own, {name: array for name, array in arrays.items() if name.startswith(STATISTIC)})
            for name in sums:
                sums[name] += arrays[name]
            ranks += 1
        self._to_spread.update((name, total / ranks) for name, total in sums.items())

    def spread(self) -> None:
        """Give every rank the shared variables of rank 0, and the statistics that rank 0 has for all. A collective."""
        if self._world.size > 1:
            for name, variable in self._shared_variables():
                if isinstance(variable, Slot):
                    variable.assign(self._receive(name, variable))
                    self._to_spread.pop(name, None)
                else:
                    variable.assign(self._broadcast(name, variable, variable.read_value()))
        take_weights(self._model.optimizer)
        self._spread = self._world.gather(sorted(self._to_spread))[0]
        for name, variable in self._statistics():
            if name in self._spread:
                variable.assign(self._receive(name, variable))
        self._to_spread = {}

    def put_own(self, arrays: Arrays) -> None:
        """Restore this rank's own arrays, after `spread`; the sums of metrics wait for `add_metrics`."""
        self._sums_before = {name: array for name, array in arrays.items() if name.startswith("metric")}
        kept = {name: array for name, array in arrays.items() if name not in self._sums_before}
        own = [(name, variable) for name, variable in self._statistics() if name not in self._spread]
        put(own + self._generators(), kept)

    def put_new_random(self, made: int) -> None:
        """Begin new random numbers, which this rank and `made`, the steps so far, determine."""
        for n, (_, state) in enumerate(self._generators()):
            fresh = tf.random.Generator.from_seed(stream_seed(self._seed, "layer", n, self._world.data_rank, made))
            state.assign(fresh.state)

    def add_metrics(self) -> None:
        """Add the sums of an interrupted epoch to those of its rest, once: Keras's means are a total and a count."""
        for name, variable in self._metrics():
            if name in self._sums_before:
                variable.assign(variable.read_value() + self._sums_before[name])
        self._sums_before = {}

    def _shared_variables(self) -> list[tuple[str, Any]]:
        model, optimizer = self._model, self._model.optimizer
        inner = precision.unscaled(optimizer)
        return [
            *_name_all("weight", model.trainable_variables),
            *_name_all(optimizer_state.name(inner), optimizer_state.variables(inner, model.trainable_variables)),
            *_name_all("scale", precision.scale_variables(optimizer)),
            *_name_all("extra", self._extras),
        ]

    def _split_variables(self) -> dict[str, Any]:
        return {name: one for name, one in self._shared_variables() if splits.split_of(one) is not None}

    def _receive(self, name: str, variable: Any) -> Any:
        """The value that rank 0, or the rank with the same part of the first copy, has for a statistic or a slot.

        It is sent as an array: under a strategy of TensorFlow, to read the variable would average it over the ranks.
        """
        value = np.asarray(self._to_spread.get(name, np.zeros(variable.shape)), variable.dtype.as_numpy_dtype)
        return self._broadcast(name, variable, tf.constant(value))

    def _broadcast(self, name: str, variable: Any, value: Any) -> Any:
        """`value` of rank 0; that of a part from the rank of the first copy that has the same part. A collective."""
        split, group = splits.split_of(variable), groups.data()
        if self._world.size == 1 or (split is not None and group.size == 1):
            return value
        if split is None:
            return hvd.broadcast(value, root_rank=0, name="restore." + name)
        return hvd.broadcast(value, root_rank=group.ranks[0], name="restore." + name, process_set=group.process_set)

    def _statistics(self) -> list[tuple[str, Any]]:
        # The rank's own statistics of parts are written as whole ones: they are short, and each copy has its own.
        found = _name_all(STATISTIC, self._model.non_trainable_variables)
        return [(name, seen_whole(variable, name)) for name, variable in found]

    def _generators(self) -> list[tuple[str, Any]]:
        return _name_all("random", [generator.state for generator in generators(self._model)])

    def _metrics(self) -> list[tuple[str, Any]]:
        return _name_all("metric", [variable for metric in self._model.metrics for variable in metric.variables])


def generators(model: Any) -> list[Any]:
    """The tf.random.Generators of a Keras model's layers; rank.start makes Keras use them for all random state."""
    found = []
    # Not model.submodules, which fails for a subclass of Model with TensorFlow 2.12.
    for layer in model._flatten_layers():
        random = getattr(layer, "_random_generator", None)
        if random is not None:
            random._maybe_init()
            if random._generator is not None:
                found.append(random._generator)
    return found


def put(variables: list[tuple[str, Any]], arrays: Arrays) -> None:
    """Assign arrays to the variables of the same names; raises TrainingError for other names, types or shapes."""
    check(variables, arrays)
    assign(variables, arrays)


def check(variables: list[tuple[str, Any]], arrays: Arrays) -> None:
    """Raise TrainingError unless the arrays have the names, types and shapes of the variables."""
    wanted = {name: _kind(np.dtype(variable.dtype.as_numpy_dtype), variable.shape) for name, variable in variables}
    held = {name: _kind(array.dtype, array.shape) for name, array in arrays.items()}
    if wanted != held:
        different = sorted(name for name in set(wanted) | set(held) if wanted.get(name) != held.get(name))
        raise TrainingError(
            "the checkpoint belongs to another model or optimizer: {} is {} here, but {} there".format(
                different[0], wanted.get(different[0], "not"), held.get(different[0], "not")
            )
        )


def _kind(dtype: np.dtype, shape: Any) -> str:
    return "{} {}".format(dtype, list(shape))


def assign(variables: list[tuple[str, Any]], arrays: Arrays) -> None:
    """Assign to each variable the array of its name."""
    for name, variable in variables:
        variable.assign(arrays[name])


def _name_all(kind: str, variables: Iterable[Any]) -> list[tuple[str, Any]]:
    return [("{}-{:03d}".format(kind, n), variable) for n, variable in enumerate(variables)]


def _read(variables: list[tuple[str, Any]], keep: bool) -> Arrays:
    """The values of variables; without `keep` none, but what is a collective is read."""
    kept = {}
    for name, variable in variables:
        if keep:
            kept[name] = variable.numpy()
        elif isinstance(variable, Slot):
            variable.numpy()
    return kept
