"""The optimizer classes that every Keras 2 has; from Keras 2.11 on they are in `optimizers.legacy`.

Horovod before 0.28 wraps only these. Horovod 0.28 wraps them in every TensorFlow, from 2.16 on by the package tf-keras.
The published figures were measured with them too. Importing this module raises TrainingError if tf.keras is Keras 3.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, List, Sequence

import tensorflow as tf

from hpclaunch.training.rank import keras_version

keras_version.require(tf)
_HOME = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)

Optimizer: Any = _HOME.Optimizer
SGD: Any = _HOME.SGD
Adam: Any = _HOME.Adam
Norms = Callable[[Sequence[Any], str], List[Any]]
"""Takes tensors, and a name that is the same on every rank; returns a scalar for each tensor."""


class DenseUpdates(Optimizer):
    """A base class for optimizers whose update needs the whole gradient of a variable, for example its norm.

    Horovod wraps an optimizer by creating a new one from get_config(), which must contain every argument of a subclass.
    """

    def _resource_apply_dense(self, gradient: Any, variable: Any, apply_state: Any = None) -> Any:
        rate = self._decayed_lr(variable.dtype.base_dtype)
        return self._run_in_turn(lambda: self.update_all([gradient], [variable], rate, whole_norms)[0])

    def _resource_apply_sparse(self, gradient: Any, variable: Any, indices: Any, apply_state: Any = None) -> Any:
        # Rows of an embedding. Rows that no sample used have a gradient of zero, but count in the norm of the weights.
        dense = tf.scatter_nd(tf.expand_dims(indices, 1), gradient, tf.shape(variable, out_type=indices.dtype))
        return self._resource_apply_dense(dense, variable, apply_state)

    def update_all(self, gradients: Sequence[Any], variables: Sequence[Any], rate: Any, norms: Norms) -> list[Any]:
        """Change variables by their (dense) gradients at this learning rate; returns the operations that do.

        norms: returns the norm of each tensor; where ranks hold parts of the variables, those of the whole ones. A
        subclass that uses norms replaces this; any other has `_update` for one variable.
        """
        return [
            self._run_in_turn(functools.partial(self._update, gradient, variable, rate))
            for gradient, variable in zip(gradients, variables)
        ]

    def _run_in_turn(self, update: Callable[[], Any]) -> Any:
        """What `update` returns, which changes a variable after the one before it.

        TensorFlow would begin all of them, and hold what each computes: several times the memory of the weights.
        """
        if tf.executing_eagerly():
            return update()
        graph = tf.compat.v1.get_default_graph()
        before = getattr(self, "_changed", None)
        with tf.control_dependencies([] if before is None or before.graph is not graph else [before]):
            changed = tf.group(update())
        self._changed = changed
        return changed

    def _update(self, gradient: Any, variable: Any, rate: Any) -> Any:
        """Change one variable; returns the operation that does."""
        raise NotImplementedError


def whole_norms(tensors: Sequence[Any], name: str) -> list[Any]:
    """The norm of each tensor, which is whole."""
    return [tf.norm(tensor) for tensor in tensors]


def is_excluded(variable: Any, exclude_vectors: bool) -> bool:
    """Whether a variable is excluded from weight decay and layer-wise rates: biases, normalization's gamma and beta.

    These are the variables with fewer than two dimensions, independent of their names. Their norms do not characterize
    a layer (Goyal et al. 2017, section 3; You et al. 2019, appendix). The part of a variable that a rank holds has the
    attribute whole_rank, the dimensions of the whole one.
    """
    return bool(exclude_vectors and getattr(variable, "whole_rank", variable.shape.rank) < 2)
