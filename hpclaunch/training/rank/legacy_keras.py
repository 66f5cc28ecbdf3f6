"""The optimizer classes that every Keras 2 has: from Keras 2.11 on they live in `optimizers.legacy`.

Horovod before 0.28 wraps only these, Horovod 0.28 wraps them in every TensorFlow from 2.9 to 2.15, and they are what
the published figures were made with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import tensorflow as tf

_HOME = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)

_Optimizer: Any = _HOME.Optimizer
SGD: Any = _HOME.SGD
Adam: Any = _HOME.Adam


class DenseUpdates(_Optimizer, ABC):
    """A base for optimizers whose update needs the whole gradient of a variable, such as its norm.

    Horovod wraps an optimizer by making it anew from
    get_config(), so what a subclass is told must be there.
    """

    def _resource_apply_dense(self, gradient: Any, variable: Any, apply_state: Any = None) -> Any:
        return self._update(gradient, variable, self._decayed_lr(variable.dtype.base_dtype))

    def _resource_apply_sparse(self, gradient: Any, variable: Any, indices: Any, apply_state: Any = None) -> Any:
        # Rows of an embedding: the rows that no sample used have a gradient of zero, and count in the norm.
        dense = tf.scatter_nd(tf.expand_dims(indices, 1), gradient, tf.shape(variable, out_type=indices.dtype))
        return self._resource_apply_dense(dense, variable, apply_state)

    @abstractmethod
    def _update(self, gradient: Any, variable: Any, rate: Any) -> Any:
        """Change `variable` by its (dense) gradient at this learning rate; returns the operation that does."""


def is_excluded(variable: Any, exclude_vectors: bool) -> bool:
    """Whether weight decay and layer-wise rates leave a variable alone: biases, and normalization's gamma and beta.

    They are the variables with fewer than two dimensions, whatever their names; their norms say nothing about a layer
    (Goyal et al. 2017, section 3; You et al. 2019, appendix).
    """
    return bool(exclude_vectors and variable.shape.rank < 2)
