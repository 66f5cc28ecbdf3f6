"""The largest eigenvalues of the Hessian of a loss: by power iteration on products of the Hessian with vectors.

The Hessian itself (n x n for n weights) is never formed. It reads and writes no file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Vector = Any  # float64 [n]
Product = Callable[[Vector], Vector]


@dataclass(frozen=True, kw_only=True)
class Eigenpair:
    """An eigenvalue with its vector of length 1, float64 [n].

    residual: |H v - value v| / |value|, without the part along the vectors found before. For the first pair there is an
    exact eigenvalue at this relative distance at most. All are usually far nearer, as the error is of the second order
    in the residuals. An eigenvalue of zero has an infinite residual. products: how many products with H it took.
    """

    value: float
    vector: Vector
    residual: float
    products: int


def largest(
    product: Product, size: int, count: int, *, tolerance: float = 0.02, most: int = 100, seed: int = 0
) -> list[Eigenpair]:
    """Return `count` eigenpairs of a symmetric matrix of `size` rows, those of the largest absolute values first.

    Power iteration with deflation: each further vector stays orthogonal to those before it. A pair is done when its
    residual is at most `tolerance`, or after `most` products. Raises ValueError if there are fewer eigenvalues.
    Source: Golub and Van Loan, Matrix Computations, section 8.2.
    """
    if count > size:
        raise ValueError(f"a matrix of {size} rows has no {count} eigenvalues")
    draw = np.random.default_rng(seed)
    found: list[Eigenpair] = []
    for _ in range(count):
        found.append(_next_pair(product, draw.standard_normal(size), found, tolerance, most))
    return found


def _next_pair(product: Product, start: Vector, before: Sequence[Eigenpair], tolerance: float, most: int) -> Eigenpair:
    vector = _unit(_without(start, before))
    for made in range(1, most + 1):
        image = _without(product(vector), before)
        value = float(vector @ image)
        away = float(np.linalg.norm(image - value * vector))
        residual = away / abs(value) if value else math.inf
        if away <= tolerance * abs(value) or made == most:
            break
        vector = _unit(image)
    return Eigenpair(value=value, vector=vector, residual=residual, products=made)


def _without(vector: Vector, before: Sequence[Eigenpair]) -> Vector:
    """The part of a vector that is orthogonal to the vectors found before."""
    for pair in before:
        vector = vector - (pair.vector @ vector) * pair.vector
    return vector


def _unit(vector: Vector) -> Vector:
    return vector / np.linalg.norm(vector)


def product_of(loss: Callable[..., Any], variables: Sequence[Any], batches: Sequence[tuple[Any, ...]]) -> Product:
    """Return the product of a vector with the Hessian of a mean loss, as a function float64 [n] → float64 [n].

    loss: takes a batch's tensors, and gives its mean loss, a scalar. variables: of TensorFlow, with n values together,
    in this order. batches: all samples; each counts by the length of its first tensor. Computed as the gradient of
    (gradient . vector), Pearlmutter 1994, in the precision of the variables.
    """
    import tensorflow as tf

    zero = tf.UnconnectedGradients.ZERO

    @tf.function
    def of_batch(parts: list[Any], *batch: Any) -> list[Any]:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                value = loss(*batch)
            gradients = inner.gradient(value, variables, unconnected_gradients=zero)
            along = tf.add_n([tf.reduce_sum(one * part) for one, part in zip(gradients, parts, strict=True)])
        found = outer.gradient(along, variables, unconnected_gradients=zero)
        return [tf.convert_to_tensor(one) for one in found]

    samples = sum(int(batch[0].shape[0]) for batch in batches)

    def product(vector: Vector) -> Vector:
        parts = split(vector, variables)
        total = np.zeros(len(vector))
        for batch in batches:
            share = int(batch[0].shape[0]) / samples
            total += share * flat(of_batch(parts, *batch))
        return total

    return product


def split(vector: Vector, variables: Sequence[Any]) -> list[Any]:
    """The values of a flat vector in the shapes and types of the variables, as tensors."""
    import tensorflow as tf

    parts, start = [], 0
    for variable in variables:
        length = int(np.prod(variable.shape))
        parts.append(tf.constant(vector[start : start + length].reshape(variable.shape), variable.dtype))
        start += length
    return parts


def flat(parts: Sequence[Any]) -> Vector:
    """The values of tensors one after another, float64 [n]."""
    return np.concatenate([np.asarray(part, np.float64).ravel() for part in parts])
