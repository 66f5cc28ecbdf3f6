"""An exponential moving average of the weights in a state of JAX, defined as for Keras (weight_average)."""

from __future__ import annotations

from typing import Any, Callable

import jax
import numpy as np

from hpclaunch.training.program.run import Run
from hpclaunch.training.rank import jax_ranks
from hpclaunch.training.rank.failure import AgreedError


class JaxAverage:
    """The average of those floating-point arrays of a state that `model` chooses; `arrays`, for a checkpoint.

    Of arrays with fewer than 32 bits it is float32: in bfloat16, a decay of 0.999 is 1.
    Raises AgreedError if `model` gives an array that is no part of the state.
    """

    def __init__(self, run: Run, decay: float, state: Any, model: Callable[[Any], Any]) -> None:
        leaves = jax.tree_util.tree_leaves(state)
        chosen = {id(leaf) for leaf in jax.tree_util.tree_leaves(model(state))}
        if not chosen <= {id(leaf) for leaf in leaves}:
            raise AgreedError(
                "--ema-decay averages arrays of the state: let model= of training.loop choose them, not compute any",
                speaks=run.is_root,
            )
        self._places = [place for place, leaf in enumerate(leaves) if id(leaf) in chosen and _is_floating(leaf)]
        # Copies: the update of the program may give the buffers of its state away.
        own = [np.array(jax_ranks.own_part(leaves[place])) for place in self._places]
        self.arrays = [one.astype(np.float32) if one.dtype.itemsize < 4 else one for one in own]

        def update(means: Any, weights: Any) -> Any:
            return [decay * mean + (1 - decay) * weight.astype(mean.dtype) for mean, weight in zip(means, weights)]

        self._update = jax.jit(update)

    def step_ended(self, state: Any) -> None:
        """Take the weights after a step into the average."""
        leaves = jax.tree_util.tree_leaves(state)
        self.arrays = self._update(self.arrays, [leaves[place] for place in self._places])

    def in_place(self, state: Any) -> Any:
        """The state with the averages in place of its weights."""
        leaves, tree = jax.tree_util.tree_flatten(state)
        for place, mean in zip(self._places, self.arrays):
            kind = jax.numpy.result_type(leaves[place])
            leaves[place] = mean if mean.dtype == kind else mean.astype(kind)
        return jax.tree_util.tree_unflatten(tree, leaves)


def _is_floating(leaf: Any) -> bool:
    return not jax_ranks.is_key(leaf) and jax.numpy.issubdtype(jax.numpy.result_type(leaf), jax.numpy.inexact)
