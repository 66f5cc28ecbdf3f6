"""The complete state of a training run: reads it from a compiled Keras model, and restores it."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from hpclaunch.training.checkpoints import stored
from hpclaunch.training.checkpoints.state import NOTHING, Arrays, Named, State
from hpclaunch.training.input.shards import stream_seed
from hpclaunch.training.model_parallel import groups, splits
from hpclaunch.training.model_parallel.randomness import generators
from hpclaunch.training.model_parallel.splits import Split
from hpclaunch.training.model_parallel.whole import seen_whole
from hpclaunch.training.optimization import group_updates, optimizer_state, precision
from hpclaunch.training.optimization.optimizer_state import Together
from hpclaunch.training.optimization.pipelined import Counts, Pipelined
from hpclaunch.training.optimization.sharded_optimizer import take_weights
from hpclaunch.training.rank import strategies
from hpclaunch.training.rank.equality import same_on_copies
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.horovod import hvd
from hpclaunch.training.rank.world import World

STATISTIC = "statistic"
METRIC = "metric"


class TrainingState(State):
    """The variables of one rank: those that all ranks share, and its own.

    Shared are the trainable weights, the optimizer's state with its step count, float16's loss scale, and `extras`
    (AdaScale's averages). A rank's own are the random generators of layers such as Dropout, and the sums behind the
    metrics of an interrupted epoch. The variables that are not trained, here called statistics, are of both kinds:
    frozen weights are the same on all ranks, but each rank changes its moving statistics of batch normalization until
    the end of the epoch. So their values decide.
    """

    everywhere = False

    def __init__(self, model: Any, world: World, seed: int, extras: Sequence[Any] = ()) -> None:
        self._model, self._world, self._seed, self._extras = model, world, seed, list(extras)
        self._sums_before: Arrays = {}
        self._sums_of_others: Arrays = {}
        self._to_spread: Arrays = {}
        self._spread: list[str] = []
        self._numbers: list[tuple[int, bool]] = []
        self._stage = model if isinstance(model, Pipelined) else None
        self._first = self._stage.earlier if self._stage else Counts(0, 0, 0)  # the numbers of this rank's first ones
        if world.distribute is not None:
            # There, to make a variable is a collective; but only rank 0 reads the shared ones.
            with strategies.scope(world):
                self._shared_variables()

    def unite(self) -> None:
        """Let groups of ranks that train apart have the same variables, before they are saved. A collective."""
        group_updates.unite([variable for _, variable in self._shared_variables()])

    def alike(self, statistics: bool) -> list[tuple[str, Any, bool]]:
        """Name, variable, and whether it is a trained weight: of what all ranks with the same part hold alike.

        statistics: also those of a floating type, which differ until the end of an epoch. What no rank holds alone is
        left out, and under a strategy of TensorFlow the statistics, which that averages when they are read.
        """
        weights = {id(variable) for variable in self._model.trainable_variables}
        found = []
        for _, one in self._shared_variables():
            if isinstance(one, Together):
                continue
            is_weight = id(one) in weights
            found.append((("the weight " if is_weight else "the optimizer's ") + _plain_name(one), one, is_weight))
        if statistics and self._world.distribute is None:
            others = [one for one in self._model.non_trainable_variables if one.dtype.is_floating]
            found += [("the statistic " + _plain_name(one), one, False) for one in others]
        return found

    def facts(self) -> dict[str, float]:
        """What this rank steps with: {"rate": its learning rate}."""
        return {"rate": float(tf.keras.backend.get_value(self._model.optimizer.learning_rate))}

    def shared(self, common: Mapping[str, Any] = NOTHING, keep: bool = True) -> Iterator[Named]:
        """Arrays weight-NNN, optimizer-NNN (or optimizer-CLASS-NNN), scale-NNN, extra-NNN, and those of `common`.

        Each is read when it is asked for, so that only one is in memory. common: of `statistics`. keep: without it,
        this rank gives none. To go through all is a collective if the optimizer's state is sharded, on every rank.
        """
        parts = self._part_variables()
        yield from _read([(name, one) for name, one in self._shared_variables() if name not in parts], keep)
        if keep:
            yield from common.items()

    def parts(self, common: Mapping[str, Any], keep: bool = True) -> Iterator[Named]:
        """What this rank writes of the arrays that not all ranks have, by the same names as in `shared`.

        common, keep: as for `shared`, also in what is a collective.
        """
        parts = list(self._part_variables().items())
        yield from _read([one for one in parts if splits.split_of(one[1]) is None], keep and self._writes_whole)
        yield from _read([one for one in parts if splits.split_of(one[1]) is not None], keep)
        if keep and self._writes_whole and self._is_later_stage:
            yield from common.items()

    def part_facts(self, common: Mapping[str, Any]) -> dict[str, Any]:
        """What a manifest says of the parts (stored). common: of `statistics`. A collective of the stages."""
        number = self._stage.index if self._stage else 0
        own = {name: _part_of(one, number) for name, one in self._part_variables().items()}
        if self._is_later_stage:
            own.update((name, stored.Held(array.shape, None, number)) for name, array in common.items())
        if self._stage:
            own = {name: one for of_stage in self._stage.of_all_stages(own) for name, one in of_stage.items()}
        mesh = self._world.mesh
        return stored.facts_of(own, mesh.tensor, mesh.pipeline) if mesh else {}

    def of_copy(self, arrays: Arrays) -> Arrays:
        """The arrays of all stages of this copy of the model. A collective of the stages."""
        if not self._stage:
            return arrays
        return {name: one for found in self._stage.of_all_stages(arrays) for name, one in found.items()}

    @property
    def _is_later_stage(self) -> bool:
        return self._stage is not None and self._stage.index > 0

    @property
    def _writes_whole(self) -> bool:
        """Whether this rank writes those arrays of its stage that are no parts."""
        return self._world.mesh is None or self._world.mesh.tensor_index == 0

    def held(self) -> set[str] | None:
        """The names of all arrays that this rank may have; None if it has those of a whole model."""
        if not self._stage:
            return None
        return {name for name, _ in [*self._shared_variables(), *self._statistics()]}

    def compare(self, path: str, facts: Mapping[str, Any]) -> None:
        """Raise TrainingError if a checkpoint has another number of trained weights than the whole model.

        Only in a pipeline: there no rank sees the names of all variables, and elsewhere `put_shared` compares all.
        """
        if not self._stage:
            return
        weights, own = stored.weights_in(path, facts), self._stage.trained
        if weights != own:
            raise TrainingError(
                "the checkpoint belongs to another model: it has {} weights, this model {}".format(weights, own)
            )

    def splits(self) -> dict[str, Split]:
        """What this rank holds of the arrays that are split, by name: a Split."""
        found = {name: splits.split_of(variable) for name, variable in self._shared_variables()}
        return {name: split for name, split in found.items() if split is not None}

    def statistics(self) -> tuple[Arrays, Arrays]:
        """Arrays statistic-NNN: those that are equal on all ranks, and those of this rank alone. A collective."""
        held = {name: variable.numpy() for name, variable in self._statistics()}
        same = dict(zip(held, same_on_copies(self._world, list(held.values()))))
        common = {name: array for name, array in held.items() if same[name]}
        return common, {name: array for name, array in held.items() if not same[name]}

    def own(self, metrics: bool) -> Arrays:
        """Arrays random-NNN, and with `metrics` metric-NNN."""
        found = {name: variable.numpy() for name, variable in self._generators()}
        if metrics:
            found.update((name, variable.numpy()) for name, variable in self._metrics())
        return found

    def put_shared(self, arrays: Arrays) -> None:
        """Restore what this rank has of `shared` and `parts`, before `spread`; on rank 0, or the ranks of a first copy.

        Raises TrainingError for another model.
        """
        common = [(name, variable) for name, variable in self._statistics() if name in arrays]
        variables = self._shared_variables() + common
        check(variables, arrays)
        # What each rank holds in its own way waits for `spread`.
        now = [one for one in variables if not isinstance(one[1], Together) and not one[0].startswith(STATISTIC)]
        assign(now, arrays)
        self._to_spread = {name: arrays[name] for name in set(dict(variables)) - set(dict(now))}

    def put_average(self, several: Iterable[Arrays]) -> None:
        """Average the statistics in the ranks' files of a world of another size; where `put_shared` was called.

        The sums of the metrics of its epoch are added up; each new rank gets an equal part of them.
        several: the arrays of each file, which are read one after another. Raises TrainingError for another model.
        """
        own = [(name, variable) for name, variable in self._statistics() if name not in self._to_spread]
        sums, ranks = {name: np.zeros(variable.shape, np.float64) for name, variable in own}, 0
        for arrays in several:
            for name in [name for name in arrays if name.startswith(METRIC)]:
                share = (arrays[name] / self._world.data_size).astype(arrays[name].dtype)
                others = self._sums_of_others
                others[name] = others[name] + share if name in others else share
            found = {name: array for name, array in arrays.items() if name.startswith(STATISTIC)}
            check(own, self._choose_own(own, found))
            for name in sums:
                sums[name] += arrays[name]
            ranks += 1
        self._to_spread.update((name, total / ranks) for name, total in sums.items())

    def spread(self) -> None:
        """Give every rank the variables of rank 0, or of the rank of the first copy with the same part. A collective.

        With them come the statistics that this rank has for all.
        """
        if self._world.size > 1:
            for name, variable in self._shared_variables():
                if isinstance(variable, Together):
                    variable.assign(self._receive(name, variable))
                    self._to_spread.pop(name, None)
                else:
                    variable.assign(self._broadcast(name, variable, variable.read_value()))
        take_weights(self._model.optimizer)
        parts = self._world.size // self._world.data_size
        self._spread = self._world.gather(sorted(self._to_spread))[self._world.rank % parts]
        for name, variable in self._statistics():
            if name in self._spread:
                variable.assign(self._receive(name, variable))
        self._to_spread = {}
        self._sums_before = self._world.gather(self._sums_of_others)[self._world.rank % parts]
        self._sums_of_others = {}

    def put_own(self, arrays: Arrays) -> None:
        """Restore this rank's own arrays, after `spread`; the sums of metrics wait for `add_metrics`."""
        self._sums_before = {name: array for name, array in arrays.items() if name.startswith(METRIC)}
        kept = {name: array for name, array in arrays.items() if name not in self._sums_before}
        own = [(name, variable) for name, variable in self._statistics() if name not in self._spread]
        own += self._generators()
        put(own, self._choose_own(own, kept))

    def _choose_own(self, own: list[tuple[str, Any]], arrays: Arrays) -> Arrays:
        """Of the arrays of a copy, those that this rank has."""
        return {name: arrays[name] for name, _ in own if name in arrays} if self._stage else arrays

    def put_new_random(self, made: int) -> None:
        """Begin new random numbers, which this rank and `made`, the steps so far, determine."""
        for n, (_, state) in enumerate(self._generators(), self._first.generators):
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
            *_name_all("weight", model.trainable_variables, self._first.trained),
            *((name, variable) for name, variable, _ in self._optimizer_variables(inner)),
            *_name_all("scale", precision.scale_variables(optimizer)),
            *_name_all("extra", self._extras),
        ]

    def _optimizer_variables(self, inner: Any) -> list[tuple[str, Any, bool]]:
        """Name and variable, numbered as for a whole model, and whether it belongs to a weight."""
        found = optimizer_state.variables(inner, self._model.trainable_variables)
        numbers = [(number, True) for number in range(len(found))]
        if self._stage:
            if not self._numbers:
                self._numbers = inner.numbers(self._first.trained, self._stage.trained)
            numbers = self._numbers
        kind = optimizer_state.name(inner)
        return [
            ("{}-{:03d}".format(kind, number), variable, is_owned)
            for variable, (number, is_owned) in zip(found, numbers)
        ]

    def _part_variables(self) -> dict[str, Any]:
        """What is not in the shared file: parts of variables, and all that belongs to the weights of later stages."""
        found = {name: one for name, one in self._shared_variables() if splits.split_of(one) is not None}
        if self._is_later_stage:
            found.update(_name_all("weight", self._model.trainable_variables, self._first.trained))
            inner = precision.unscaled(self._model.optimizer)
            found.update((name, one) for name, one, is_owned in self._optimizer_variables(inner) if is_owned)
        return found

    def _receive(self, name: str, variable: Any) -> Any:
        """The value that rank 0, or the rank with the same part of the first copy, has for a statistic or a slot.

        It is sent as an array: under a strategy of TensorFlow, to read the variable would average it over the ranks.
        """
        value = np.asarray(self._to_spread.get(name, np.zeros(variable.shape)), variable.dtype.as_numpy_dtype)
        return self._broadcast(name, variable, tf.constant(value))

    def _broadcast(self, name: str, variable: Any, value: Any) -> Any:
        """`value` of rank 0, or of the rank of the first copy that has the same part. A collective."""
        group = groups.data()
        if self._world.size == 1 or (self._world.mesh is not None and group.size == 1):
            return value
        if self._world.distribute is not None:
            sent = self._world.gather(np.asarray(value) if self._world.is_root else None)
            return tf.constant(sent[0])
        if self._world.mesh is None:
            return hvd.broadcast(value, root_rank=0, name="restore." + name)
        return hvd.broadcast(value, root_rank=group.ranks[0], name="restore." + name, process_set=group.process_set)

    def _statistics(self) -> list[tuple[str, Any]]:
        # The rank's own statistics of parts are written as whole ones: they are short, and each copy has its own.
        found = _name_all(STATISTIC, self._model.non_trainable_variables, self._first.others)
        return [(name, seen_whole(variable, name)) for name, variable in found]

    def _generators(self) -> list[tuple[str, Any]]:
        states = [generator.state for generator in generators(self._model)]
        return _name_all("random", states, self._first.generators)

    def _metrics(self) -> list[tuple[str, Any]]:
        return _name_all(METRIC, [variable for metric in self._model.metrics for variable in metric.variables])


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


def _plain_name(variable: Any) -> str:
    return str(variable.name).split(":")[0]


def _part_of(variable: Any, stage: int) -> stored.Held:
    split = splits.split_of(variable)
    shape = tuple(variable.shape)
    if split is None:
        return stored.Held(shape, None, stage)
    return stored.Held(split.whole_shape(shape), split.axis, stage)


def _name_all(kind: str, variables: Iterable[Any], first: int = 0) -> list[tuple[str, Any]]:
    return [("{}-{:03d}".format(kind, n), variable) for n, variable in enumerate(variables, first)]


def _read(variables: list[tuple[str, Any]], keep: bool) -> Iterator[Named]:
    """The values of variables; without `keep` none, but what is a collective is read."""
    for name, variable in variables:
        if keep:
            yield name, variable.numpy()
        elif isinstance(variable, Together):
            variable.numpy()
