"""The random numbers of Python and of NumPy's global generator: their seeds, and their states as arrays."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

Arrays = dict
_PYTHON = 3  # the version of its generator's state


def seed(number: int) -> None:
    """Begin both at a seed, 0 to 2**32 - 1."""
    random.seed(number)
    np.random.seed(number)


def states() -> Arrays:
    """Arrays of both states: uint32 keys with the place in them, and the number of a pair that is still to be drawn.

    A program may give NumPy another generator; its state is then left out.
    """
    _, keys, waiting = random.getstate()
    found = {"random-python": np.array(keys, np.uint32), "random-python-next": _next_normal(waiting)}
    state: Any = np.random.get_state()
    if isinstance(state, tuple):
        _, keys, place, has_next, waiting = state
        found["random-numpy"] = np.append(np.asarray(keys, np.uint32), np.uint32(place))
        found["random-numpy-next"] = _next_normal(waiting if has_next else None)
    return found


def put(arrays: Arrays) -> None:
    """Continue from what `states` gave. Raises ValueError for other arrays."""
    keys, waiting = arrays["random-python"], _number(arrays["random-python-next"])
    random.setstate((_PYTHON, tuple(int(key) for key in keys), waiting))
    if "random-numpy" in arrays:
        keys, waiting = arrays["random-numpy"], _number(arrays["random-numpy-next"])
        np.random.set_state(("MT19937", keys[:-1], int(keys[-1]), int(waiting is not None), waiting or 0.0))


def _next_normal(number: float | None) -> np.ndarray:
    return np.array([] if number is None else [number], np.float64)


def _number(array: np.ndarray) -> float | None:
    return float(array[0]) if len(array) else None
