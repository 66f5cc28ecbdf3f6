"""LARS and LARC: SGD with momentum whose rate follows each layer's ratio of weight norm to gradient norm."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

from hpclaunch.training.rank.legacy_keras import DenseUpdates, Norms, is_excluded


class Lars(DenseUpdates):
    """Layer-wise adaptive rate scaling (You, Gitman, Ginsburg 2017, arXiv 1708.03888, algorithm 1).

    local = trust |w| / (|g| + decay |w|);  v = momentum v + rate local (g + decay w);  w = w - v.
    With `clip` it is LARC, as in NVIDIA's apex: rate local never exceeds rate, so that a large trust is safe.
    Excluded variables (is_excluded), and layers whose weights or gradients are zero, use plain SGD with momentum.
    """

    def __init__(
        self,
        learning_rate: float = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
        clip: bool = False,
        exclude_vectors: bool = True,
        name: str = "Lars",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self.momentum, self.weight_decay, self.trust = momentum, weight_decay, trust
        self.clip, self.exclude_vectors = clip, exclude_vectors

    def _create_slots(self, variables: Any) -> None:
        for variable in variables:
            self.add_slot(variable, "momentum")

    def update_all(self, gradients: Sequence[Any], variables: Sequence[Any], rate: Any, norms: Norms) -> list[Any]:
        found = norms([*variables, *gradients], "lars")
        lengths = zip(found, found[len(variables) :])
        return [
            self._update_layer(gradient, variable, rate, both)
            for gradient, variable, both in zip(gradients, variables, lengths)
        ]

    def _update_layer(self, gradient: Any, variable: Any, rate: Any, lengths: tuple[Any, Any]) -> Any:
        """lengths: the norms of the variable and of its gradient."""
        velocity = self.get_slot(variable, "momentum")
        if not is_excluded(variable, self.exclude_vectors):
            rate = self._local(*lengths, rate)
            gradient = gradient + self.weight_decay * variable
        step = velocity.assign(self.momentum * velocity + rate * gradient, use_locking=self._use_locking)
        return variable.assign_sub(step, use_locking=self._use_locking)

    def _local(self, weights: Any, gradients: Any, rate: Any) -> Any:
        """The rate of the layer with these norms, a scalar."""
        ratio = tf.math.divide_no_nan(self.trust * weights, gradients + self.weight_decay * weights)
        known = tf.logical_and(weights > 0, gradients > 0)
        if self.clip:
            return tf.where(known, tf.minimum(ratio, rate), rate)
        return tf.where(known, rate * ratio, rate)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "learning_rate": self._serialize_hyperparameter("learning_rate"),
            "momentum": self.momentum,
            "weight_decay": self.weight_decay,
            "trust": self.trust,
            "clip": self.clip,
            "exclude_vectors": self.exclude_vectors,
        }
