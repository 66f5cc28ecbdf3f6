"""The base of optimizers whose step is a collective: clipping and layer-wise rates by the norms of whole variables."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

from hpclaunch.training.model_parallel import norms, splits
from hpclaunch.training.optimization import given, optimizer_state, precision
from hpclaunch.training.rank import legacy_keras
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.horovod import hvd

BY_ELEMENT = ("Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lion", "Nadam", "RMSprop", "SGD")
"""Keras's optimizers that update each weight by itself, so that a part of a variable can be updated alone."""


def why_not(optimizer: Any, weights: Sequence[Any]) -> str:
    """Why a Keras optimizer cannot update parts of variables, in words; empty if it can."""
    kinds = sorted({variable.dtype.name for variable in weights})
    if len(kinds) > 1:
        return "weights of one number format, not {}".format(" and ".join(kinds))
    if isinstance(optimizer, legacy_keras.DenseUpdates):
        return ""
    known = type(optimizer).__name__ in BY_ELEMENT and given.keras_class(optimizer) == type(optimizer).__name__
    if known:
        return ""
    return "one of the settings' optimizers or of Keras's {}, not {}".format(
        ", ".join(BY_ELEMENT), given.in_words(optimizer)
    )


class CollectiveOptimizer(legacy_keras.Optimizer):
    """A Keras optimizer that reduces gradients itself, and then updates the variables `held`.

    optimizer: a new one, of either kind of Keras, for which `why_not` has no objection. weights: those of the model
    that this rank has. held: what `inner`, its copy, updates for each of them. agree: if any rank's gradient is not
    finite, make it so on all ranks, because float16's loss scaling then leaves the step out on every rank.
    """

    def __init__(self, name: str, optimizer: Any, weights: Sequence[Any], held: Sequence[Any], agree: bool) -> None:
        super().__init__(name + type(optimizer).__name__)
        self._weights, self.held, self._agree = weights, held, agree
        self._clip = {name: getattr(optimizer, name, None) for name in ("clipnorm", "global_clipnorm")}
        self.inner = _copy_without_clipping(optimizer, weights, held)
        self._own_state = optimizer_state.variables(self.inner, held)

    def _allreduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The average of the gradients over the copies of the model, as `held` needs it. A collective."""
        raise NotImplementedError

    def _compute_gradients(self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None) -> Any:
        found = super()._compute_gradients(loss, var_list, grad_loss, tape)
        gradients, variables = zip(*found)
        return list(zip(self._allreduce(gradients, variables), variables))

    def check_weights(self, variables: Sequence[Any]) -> None:
        """Raise TrainingError unless these are all trained weights of the model, in its order."""
        given, own = ([one.ref() for one in precision.plain(ones)] for ones in (variables, self._weights))
        if given != own:
            raise TrainingError(
                "apply_gradients got {} weights, but this optimizer ({}) updates all {} of the model together: give it "
                "a gradient for each of self.trainable_variables, in their order".format(
                    len(given), self._name, len(own)
                )
            )

    def _agree_on_finite(self, gradients: list[Any]) -> list[Any]:
        if not self._agree:
            return gradients
        wrong = tf.reduce_any([tf.reduce_any(~tf.math.is_finite(gradient)) for gradient in gradients])
        ranks = hvd.allreduce(tf.cast(wrong, tf.float32), op=hvd.Sum, name="gradients.finite")
        return [tf.where(ranks > 0, tf.fill(tf.shape(one), one.dtype.as_numpy_dtype("nan")), one) for one in gradients]

    def _update_held(self, gradients: list[Any]) -> Any:
        """Update `held` by gradients of `_allreduce`, clipped. A collective."""
        gradients = self._clip_gradients(gradients)
        if isinstance(self.inner, legacy_keras.DenseUpdates):
            rate = self.inner._decayed_lr(self.held[0].dtype.base_dtype)
            self.inner.update_all(gradients, self.held, rate, self._norms)
            return self.inner.iterations.assign_add(1)
        return self.inner.apply_gradients(zip(gradients, self.held))

    def _norms(self, tensors: Sequence[Any], name: str) -> list[Any]:
        """The norm of each whole tensor; there are one or more for each variable of `held`, in its order."""
        squares = self._squares(tf.stack([tf.reduce_sum(tensor * tensor) for tensor in tensors]), name)
        is_part = [splits.split_of(weight) is not None for weight in self._weights]
        times = len(tensors) // len(is_part)
        return tf.unstack(tf.sqrt(norms.whole_squares(squares, is_part * times, name)))

    def _squares(self, squares: Any, name: str) -> Any:
        """The squared norms of this rank's weights, from those of what it holds of them."""
        return squares

    def _clip_gradients(self, gradients: list[Any]) -> list[Any]:
        each, together = self._clip["clipnorm"], self._clip["global_clipnorm"]
        if not each and not together:
            return gradients
        lengths = self._norms(gradients, "clipping")
        if together:
            square = norms.over_stages(tf.reduce_sum(tf.stack(lengths) ** 2), "clipping")
            lengths, each = [tf.sqrt(square)] * len(lengths), together
        # As tf.clip_by_norm: a gradient below the limit stays as it is.
        return [
            gradient * each / tf.maximum(length, tf.constant(each, length.dtype))
            for gradient, length in zip(gradients, lengths)
        ]

    # --- its state, for checkpoints

    def numbers(self, first: int, weights: int) -> list[tuple[int, bool]]:
        """The number that each variable of `state` has in the optimizer of a whole model; whether a weight owns it.

        first: the number of this rank's first weight in that model. weights: the number of all its weights.
        """
        place = {one: number for number, one in enumerate(_occurrences(self._owners(weights)))}
        moved = [(None if owner is None else owner + first, k) for owner, k in _occurrences(self._owners())]
        return [(place[one], one[0] is not None) for one in moved]

    def _owners(self, weights: int | None = None) -> list[int | None]:
        """For each variable of the optimizer the number of the weight that it belongs to; None: it belongs to none.

        weights: those of the model, if it has others than this rank.
        """
        # Stand-ins of different lengths tell which variable each slot belongs to.
        count = len(self.held) if weights is None else weights
        stand_ins = [tf.Variable(tf.zeros([index + 2], self.held[0].dtype)) for index in range(count)]
        for index, stand_in in enumerate(stand_ins):
            held = self.held[index] if index < len(self.held) else stand_in
            stand_in.whole_rank = getattr(held, "whole_rank", held.shape.rank)
        template = type(self.inner).from_config(self.inner.get_config())
        shapes = [one.shape for one in optimizer_state.variables(template, stand_ins)]
        return [shape.num_elements() - 2 if shape.rank else None for shape in shapes]

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


def _occurrences(owners: Sequence[int | None]) -> list[tuple[int | None, int]]:
    """Each owner with the number of the same ones before it."""
    seen: dict[int | None, int] = {}
    found = []
    for owner in owners:
        found.append((owner, seen.get(owner, 0)))
        seen[owner] = seen.get(owner, 0) + 1
    return found


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
