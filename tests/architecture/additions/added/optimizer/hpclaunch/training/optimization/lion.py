"""Lion: steps of one size, in the direction of an average of gradients."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hpclaunch.training.rank.legacy_keras import DenseUpdates, is_excluded


class Lion(DenseUpdates):
    """Chen et al. 2023, arXiv 2302.06675, algorithm 2.

    w = w - rate (sign(beta_1 m + (1 - beta_1) g) + decay w);  m = beta_2 m + (1 - beta_2) g.
    """

    def __init__(
        self,
        learning_rate: float = 0.0001,
        weight_decay: float = 0.0,
        exclude_vectors: bool = True,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        name: str = "Lion",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self.weight_decay, self.exclude_vectors = weight_decay, exclude_vectors
        self.beta_1, self.beta_2 = beta_1, beta_2

    def _create_slots(self, variables: Any) -> None:
        for variable in variables:
            self.add_slot(variable, "m")

    def _update(self, gradient: Any, variable: Any, rate: Any) -> Any:
        average = self.get_slot(variable, "m")
        step = tf.sign(self.beta_1 * average + (1 - self.beta_1) * gradient)
        if not is_excluded(variable, self.exclude_vectors):
            step = step + self.weight_decay * variable
        kept = average.assign(self.beta_2 * average + (1 - self.beta_2) * gradient, use_locking=self._use_locking)
        with tf.control_dependencies([kept]):
            return variable.assign_sub(rate * step, use_locking=self._use_locking)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "learning_rate": self._serialize_hyperparameter("learning_rate"),
            "weight_decay": self.weight_decay,
            "exclude_vectors": self.exclude_vectors,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
        }
