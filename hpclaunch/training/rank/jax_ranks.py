"""Ranks of JAX: their start with jax.distributed, how they agree on a value, and what each holds of an array."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from typing import Any, Callable

import jax
import numpy as np

from hpclaunch.training.checkpoints import random_states
from hpclaunch.training.input.shards import stream_seed
from hpclaunch.training.rank import own_place, placement, stopping, watch
from hpclaunch.training.rank.world import World


@dataclass(frozen=True)
class JaxWorld(World):
    """The place of a rank among those of jax.distributed."""

    @property
    def has_rounds(self) -> bool:
        """False: the collectives of JAX must be made in the same order on every rank, so in one thread."""
        return False

    def _gather_values(self, value: Any, name: str | None = None) -> list[Any]:
        from jax.experimental.multihost_utils import process_allgather

        text = np.frombuffer(pickle.dumps(value), np.uint8)
        lengths = np.asarray(process_allgather(np.array([len(text)], np.int32))).ravel()
        room = 1 << int(lengths.max()).bit_length()  # few lengths, as each is compiled once
        padded = np.zeros(room, np.uint8)
        padded[: len(text)] = text
        rows = np.asarray(process_allgather(padded)).reshape(self.size, room)
        return [pickle.loads(row[:length].tobytes()) for row, length in zip(rows, lengths)]


def start(job: str, seed: int, stall_minutes: float = 0.0) -> JaxWorld:
    """Start this rank, with one device of its own, and with several ranks jax.distributed.

    stall_minutes: end the run when it has not progressed for so long (rank.watch), until its `with` block ends; 0:
    never. At the end of the process JAX itself waits for all ranks, for five minutes at most.

    seed: of the random numbers of Python and NumPy, the same on all ranks, until the loop begins.

    JAX takes the device of the rank's local number, or the only one where the launcher has bound the rank to it.
    Raises TrainingError if a promised GPU is missing.
    """
    stopping.watch()
    place = own_place.place(os.environ, job)
    if place["size"] > 1:
        bound = placement.is_bound(os.environ, place["local_rank"])
        jax.distributed.initialize(  # not every launcher is one from which JAX would learn the place
            num_processes=place["size"],
            process_id=place["rank"],
            local_device_ids=0 if bound else place["local_rank"],
        )
        stopping.watch()  # again: JAX's service for preemptions has taken SIGTERM
    (device, *_) = jax.local_devices()
    own_place.check_gpus(os.environ, int(device.platform != "cpu"), "JAX")
    watch.begin(stall_minutes * 60)
    random_states.seed(stream_seed(seed, "weights"))
    world = JaxWorld(**place, device="{} {}".format(device.platform.upper(), device.id))
    world.together(lambda: os.makedirs(world.run_dir, exist_ok=True))
    return world


def joined(world: World, batch: Any) -> Any:
    """The arrays of all ranks' batches as one array each, of which every rank holds its own part."""
    return _put_on_devices(world, batch, jax.sharding.PartitionSpec("ranks"))


def on_all(world: World, state: Any) -> Any:
    """A tree of arrays that are equal on all ranks, as arrays of which every rank holds a copy."""
    return _put_on_devices(world, state, jax.sharding.PartitionSpec())


