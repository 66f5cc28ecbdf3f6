"""The random numbers of a Keras model's layers: their generators, and beginnings that do not depend on other layers."""

from __future__ import annotations

import contextlib
import random
from typing import Any, Iterator


def generators(model: Any) -> list[Any]:
    """The tf.random.Generators of a Keras model's layers, layer by layer.

    rank.start makes Keras use them for all random state.
    """
    found = []
    # Not model.submodules, which fails for a subclass of Model with TensorFlow 2.12.
    for layer in model._flatten_layers():
        own = getattr(layer, "_random_generator", None)
        if own is not None:
            own._maybe_init()
            if own._generator is not None:
                found.append(own._generator)
    return found


class Beginnings:
    """Lets every block of a model begin with the same random weights, whether this rank makes the others or not.

    Keras draws the seeds of initializers and generators from Python's `random`.
    """

    def __init__(self) -> None:
        self._base = random.getrandbits(64)

    @contextlib.contextmanager
    def of(self, number: int) -> Iterator[None]:
        """Make block `number`, from 0, inside this context."""
        random.seed("{}.{}".format(self._base, number))
        yield
        random.seed("{}.after".format(self._base))
