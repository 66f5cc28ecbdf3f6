"""The state of a training with JAX: the leaves of its tree as named arrays, and the random numbers of each rank."""

from __future__ import annotations

import functools
from typing import Any, Callable, Mapping

import jax
import numpy as np

from hpclaunch.training.checkpoints import random_states
from hpclaunch.training.checkpoints.plain_state import BYTES, Leaf, PlainState
from hpclaunch.training.checkpoints.state import Arrays
from hpclaunch.training.rank import jax_ranks
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.world import World


class JaxState(PlainState):
    """The tree of arrays that a program trains. tree: returns it, as it is now."""

    framework = "JAX"
    model = "state"

    def __init__(self, world: World, seed: int, tree: Callable[[], Any]) -> None:
        super().__init__(world, seed)
        self._tree = tree
        self.restored: Any = None
        """The tree of the checkpoint, with arrays of NumPy and typed keys; None without one."""

    def leaves(self) -> list[Leaf]:
        pairs, _ = jax.tree_util.tree_flatten_with_path(self._tree())
        return [_leaf(jax.tree_util.keystr(path), leaf) for path, leaf in pairs]

    def about(self) -> dict[str, Any]:
        return {"kinds": _kinds(jax.tree_util.tree_structure(self._tree()))}

    def difference(self, there: Mapping[str, Any]) -> str:
        different = super().difference(there)
        pairs = zip(there["kinds"], self.about()["kinds"])
        kinds = [pair for pair in pairs if pair[0] != pair[1]]
        if not different and kinds:
            return "it has a part of {}, where the state has one of {}".format(*kinds[0])
        return different

    def put(self, arrays: list[np.ndarray], about: Mapping[str, Any]) -> None:
        leaves, tree = jax.tree_util.tree_flatten(self._tree())
        # Leaves of one name and type are the same; their order is that of the tree, so that of the checkpoint.
        self.restored = jax.tree_util.tree_unflatten(tree, [_value(*pair) for pair in zip(arrays, leaves)])

    def random(self) -> Arrays:
        return random_states.states()

    def put_random(self, arrays: Arrays) -> None:
        random_states.put(arrays)

    def seed_random(self, number: int) -> None:
        random_states.seed(number)


def _kinds(tree: Any) -> list[str]:
    """The names of the types of a tree's nodes, but those of Python itself, in the order of its leaves."""
    about = tree.node_data()
    own = about[0].__name__ if about is not None and about[0] not in (dict, list, tuple, type(None)) else ""
    return ([own] if own else []) + [name for child in tree.children() for name in _kinds(child)]


def _leaf(name: str, leaf: Any) -> Leaf:
    if jax_ranks.is_key(leaf):
        return Leaf(name, str(leaf.dtype), tuple(leaf.shape), lambda: np.asarray(jax_ranks.own_part(leaf)))
    dtype = jax.dtypes.canonicalize_dtype(leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype)
    return Leaf(name, dtype.name, tuple(np.shape(leaf)), functools.partial(_array, leaf, dtype))


def _array(leaf: Any, dtype: Any) -> np.ndarray:
    own = np.asarray(jax_ranks.own_part(leaf)).astype(dtype)
    return own if own.dtype.kind in "biufc" and own.dtype.isbuiltin == 1 else own.view(BYTES[own.dtype.itemsize])


def _value(array: np.ndarray, wanted: Any) -> Any:
    """The array of a checkpoint as a leaf like `wanted`. Raises TrainingError if it is not what the manifest says."""
    if jax_ranks.is_key(wanted):
        return jax.random.wrap_key_data(np.array(array), impl=jax.random.key_impl(wanted))
    leaf = _leaf("", wanted)
    dtype = jax.numpy.dtype(leaf.dtype)
    kept = dtype if dtype.kind in "biufc" and dtype.isbuiltin == 1 else np.dtype(BYTES[dtype.itemsize])
    if array.dtype != kept or array.shape != leaf.shape:
        raise TrainingError("an array of the checkpoint is {} {}, not {}".format(array.dtype, array.shape, leaf.words))
    return np.array(array).view(dtype)
