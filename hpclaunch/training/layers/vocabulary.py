"""The first and the last layer of a language model, whose vocabulary is divided among the ranks, and its loss."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hpclaunch.training.layers.parallel import Parallel
from hpclaunch.training.model_parallel import collectives, groups


class VocabularyParallelEmbedding(Parallel):
    """A table of `vocabulary` rows that are divided among the ranks: tokens [b, s] become [b, s, width] on every rank.

    With reverse=True, ``embedding(x, reverse=True)``, the same table gives the logits of the next token from
    [b, s, width], as GPT-2's last layer does: this rank's part of them, [b, s, vocabulary / ranks], for the loss
    VocabularyParallelCrossentropy; with gather_logits all of them on every rank, [b, s, vocabulary].
    """

    def __init__(
        self, vocabulary: int, width: int, gather_logits: bool = False, initializer: Any = "uniform", **named: Any
    ) -> None:
        super().__init__(**named)
        self.vocabulary, self.width, self.gather_logits = vocabulary, width, gather_logits
        self.initializer = tf.keras.initializers.get(initializer)

    def build(self, shape: Any) -> None:
        self.rows = self.split("vocabulary", self.vocabulary, 0)
        self.table = self.add_part("table", (self.vocabulary, self.width), self.rows, self.initializer)
        super().build(shape)

    def call(self, inputs: Any, reverse: bool = False) -> Any:
        if reverse:
            x = collectives.enter(inputs, self.group, self.shared_name + ".enter")
            logits = tf.tensordot(x, tf.transpose(self.table), 1)
            return collectives.join(logits, self.group, self.shared_name + ".join") if self.gather_logits else logits
        place, is_own = _own_places(inputs, self.rows.length, self.group)
        rows = tf.gather(self.table, place)
        rows = tf.where(is_own[..., None], rows, tf.zeros([], rows.dtype))
        return collectives.leave(rows, self.group, self.shared_name + ".leave")

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary": self.vocabulary,
            "width": self.width,
            "gather_logits": self.gather_logits,
            "initializer": tf.keras.initializers.serialize(self.initializer),
        }


class VocabularyParallelCrossentropy(tf.keras.losses.Loss):
    """The cross-entropy of tokens [b, s] with logits of which each rank has a part, [b, s, vocabulary / ranks].

    No rank needs the logits of the whole vocabulary. On one rank it is SparseCategoricalCrossentropy(from_logits=True).
    It is computed in float32 or float64. Source: Shoeybi et al. 2019, arXiv 1909.08053, section 3.
    """

    def __init__(self, reduction: Any = "auto", name: str = "vocabulary_parallel_crossentropy") -> None:
        super().__init__(reduction=reduction, name=name)
        self.group, self.shared_name = groups.tensor(), groups.next_name()

    def whole(self, logits: Any) -> Any:
        """The logits of the whole vocabulary, [b, s, vocabulary], on every rank. A collective."""
        return collectives.join(logits, self.group, self.shared_name + ".whole")

    def call(self, y_true: Any, y_pred: Any) -> Any:
        logits = y_pred if y_pred.dtype == tf.float64 else tf.cast(y_pred, tf.float32)
        largest = collectives.largest(
            tf.stop_gradient(tf.reduce_max(logits, -1)), self.group, self.shared_name + ".largest"
        )
        shifted = logits - largest[..., None]
        total = collectives.leave(tf.reduce_sum(tf.exp(shifted), -1), self.group, self.shared_name + ".total")
        place, is_own = _own_places(y_true, logits.shape[-1], self.group)
        own = tf.where(is_own, tf.gather(shifted, place, batch_dims=place.shape.rank), tf.zeros([], logits.dtype))
        return tf.math.log(total) - collectives.leave(own, self.group, self.shared_name + ".right")


def _own_places(tokens: Any, length: int, group: groups.Group) -> tuple[Any, Any]:
    """The places of tokens in this rank's part of the vocabulary (0: of another rank), and which are its own."""
    place = tf.cast(tokens, tf.int32) - group.index * length
    is_own = (place >= 0) & (place < length)
    return tf.where(is_own, place, 0), is_own
