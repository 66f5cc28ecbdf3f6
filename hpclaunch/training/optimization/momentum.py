"""SGD with momentum correction: past gradients follow changes of the learning rate."""

from __future__ import annotations

from typing import Any

from hpclaunch.training.rank.legacy_keras import DenseUpdates


class MomentumSGD(DenseUpdates):
    """u = momentum u + g;  w = w - rate u (Goyal et al. 2017, arXiv 1706.02677, equation 9).

    Keras's SGD has the rate inside: v = momentum v + rate g;  w = w - v (equation 10). With a constant rate both are
    the same. When the rate changes, v still contains the old rate: steps are too short in a warm-up, and too long after
    a decay. The paper's momentum correction (section 3) multiplies v by new / old rate at every change, which gives
    equation 9 again. Here the rate is outside, so that no change can be missed.
    """

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9, name: str = "MomentumSGD", **kwargs: Any):
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self.momentum = momentum

    def _create_slots(self, variables: Any) -> None:
        for variable in variables:
            self.add_slot(variable, "momentum")

    def _update(self, gradient: Any, variable: Any, rate: Any) -> Any:
        held = self.get_slot(variable, "momentum")
        gradients = held.assign(self.momentum * held + gradient, use_locking=self._use_locking)
        return variable.assign_sub(rate * gradients, use_locking=self._use_locking)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "learning_rate": self._serialize_hyperparameter("learning_rate"),
            "momentum": self.momentum,
        }
