"""Gradient lag of one step: a step applies the averaged gradient of the step before it.

So the exchange of a gradient can overlap the whole next step (Kurth et al. 2018, arXiv 1810.01993, "gradient lag").
Each rank keeps its own gradient, and the ranks average those of the step before while they compute new ones.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import tensorflow as tf

from hpclaunch.training.optimization import optimizer_state, precision
from hpclaunch.training.optimization.collective_optimizer import CollectiveOptimizer
from hpclaunch.training.rank.horovod import hvd
from hpclaunch.training.rank.world import World


class LaggedOptimizer(CollectiveOptimizer):
    """A Keras optimizer that applies the average gradient of the step before; every step is a collective.

    optimizer: as for CollectiveOptimizer. weights: the model's trainable ones, equal on all ranks. compression: of hvd,
    for the gradients on their way; None: they are sent as they are. The first step changes nothing, not even the number
    of updates. The gradient of the last step is never applied.
    """

    def __init__(self, optimizer: Any, weights: Sequence[Any], world: World, compression: Any = None) -> None:
        weights = precision.plain(weights)
        super().__init__("Lagged", optimizer, weights, weights, agree=False)
        self._size, self._compression = world.size, compression or hvd.Compression.none
        self._pending = [tf.Variable(tf.zeros_like(weight), trainable=False) for weight in weights]
        self._steps = tf.Variable(0, trainable=False, dtype=tf.int64)

    def _allreduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The average of the gradients of the step before, which these gradients take the place of. A collective."""
        # Nothing of this step is needed for the average: the exchange begins while the model computes.
        before = [self.averaged(number) for number in range(len(self._pending))]
        for pending, gradient in zip(self._pending, gradients):
            pending.assign(tf.zeros_like(pending) if gradient is None else tf.convert_to_tensor(gradient))
        return before

    def averaged(self, number: int) -> Any:
        """The average over the ranks of their pending gradients of a weight. A collective."""
        own = self._pending[number].read_value()
        if self._size == 1:
            return own
        name = "lagged.gradients.{}".format(number)
        return hvd.allreduce(own, op=hvd.Average, compression=self._compression, name=name)

    def apply_gradients(
        self, grads_and_vars: Any, name: Any = None, experimental_aggregate_gradients: bool = True
    ) -> Any:
        """Update the weights by gradients of `_allreduce`; in the first step there are none, and nothing changes."""
        gradients = [gradient for gradient, _ in grads_and_vars]
        done = tf.cond(self._steps > 0, lambda: tf.group(self._update_held(gradients)), tf.no_op)
        self._steps.assign_add(1)
        return done

    def state(self) -> list[Any]:
        """The variables of the optimizer as without lag; after them the number of steps, and the pending gradients."""
        pending = list(self._pending)
        if self._size > 1:
            pending = [Pending(self, number, variable) for number, variable in enumerate(pending)]
        return [*self._own_state, self._steps, *pending]


class Pending(optimizer_state.Together):
    """The pending gradients of a weight as a checkpoint holds them: their average, which is all that is ever applied.

    So it has the same meaning on any number of ranks. A rank that continues has the average in place of its own.
    """

    def __init__(self, optimizer: LaggedOptimizer, number: int, variable: Any) -> None:
        self._optimizer, self._number, self._variable = optimizer, number, variable
        self.shape, self.dtype = variable.shape, variable.dtype

    def numpy(self) -> np.ndarray:
        """The average over the ranks. A collective."""
        return np.asarray(self._optimizer.averaged(self._number).numpy())

    def assign(self, whole: Any) -> None:
        """Let the gradient of this rank be the average."""
        self._variable.assign(whole)