def value_and_grad(world: World, loss: Callable[..., Any], samples: int) -> Callable[..., tuple[Any, Any]]:
    """The loss and its gradient over a batch of all ranks, computed by each rank for `samples` of its own at a time.

    loss: loss(weights, inputs, targets), the mean over the samples. Ranks exchange the gradients of all once.
    """
    slopes_of = jax.value_and_grad(loss)
    over = jax.tree_util.tree_map

    def on_rank(weights: Any, inputs: Any, targets: Any) -> tuple[Any, Any]:
        whole = len(targets)
        count = whole // samples

        def added(total: Any, batch: Any) -> tuple[Any, None]:
            share = len(batch[1]) / whole
            return over(lambda one, new: one + new * share, total, slopes_of(weights, *batch)), None

        if whole <= samples:
            total = slopes_of(weights, inputs, targets)
        else:
            batches = over(
                lambda one: one[: count * samples].reshape(count, samples, *one.shape[1:]), (inputs, targets)
            )
            kinds = jax.eval_shape(slopes_of, weights, inputs[:samples], targets[:samples])
            total = over(lambda one: jax.numpy.zeros(one.shape, one.dtype), kinds)
            total, _ = jax.lax.scan(added, total, batches)
            if whole % samples:
                total, _ = added(total, over(lambda one: one[count * samples :], (inputs, targets)))
        return jax.lax.pmean(total, "ranks")

    split = jax.sharding.PartitionSpec("ranks")
    every = jax.sharding.PartitionSpec()
    return _map_over_ranks(on_rank, mesh=_mesh(world), in_specs=(every, split, split), out_specs=(every, every))


def _map_over_ranks(work: Any, **places: Any) -> Any:
    """shard_map, in whose body a gradient is that of this rank alone: newer versions of JAX check, and add them."""
    if hasattr(jax, "shard_map"):
        return jax.shard_map(work, check_vma=False, **places)
    from jax.experimental.shard_map import shard_map

    return shard_map(work, check_rep=False, **places)


def _mesh(world: World) -> Any:
    first_of = {device.process_index: device for device in reversed(jax.devices())}
    return jax.sharding.Mesh(np.array([first_of[rank] for rank in range(world.size)]), ("ranks",))


def _put_on_devices(world: World, tree: Any, parts: jax.sharding.PartitionSpec) -> Any:
    sharding = jax.sharding.NamedSharding(_mesh(world), parts)

    def place(leaf: Any) -> Any:
        if is_key(leaf):
            return _wrap_keys(place(jax.random.key_data(leaf)), leaf)
        leaf = np.asarray(leaf)
        leaf = leaf.astype(jax.dtypes.canonicalize_dtype(leaf.dtype))  # int64 is int32 in JAX, unless it is told
        return jax.make_array_from_process_local_data(sharding, leaf)

    return jax.tree_util.tree_map(place, tree)


def own_copy(state: Any) -> Any:
    """This rank's copy of a tree that all ranks hold, as NumPy arrays; random keys stay keys."""

    def copy(leaf: Any) -> Any:
        own = np.asarray(own_part(leaf))
        return _wrap_keys(own, leaf) if is_key(leaf) else own

    return jax.tree_util.tree_map(copy, state)


def own_part(leaf: Any) -> Any:
    """This rank's copy of an array that all ranks hold; of random keys, their data."""
    if is_key(leaf):
        leaf = jax.random.key_data(leaf)
    return leaf.addressable_data(0) if isinstance(leaf, jax.Array) else leaf


def is_key(leaf: Any) -> bool:
    """Whether this is an array of random keys with a type (jax.random.key)."""
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _wrap_keys(data: Any, like: Any) -> Any:
    return jax.random.wrap_key_data(data, impl=jax.random.key_impl(like))


def type_of_rate(state: Any) -> Any:
    """The type of the learning rate of a tree of arrays: float32, or float64 if all of its floats are.

    A float64 rate would make float64 of float32 weights, and a float32 one has an error of 6e-8 beside float64 ones.
    """
    kinds = {leaf.dtype for leaf in jax.tree_util.tree_leaves(state) if jax.numpy.issubdtype(leaf.dtype, np.inexact)}
    return np.float64 if kinds == {np.dtype(np.float64)} else np.float32


def are_finite(state: Any) -> list[bool]:
    """Of each array of a tree, whether this rank's copy has finite numbers alone."""
    found = []
    for leaf in jax.tree_util.tree_leaves(state):
        own = leaf.addressable_data(0) if isinstance(leaf, jax.Array) else np.asarray(leaf)
        is_inexact = jax.numpy.issubdtype(own.dtype, jax.numpy.inexact)
        found.append(bool(jax.numpy.isfinite(own).all()) if is_inexact else True)
    return found
