"""Optimizer state sharding: every rank keeps the optimizer's state of a part of the weights, and updates that part.

This is stage 1 of ZeRO (Rajbhandari et al. 2019, arXiv 1910.02054, section 5.1). A step reduces and scatters the
gradients, updates the rank's own part, and gathers the new weights of all ranks. A ring sends the same number of bytes
for these two as for one all-reduce. The state of Adam for P weights on N ranks takes 2 P / N values per rank instead of
2 P; the parts of the weights take P / N values more.
"""

from __future__ import annotations

from typing import Any, Sequence

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from hpclaunch.training.optimization import given, optimizer_state, precision, weight_parts
from hpclaunch.training.rank import legacy_keras
from hpclaunch.training.rank.world import World

BUCKET_BYTES = 64 * 2**20
"""A gradient is copied before it is sent, at most so many bytes at a time (or one variable, if it is larger)."""
BY_ELEMENT = ("Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lion", "Nadam", "RMSprop", "SGD")
"""Keras's optimizers that update each weight by itself, so that a part of a variable can be updated alone."""


def why_not(optimizer: Any, weights: Sequence[Any], world: World) -> str:
    """Why the state of a Keras optimizer cannot be sharded over the ranks, in words; empty if it can."""
    kinds = sorted({variable.dtype.name for variable in weights})
    if len(kinds) > 1:
        return "weights of one number format, not {}".format(" and ".join(kinds))
    if sum(variable.shape.num_elements() for variable in weights) < world.size:
        return "a model with at least as many weights as ranks"
    if isinstance(optimizer, legacy_keras.DenseUpdates):
        return ""
    known = type(optimizer).__name__ in BY_ELEMENT and given.keras_class(optimizer) == type(optimizer).__name__
    if known:
        return ""
    return "one of the settings' optimizers or of Keras's {}, not {}".format(
        ", ".join(BY_ELEMENT), given.in_words(optimizer)
    )


