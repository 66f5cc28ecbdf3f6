"""Optimizer state sharding: every rank keeps the optimizer's state of a part of the weights, and updates that part.

This is stage 1 of ZeRO (Rajbhandari et al. 2019, arXiv 1910.02054, section 5.1). A step reduces and scatters the
gradients, updates the rank's own part, and gathers the new weights of all ranks. A ring sends the same number of bytes
for these two as for one all-reduce. The state of Adam for P weights on N ranks takes 2 P / N values per rank instead of
2 P; the parts of the weights take P / N values more.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import tensorflow as tf

from hpclaunch.training.model_parallel import groups, splits
from hpclaunch.training.optimization import collective_optimizer, precision, weight_parts
from hpclaunch.training.optimization.collective_optimizer import CollectiveOptimizer
from hpclaunch.training.optimization.optimizer_state import Together
from hpclaunch.training.optimization.weight_parts import BUCKET_BYTES
from hpclaunch.training.rank.horovod import hvd
from hpclaunch.training.rank.world import World


def why_not(optimizer: Any, weights: Sequence[Any], world: World) -> str:
    """Why the state of a Keras optimizer cannot be sharded over the copies of a model, in words; empty if it can."""
    if sum(variable.shape.num_elements() for variable in weights) < world.data_size:
        return "a model with at least as many weights as ranks"
    return collective_optimizer.why_not(optimizer, weights)


class ShardedOptimizer(CollectiveOptimizer):
    """A Keras optimizer whose state is sharded over the ranks; every step is a collective.

    optimizer, agree: as for CollectiveOptimizer. weights: the model's trainable ones, equal on all ranks that share the
    state: those of the data group in a split model, else all. compression: of hvd, for the gradients on their
    way; None: they are sent as they are. The gradient that it applies is the average over the ranks. Its clipping uses
    the norms of whole variables.
    """

    def __init__(
        self,
        optimizer: Any,
        weights: Sequence[Any],
        world: World,
        compression: Any = None,
        agree: bool = False,
    ) -> None:
        weights = precision.plain(weights)
        self._compression = compression or hvd.Compression.none
        sizes = [variable.shape.num_elements() for variable in weights]
        self._buckets = weight_parts.buckets(sizes, BUCKET_BYTES // weights[0].dtype.size)
        self._parts = [part for one in self._buckets for part in one.parts(world.data_rank, world.data_size)]
        self.process_set = hvd.global_process_set if world.mesh is None else groups.data().process_set
        held = [_make_part(variable, part) for variable, part in zip(weights, self._parts)]
        super().__init__("Sharded", optimizer, weights, held, agree)
        self._state: list[Any] = []

    # --- a step

    def _allreduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The average of the ranks' gradients, for this rank's part of each variable. A collective."""
        flat = [
            tf.zeros([variable.shape.num_elements()], variable.dtype)
            if gradient is None
            else tf.reshape(tf.convert_to_tensor(gradient), [-1])
            for gradient, variable in zip(gradients, self._weights)
        ]
        reduced: list[Any] = []
        # After the last collective of the layers: on GPUs, two kinds of collectives at the same time can deadlock.
        before = flat if groups.tensor().size > 1 else []
        # One after the other, so that one copy is in memory; the backward pass has the last gradients first.
        for number, bucket in reversed(list(enumerate(self._buckets))):
            with tf.control_dependencies(before):
                together = tf.concat([flat[index] for index in bucket.variables], 0)
            own = hvd.reducescatter(
                together,
                op=hvd.Average,
                compression=self._compression,
                name="sharded.gradients.{}".format(number),
                process_set=self.process_set,
            )
            sizes = [self._parts[index].size for index in bucket.variables]
            reduced[:0] = tf.split(tf.ensure_shape(own, [sum(sizes)]), sizes)
            before = [own]
        return self._agree_on_finite(reduced)

    def apply_gradients(
        self, grads_and_vars: Any, name: Any = None, experimental_aggregate_gradients: bool = True
    ) -> Any:
        """Update the weights. Gradients of whole variables are reduced first. A collective."""
        gradients = [gradient for gradient, _ in grads_and_vars]
        if any(gradient is None or gradient.shape != (part.size,) for gradient, part in zip(gradients, self._parts)):
            gradients = self._allreduce(gradients, self._weights)
        self._update_held(gradients)
        return self._gather_weights()

    def _gather_weights(self) -> Any:
        done = tf.no_op()
        for number, bucket in enumerate(self._buckets):
            with tf.control_dependencies([done]):  # as for the gradients, one copy is in memory
                own = tf.concat([self.held[index].read_value() for index in bucket.variables], 0)
            flat = hvd.allgather(own, name="sharded.weights.{}".format(number), process_set=self.process_set)
            values = tf.split(tf.ensure_shape(flat, [sum(bucket.sizes)]), bucket.sizes)
            made = [
                variable.assign(tf.reshape(value, variable.shape), read_value=False)
                for variable, value in zip(self._weights[bucket.variables.start : bucket.variables.stop], values)
            ]
            done = tf.group(*[one for one in made if one is not None])
        return done

    def _squares(self, squares: Any, name: str) -> Any:
        return hvd.allreduce(squares, op=hvd.Sum, name="sharded.norms." + name, process_set=self.process_set)

    # --- its state, for checkpoints

    def state(self) -> list[Any]:
        """The variables of the optimizer as without sharding, in the same order: each is a tf.Variable or a `Slot`."""
        if not self._state:
            self._state = self._find_state()
        return list(self._state)

    def _find_state(self) -> list[Any]:
        return [
            variable if owner is None else Slot(variable, self, owner, "sharded.state.{}".format(number))
            for number, (variable, owner) in enumerate(zip(self._own_state, self._owners()))
        ]

    def take_weights(self) -> None:
        """Read this rank's parts of the weights again, after the weights were restored."""
        for variable, part, held in zip(self._weights, self._parts, self.held):
            held.assign(tf.reshape(variable.read_value(), [-1])[part.begin : part.end])

    def part_of(self, index: int) -> weight_parts.Part:
        """This rank's part of a variable."""
        return self._parts[index]

    def weight(self, index: int) -> Any:
        """A whole variable of the model."""
        return self._weights[index]


