"""Muon: momentum whose step on every matrix is made orthogonal, so that no direction of the weights is left behind."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from hpclaunch.training.optimization.hidden_weights import rows_of
from hpclaunch.training.optimization.lamb import AdamW
from hpclaunch.training.optimization.optimizer_constants import ADAMS_SIZE, NEWTON_SCHULZ, ROUNDS


class Muon(AdamW):
    """Muon (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"), with AdamW for the rest.

    m = momentum m + g;  u = g + momentum m;  w = w - rate (0.2 sqrt(max(rows, columns)) orthogonal(u) + decay w)
    An exponential average, m = momentum m + (1 - momentum) g and u = (1 - momentum) g + momentum m, has the same steps:
    orthogonal(u) does not depend on the length of u.
    A kernel of a convolution [h, w, in, out] is a matrix of h w in rows and out columns. The factor 0.2 sqrt(max)
    gives a step the size of Adam's, so Adam's learning rates are a fair start (Liu et al. 2025, arXiv 2502.16982).
    Weights that hidden_weights has marked as none of Muon's, biases and normalization are updated as by AdamW, the
    vectors among them without decay.
    """

    def __init__(self, learning_rate: float = 0.001, momentum: float = 0.95, name: str = "Muon", **kwargs: Any) -> None:
        super().__init__(learning_rate, name=name, **kwargs)
        self.momentum = momentum

    def _create_slots(self, variables: Any) -> None:
        for variable in variables:
            for slot in ("momentum",) if rows_of(variable) > 0 else ("m", "v"):
                self.add_slot(variable, slot)

    def _step(self, gradient: Any, variable: Any) -> Any:
        rows = rows_of(variable)
        if rows < 1:
            return super()._step(gradient, variable)
        average = self.get_slot(variable, "momentum")
        now = average.assign(self.momentum * average + gradient, use_locking=self._use_locking)
        return _orthogonal_step(gradient + self.momentum * now, rows) + self.weight_decay * variable

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "momentum": self.momentum}


def _orthogonal_step(direction: Any, row_dimensions: int) -> Any:
    """The direction of a matrix with all singular values near 1, in the size of a step of Adam.

    row_dimensions: how many of the first dimensions of `direction` are the rows.
    """
    matrix = tf.reshape(direction, [math.prod(direction.shape[:row_dimensions]), -1])
    rows, columns = matrix.shape
    whole = orthogonal(matrix if rows <= columns else tf.transpose(matrix))
    size = ADAMS_SIZE * max(rows, columns) ** 0.5
    return tf.reshape(size * (whole if rows <= columns else tf.transpose(whole)), direction.shape)


def orthogonal(matrix: Any) -> Any:
    """A matrix with the same singular vectors whose singular values are between 0.7 and 1.2; rows <= columns.

    Five rounds of X = a X + (b A + c A A) X with A = X X^T, which starts from X / |X| (Newton-Schulz).
    """
    a, b, c = NEWTON_SCHULZ
    found = tf.math.divide_no_nan(matrix, tf.norm(matrix))
    for _ in range(ROUNDS):
        square = tf.matmul(found, found, transpose_b=True)
        found = a * found + tf.matmul(b * square + c * tf.matmul(square, square), found)
    return found
