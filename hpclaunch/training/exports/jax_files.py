"""The weights of a trained model of JAX: the arrays of a tree, by name."""

from __future__ import annotations

from typing import Any, Iterator

import jax
import numpy as np

from hpclaunch.training.rank import jax_ranks


def named_arrays(tree: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a tree with names such as "dense/kernel" or "0/1"; of types that NumPy lacks as float32.

    Typed random keys are left out. A tree that is one array has the name "state".
    """
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if jax_ranks.is_key(leaf):
            continue
        own = np.asarray(jax_ranks.own_part(leaf))
        if own.dtype.kind not in "biufc" or own.dtype.isbuiltin != 1:
            own = own.astype(np.float32)
        yield "/".join(map(_name_of, path)) or "state", own


def _name_of(part: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(part, attribute):
            return str(getattr(part, attribute))
    return str(part)
