"""AdamW (Adam with decoupled weight decay), and LAMB, which scales each layer's step to the norm of its weights."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

from hpclaunch.training.optimization.optimizer_constants import ADAMW_EPSILON
from hpclaunch.training.rank.legacy_keras import DenseUpdates, Norms, is_excluded


class AdamW(DenseUpdates):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2017, arXiv 1711.05101).

    m, v: averages of g and g^2;  u = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon)
    w = w - rate (u + decay w)
    Keras's own AdamW belongs to the newer optimizer class; when Horovod wraps it, it loses its excluded variables.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = ADAMW_EPSILON,
        weight_decay: float = 0.0,
        exclude_vectors: bool = True,
        name: str = "AdamW",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.weight_decay, self.exclude_vectors = weight_decay, exclude_vectors

    def _create_slots(self, variables: Any) -> None:
        for variable in variables:
            self.add_slot(variable, "m")
            self.add_slot(variable, "v")

    def _update(self, gradient: Any, variable: Any, rate: Any) -> Any:
        return variable.assign_sub(rate * self._step(gradient, variable), use_locking=self._use_locking)

    def _step(self, gradient: Any, variable: Any) -> Any:
        step = self._adam(gradient, variable)
        return step if is_excluded(variable, self.exclude_vectors) else step + self.weight_decay * variable

    def _adam(self, gradient: Any, variable: Any) -> Any:
        """Adam's direction, with the gradient's shape; this updates the averages."""
        m, v = self.get_slot(variable, "m"), self.get_slot(variable, "v")
        t = tf.cast(self.iterations + 1, variable.dtype.base_dtype)
        m_now = m.assign(self.beta_1 * m + (1 - self.beta_1) * gradient, use_locking=self._use_locking)
        v_now = v.assign(self.beta_2 * v + (1 - self.beta_2) * gradient**2, use_locking=self._use_locking)
        m_hat = m_now / (1 - tf.pow(tf.cast(self.beta_1, t.dtype), t))
        v_hat = v_now / (1 - tf.pow(tf.cast(self.beta_2, t.dtype), t))
        return m_hat / (tf.sqrt(v_hat) + self.epsilon)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "learning_rate": self._serialize_hyperparameter("learning_rate"),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "weight_decay": self.weight_decay,
            "exclude_vectors": self.exclude_vectors,
        }


class Lamb(AdamW):
    """LAMB (You et al. 2019, arXiv 1904.00962, algorithm 2): AdamW's step, scaled in each layer to the length |w|.

    w = w - rate |w| / |u + decay w| (u + decay w), the scale being 1 where a norm is zero and for excluded variables.
    The LAMB of tensorflow-addons, which the reference notebooks used, has epsilon 1e-6, no decay and
    exclude_vectors=False.
    """

    def __init__(self, learning_rate: float = 0.001, epsilon: float = 1e-6, name: str = "Lamb", **kwargs: Any) -> None:
        super().__init__(learning_rate, epsilon=epsilon, name=name, **kwargs)

    def update_all(self, gradients: Sequence[Any], variables: Sequence[Any], rate: Any, norms: Norms) -> list[Any]:
        steps = [self._step(gradient, variable) for gradient, variable in zip(gradients, variables)]
        return [
            variable.assign_sub(rate * trust * step, use_locking=self._use_locking)
            for variable, step, trust in zip(variables, steps, self._trusts(steps, variables, norms))
        ]

    def _trusts(self, steps: list[Any], variables: Sequence[Any], norms: Norms) -> list[Any]:
        """The factor of each variable's step."""
        found = norms([*variables, *steps], "lamb")
        return [
            1.0 if is_excluded(variable, self.exclude_vectors) else _ratio(weights, length)
            for variable, weights, length in zip(variables, found, found[len(steps) :])
        ]


def _ratio(weights: Any, length: Any) -> Any:
    """The norm of the weights divided by that of the step, 1 where one is zero; scalars."""
    known = tf.logical_and(weights > 0, length > 0)
    return tf.where(known, tf.math.divide_no_nan(weights, length), tf.ones_like(weights))