def take_weights(optimizer: Any) -> None:
    """After the weights were restored, let a sharded optimizer (of a model, or any other) read its parts again."""
    sharded = precision.unscaled(optimizer)
    if isinstance(sharded, ShardedOptimizer):
        sharded.take_weights()


class Slot(Together):
    """A slot of the optimizer, such as Adam's m of one variable, of which each rank holds a part."""

    def __init__(self, variable: Any, optimizer: ShardedOptimizer, index: int, name: str) -> None:
        self._variable, self._optimizer, self._index, self._name = variable, optimizer, index, name
        self.shape, self.dtype = optimizer.weight(index).shape, variable.dtype
        self.split = splits.split_of(optimizer.weight(index))

    @property
    def held_size(self) -> int:
        """The number of values that this rank holds."""
        return int(self._variable.shape.num_elements())

    def numpy(self) -> np.ndarray:
        """The slot of this rank's weight, on every rank that has the same one. A collective."""
        whole = hvd.allgather(self._variable.read_value(), name=self._name, process_set=self._optimizer.process_set)
        return np.asarray(whole.numpy().reshape(self.shape))

    def assign(self, whole: Any) -> None:
        """Keep this rank's part of an array or tensor of the whole slot."""
        part = self._optimizer.part_of(self._index)
        self._variable.assign(tf.reshape(tf.convert_to_tensor(whole), [-1])[part.begin : part.end])


def _make_part(variable: Any, part: weight_parts.Part) -> Any:
    flat = tf.reshape(variable.read_value(), [-1])
    held = tf.Variable(flat[part.begin : part.end], name=variable.name.split(":")[0])
    held.whole_rank = variable.shape.rank  # it decides whether weight decay is for it (legacy_keras.is_excluded)
    return held