class ShardedOptimizer(legacy_keras.Optimizer):
    """A Keras optimizer whose state is sharded over the ranks; every step is a collective.

    optimizer: a new one, of either kind of Keras, for which `why_not` has no objection. weights: the model's trainable
    ones, equal on all ranks. compression: of hvd, for the gradients on their way. agree: if any rank's gradient is not
    finite, make it so on all ranks, because float16's loss scaling then leaves the step out on every rank.
    The gradient that it applies is the average over the ranks. Its clipping uses the norms of whole variables.
    """

    def __init__(
        self,
        optimizer: Any,
        weights: Sequence[Any],
        world: World,
        compression: Any = hvd.Compression.none,
        agree: bool = False,
    ) -> None:
        super().__init__("Sharded" + type(optimizer).__name__)
        self._weights, self._world = precision.plain(weights), world
        self._compression, self._agree = compression, agree
        sizes = [variable.shape.num_elements() for variable in self._weights]
        self._buckets = weight_parts.buckets(sizes, BUCKET_BYTES // self._weights[0].dtype.size)
        self._parts = [part for one in self._buckets for part in one.parts(world.rank, world.size)]
        self.held = [_make_part(variable, part) for variable, part in zip(self._weights, self._parts)]
        self._clip = {name: getattr(optimizer, name, None) for name in ("clipnorm", "global_clipnorm")}
        self.inner = _copy_without_clipping(optimizer, self._weights, self.held)
        self._own_state = optimizer_state.variables(self.inner, self.held)
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
        reduced = []
        for number, bucket in enumerate(self._buckets):
            name = "sharded.gradients.{}".format(number)
            together = tf.concat([flat[index] for index in bucket.variables], 0)
            own = hvd.reducescatter(together, op=hvd.Average, compression=self._compression, name=name)
            sizes = [self._parts[index].size for index in bucket.variables]
            reduced += tf.split(tf.ensure_shape(own, [sum(sizes)]), sizes)
        return self._agree_on_finite(reduced) if self._agree else reduced

    def _agree_on_finite(self, gradients: list[Any]) -> list[Any]:
        wrong = tf.reduce_any([tf.reduce_any(~tf.math.is_finite(gradient)) for gradient in gradients])
        ranks = hvd.allreduce(tf.cast(wrong, tf.float32), op=hvd.Sum, name="sharded.finite")
        return [tf.where(ranks > 0, tf.fill(tf.shape(one), one.dtype.as_numpy_dtype("nan")), one) for one in gradients]

    def _compute_gradients(self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None) -> Any:
        found = super()._compute_gradients(loss, var_list, grad_loss, tape)
        gradients, variables = zip(*found)
        return list(zip(self._allreduce(gradients, variables), variables))

    def apply_gradients(
        self, grads_and_vars: Any, name: Any = None, experimental_aggregate_gradients: bool = True
    ) -> Any:
        """Update the weights. Gradients of whole variables are reduced first. A collective."""
        gradients = [gradient for gradient, _ in grads_and_vars]
        if any(gradient is None or gradient.shape != (part.size,) for gradient, part in zip(gradients, self._parts)):
            gradients = self._allreduce(gradients, self._weights)
        gradients = self._clip_gradients(gradients)
        if isinstance(self.inner, legacy_keras.DenseUpdates):
            rate = self.inner._decayed_lr(self.held[0].dtype.base_dtype)
            self.inner.update_all(gradients, self.held, rate, self._norms)
            self.inner.iterations.assign_add(1)
        else:
            self.inner.apply_gradients(zip(gradients, self.held))
        return self._gather_weights()

    def _gather_weights(self) -> Any:
        made = []
        for number, bucket in enumerate(self._buckets):
            own = tf.concat([self.held[index].read_value() for index in bucket.variables], 0)
            flat = hvd.allgather(own, name="sharded.weights.{}".format(number))
            for index, value in zip(
                bucket.variables, tf.split(tf.ensure_shape(flat, [sum(bucket.sizes)]), bucket.sizes)
            ):
                variable = self._weights[index]
                made.append(variable.assign(tf.reshape(value, variable.shape), read_value=False))
        return tf.group(*[one for one in made if one is not None])

    def _norms(self, tensors: Sequence[Any], name: str) -> list[Any]:
        """The norm of each whole tensor, of which this rank has a part. A collective."""
        squares = tf.stack([tf.reduce_sum(tensor * tensor) for tensor in tensors])
        return tf.unstack(tf.sqrt(hvd.allreduce(squares, op=hvd.Sum, name="sharded.norms." + name)))

    def _clip_gradients(self, gradients: list[Any]) -> list[Any]:
        each, together = self._clip["clipnorm"], self._clip["global_clipnorm"]
        if not each and not together:
            return gradients
        norms = self._norms(gradients, "clipping")
        if together:
            norms, each = [tf.norm(tf.stack(norms))] * len(norms), together
        # As tf.clip_by_norm: a gradient below the limit stays as it is.
        return [
            gradient * each / tf.maximum(norm, tf.constant(each, norm.dtype))
            for gradient, norm in zip(gradients, norms)
        ]

    # --- its state, for checkpoints

    def state(self) -> list[Any]:
        """The variables of the optimizer as without sharding, in the same order: each is a tf.Variable or a `Slot`."""
        if not self._state:
            self._state = self._find_state()
        return list(self._state)

    def _find_state(self) -> list[Any]:
        # Stand-ins of different lengths tell which variable each slot belongs to.
        stand_ins = [tf.Variable(tf.zeros([index + 2], self.held[0].dtype)) for index in range(len(self.held))]
        for stand_in, held in zip(stand_ins, self.held):
            stand_in.whole_rank = held.whole_rank
        template = type(self.inner).from_config(self.inner.get_config())
        shapes = [one.shape for one in optimizer_state.variables(template, stand_ins)]
        return [
            variable
            if not shape.rank
            else Slot(variable, self, shape.num_elements() - 2, "sharded.state.{}".format(number))
            for number, (variable, shape) in enumerate(zip(self._own_state, shapes))
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

    # --- what Keras asks an optimizer for

    @property
    def iterations(self) -> Any:
        return self.inner.iterations

    @property
    def learning_rate(self) -> Any:
        return self.inner.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: Any) -> None:
        self.inner.learning_rate = rate

    def get_config(self) -> dict[str, Any]:
        return dict(self.inner.get_config())


def take_weights(optimizer: Any) -> None:
    """After the weights were restored, let a sharded optimizer (of a model, or any other) read its parts again."""
    sharded = precision.unscaled(optimizer)
    if isinstance(sharded, ShardedOptimizer):
        sharded.take_weights()


class Slot:
    """A slot of the optimizer, such as Adam's m of one variable, of which each rank holds a part."""

    def __init__(self, variable: Any, optimizer: ShardedOptimizer, index: int, name: str) -> None:
        self._variable, self._optimizer, self._index, self._name = variable, optimizer, index, name
        self.shape, self.dtype = optimizer.weight(index).shape, variable.dtype

    @property
    def held_size(self) -> int:
        """The number of values that this rank holds."""
        return int(self._variable.shape.num_elements())

    def numpy(self) -> np.ndarray:
        """The whole slot, on every rank. A collective."""
        whole = hvd.allgather(self._variable.read_value(), name=self._name)
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


def _copy_without_clipping(optimizer: Any, weights: Sequence[Any], held: Sequence[Any]) -> Any:
    config = {
        name: value for name, value in optimizer.get_config().items() if name not in ("clipnorm", "global_clipnorm")
    }
    inner = type(optimizer).from_config(config)
    given.keep_exclusions(optimizer, inner)
    if getattr(inner, "_exclude_from_weight_decay", None):  # the keys of variables
        keys = {optimizer._var_key(weight): optimizer._var_key(own) for weight, own in zip(weights, held)}
        inner._exclude_from_weight_decay = [keys.get(key, key) for key in inner._exclude_from_weight_decay]
    return inner
