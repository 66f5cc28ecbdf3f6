"""Proves that ranks of JAX hold the same state."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

import jax
import numpy as np

from hpclaunch.training.rank.one_model import Held, OneModel, kind_of
from hpclaunch.training.rank.world import World


class JaxProof:
    """Compares the arrays of a state of which every rank holds a copy; typed keys and divided arrays are left out."""

    def __init__(self, world: World) -> None:
        self._world, self._is_made, self._is_local = world, False, False
        (device, *_) = jax.local_devices()
        gpu = "" if device.platform == "cpu" else device.device_kind
        self._proof = OneModel(world, self._cause, self._facts, gpu)

    def prove_given(self, state: Any) -> None:
        """Raise AgreedError on all ranks unless the program has given them the same state. A collective."""
        self._proof.prove(list(_list_held(state)), "before the first step")
        self._is_made = True

    def prove(self, state: Any, when: str) -> None:
        """Raise AgreedError on all ranks unless they hold the same. A collective."""
        self._is_local = any(_is_local(leaf, self._world.size) for leaf in jax.tree_util.tree_leaves(state))
        self._proof.prove(list(_list_held(state)), when)

    def _facts(self) -> Mapping[str, Any]:
        return {"is_local": self._is_local}

    def _cause(self, name: str, facts: Sequence[Mapping[str, Any]]) -> str:
        return "Likeliest cause: " + self._words(facts)

    def _words(self, facts: Sequence[Mapping[str, Any]]) -> str:
        if not self._is_made:
            return (
                "the program makes the state from the number of the rank, its data or random numbers of its own. Make "
                "it from the same seed on all ranks"
            )
        if any(one["is_local"] for one in facts):
            return (
                "the update computes on this rank alone, without the gradients of the others. Give it loop.state and "
                "the batch of the loop, not own_state() or arrays of NumPy"
            )
        return (
            "the update is not the same function on all ranks (jax.process_index(), random numbers of NumPy or a value "
            "of one rank are compiled into it), or its shard_map returns a part's result without a psum or pmean"
        )


def _is_local(leaf: Any, size: int) -> bool:
    return not isinstance(leaf, jax.Array) or len(leaf.sharding.device_set) < size


def _list_held(state: Any) -> Iterator[Held]:
    for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
        is_key = isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        if is_key or (isinstance(leaf, jax.Array) and not leaf.is_fully_replicated):
            continue
        own = np.asarray(leaf.addressable_data(0) if isinstance(leaf, jax.Array) else leaf)
        yield _hold("the state's {}".format(jax.tree_util.keystr(path)), own)


def _hold(name: str, array: np.ndarray) -> Held:
    return Held(name, kind_of(array), lambda: array)
