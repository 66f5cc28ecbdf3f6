"""Ranks of JAX: their start with jax.distributed, how they agree on a value, and their checkpoint."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from hpclaunch.training.checkpoints import one_file
from hpclaunch.training.rank import own_place, stopping, watch
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.world import World

CHECKPOINT = "state.npz"
_ONE_GPU = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


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


def start(job: str, stall_minutes: float = 0.0) -> JaxWorld:
    """Start this rank, with one device of its own, and with several ranks jax.distributed.

    stall_minutes: end the run when it has not progressed for so long (rank.watch), until its `with` block ends; 0:
    never. At the end of the process JAX itself waits for all ranks, for five minutes at most.

    JAX takes the device of the rank's local number, or the only one where the launcher has bound the rank to it.
    Raises TrainingError if a promised GPU is missing, or JAX counts other ranks than the script.
    """
    stopping.watch()
    place = own_place.place(os.environ, job)
    if place["size"] > 1:
        bound = any(os.environ.get(name, "").isdigit() for name in _ONE_GPU)
        jax.distributed.initialize(local_device_ids=0 if bound else None)
        stopping.watch()  # again: JAX's service for preemptions has taken SIGTERM
    if (jax.process_index(), jax.process_count()) != (place["rank"], place["size"]):
        raise TrainingError(
            "JAX takes this process for rank {} of {}, but it is rank {} of {}: start it with srun or mpirun".format(
                jax.process_index(), jax.process_count(), place["rank"], place["size"]
            )
        )
    (device, *_) = jax.local_devices()
    own_place.check_gpus(os.environ, int(device.platform != "cpu"), "JAX")
    watch.begin(stall_minutes * 60)
    world = JaxWorld(**place, device="{} {}".format(device.platform.upper(), device.id))
    world.together(lambda: os.makedirs(world.run_dir, exist_ok=True))
    return world


def joined(world: World, batch: Any) -> Any:
    """The arrays of all ranks' batches as one array each, of which every rank holds its own part."""
    return _put_on_devices(world, batch, jax.sharding.PartitionSpec("ranks"))


def on_all(world: World, state: Any) -> Any:
    """A tree of arrays that are equal on all ranks, as arrays of which every rank holds a copy."""
    return _put_on_devices(world, state, jax.sharding.PartitionSpec())


def _put_on_devices(world: World, tree: Any, parts: jax.sharding.PartitionSpec) -> Any:
    first_of = {device.process_index: device for device in reversed(jax.devices())}
    mesh = jax.sharding.Mesh(np.array([first_of[rank] for rank in range(world.size)]), ("ranks",))
    sharding = jax.sharding.NamedSharding(mesh, parts)

    def place(leaf: Any) -> Any:
        leaf = np.asarray(leaf)
        leaf = leaf.astype(jax.dtypes.canonicalize_dtype(leaf.dtype))  # int64 is int32 in JAX, unless it is told
        return jax.make_array_from_process_local_data(sharding, leaf)

    return jax.tree_util.tree_map(place, tree)


def own_copy(state: Any) -> Any:
    """This rank's copy of a tree that all ranks hold, as NumPy arrays."""
    return jax.tree_util.tree_map(lambda leaf: np.asarray(leaf.addressable_data(0)), state)


def are_finite(state: Any) -> list[bool]:
    """Of each array of a tree, whether this rank's copy has finite numbers alone."""
    found = []
    for leaf in jax.tree_util.tree_leaves(state):
        own = leaf.addressable_data(0) if isinstance(leaf, jax.Array) else np.asarray(leaf)
        is_inexact = jax.numpy.issubdtype(own.dtype, jax.numpy.inexact)
        found.append(bool(jax.numpy.isfinite(own).all()) if is_inexact else True)
    return found


def save(world: World, state: Any, step: int, steps: int) -> None:
    """Save a tree of arrays and the place in the training: `step` of all, `steps` in an epoch. A collective."""
    about = np.array([step, steps, one_file.FORMAT])
    names, leaves = _list_leaves(own_copy(state))

    def write(path: str) -> None:
        with open(path, "wb") as file:
            np.savez(file, about, np.array([_describe(*pair) for pair in zip(names, leaves)], str), *leaves)

    one_file.save(world, CHECKPOINT, write)


def restore(world: World, state: Any, steps: int) -> tuple[Any, int]:
    """The tree that `save` saved, and the step at which the training continues; `state` and 0 without a checkpoint.

    In a world of another size, whose epochs have other steps, it continues at the same part of the epoch. Raises
    AgreedError for a checkpoint that cannot be read, or whose arrays have other names, shapes or types than those of
    `state`; the file stays.
    """
    path = one_file.found(world, CHECKPOINT)
    if not path:
        return state, 0
    (step, before), leaves = world.together(lambda: _read_arrays(path, *_list_leaves(state)))
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(state), leaves), int(step * steps // before)


def _read_arrays(path: str, names: list[str], wanted: list[Any]) -> tuple[tuple[int, int], list[Any]]:
    """The place in the training, and the arrays of a checkpoint, in the order of `wanted`, which has their types."""

    def load() -> list[Any]:
        with np.load(path, allow_pickle=False) as saved:
            # A newer version may have any arrays: those after its first are read if their format is known.
            about = [int(number) for number in saved["arr_0"]]
            count = len(saved.files) if _format_of([about]) <= one_file.FORMAT else 1
            return [about, *(saved["arr_{}".format(number)] for number in range(1, count))]

    about, *leaves = one_file.read(path, load, _format_of)
    if _format_of([about]) == 1:
        now, then = [_shape_of(one) for one in wanted], [_shape_of(one) for one in leaves]
    else:
        described, *leaves = leaves
        now, then = [_describe(*pair) for pair in zip(names, wanted)], described.tolist()
    if now != then:
        first = next((pair for pair in zip(then, now) if pair[0] != pair[1]), ("{} arrays".format(len(then)), len(now)))
        raise one_file.other(path, "it has {}, but the state has {}".format(*first))
    # NumPy's files know the types of bfloat16 and float8 as bytes of unknown meaning.
    types = [_dtype_of(one) for one in wanted]
    return (about[0], about[1]), [
        leaf.view(kind) if leaf.dtype.kind == "V" else leaf for leaf, kind in zip(leaves, types)
    ]


def _format_of(content: list[Any]) -> int:
    return int(content[0][2]) if len(content[0]) > 2 else 1


def _list_leaves(tree: Any) -> tuple[list[str], list[Any]]:
    """The arrays of a tree, and their paths in it, such as ['dense']['kernel']."""
    pairs, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [jax.tree_util.keystr(path) for path, _ in pairs], [leaf for _, leaf in pairs]


def _dtype_of(leaf: Any) -> Any:
    return jax.dtypes.canonicalize_dtype(np.asarray(leaf).dtype)


def _shape_of(leaf: Any) -> str:
    return str(list(np.shape(leaf)))


def _describe(name: str, leaf: Any) -> str:
    return "{} {} {}".format(name, _dtype_of(leaf).name, _shape_of(leaf))
