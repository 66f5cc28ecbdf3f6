"""Horovod's process sets of a split model: made once at the start of a rank, then known to layers and reduction."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, MutableMapping, Sequence

from hpclaunch.training.model_parallel import mesh as meshes
from hpclaunch.training.model_parallel.mesh import Division, Mesh, Ranks
from hpclaunch.training.rank import placement
from hpclaunch.training.rank.failure import AgreedError, TrainingError

CYCLE_MS = "0.1"
"""Horovod's pause between two looks for work (1 ms by default), in ms.

A collective of a layer waits for it: 32 that follow one another take 1.1 ms each with a pause of 1 ms, 0.2 ms with 0.1,
0.04 ms with 0, which needs a processor core for each rank.
"""


@dataclass(frozen=True)
class Group:
    """Some ranks that compute together. process_set: of Horovod; None if this rank is alone. index: of this rank."""

    process_set: Any = None
    ranks: Ranks = (0,)
    index: int = 0

    @property
    def size(self) -> int:
        """The number of its ranks."""
        return len(self.ranks)

    @property
    def rank(self) -> int:
        """The number of this rank in the world."""
        return self.ranks[self.index]


@dataclass(frozen=True)
class Groups:
    """The groups of this rank. tensor: shares its layers; data: holds the same part of the other copies.

    pipeline: the stages of its copy. following, preceding: its pair with the next stage and the one before it.
    updates: the ranks that average gradients among themselves alone; None: all ranks do it together.
    """

    tensor: Group = Group()
    data: Group = Group()
    pipeline: Group = Group()
    following: Group = Group()
    preceding: Group = Group()
    updates: Group | None = None


class _Here:
    """What this process is in; a class, so that a function can change it."""

    groups = Groups()
    layers = 0
    recompute = False


def tensor() -> Group:
    """The ranks that share the layers that are made now."""
    return _Here.groups.tensor


def data() -> Group:
    """The ranks that average their gradients, if the model is split."""
    return _Here.groups.data


def updates() -> Group | None:
    """The ranks that average their gradients among themselves alone; None: all ranks do it together."""
    return _Here.groups.updates


def own() -> Groups:
    """All groups of this rank."""
    return _Here.groups


def recomputes() -> bool:
    """Whether the blocks that are made now compute their activations again in the backward pass."""
    return _Here.recompute


def next_name() -> str:
    """A name for the collectives of the layer that is made now, the same on all ranks that share it.

    Keras's names of layers are not: a rank may have made a layer that the others have not, as one of a whole model.
    """
    if tensor().size > 1:
        _Here.layers += 1
    return "shared-{}".format(_Here.layers)


@contextlib.contextmanager
def whole_models() -> Iterator[None]:
    """Models that are made in this block are whole: no rank shares them, and nothing is computed again."""
    before = _Here.groups, _Here.recompute
    _Here.groups, _Here.recompute = Groups(), False
    try:
        yield
    finally:
        _Here.groups, _Here.recompute = before


def samples_set(world: Any) -> Any:
    """Horovod's process set of the ranks that have different samples: all, or one of each group that shares a model.

    Do not use it where world.data_size is 1.
    """
    from hpclaunch.training.rank.horovod import hvd

    return hvd.global_process_set if world.mesh is None else _Here.groups.data.process_set


def start(hvd: Any, division: Division, environ: MutableMapping[str, str]) -> Mesh | None:
    """Initialise Horovod with the process sets of the model; returns the mesh, or None if no model is split.

    Horovod needs the process sets before it knows the ranks, so their number comes from the environment. Raises
    AgreedError if it cannot be divided, TrainingError if Horovod cannot make the groups.
    """
    _Here.recompute = division.recompute
    if division.ranks == 1:
        _start_whole(hvd, division.update_groups, environ)
        return None
    environ.setdefault("HOROVOD_CYCLE_TIME", CYCLE_MS)
    size = _size(environ)
    if size % division.ranks:  # there are no groups that Horovod could make
        hvd.init()
        _refuse(hvd, division)
    plan = Mesh(size // division.ranks, division.stages, division.tensor_parallel, 0)
    sets = _init(hvd, size, plan.groups())
    mesh = plan.at(hvd.rank())
    _refuse(hvd, division)
    _use(hvd, mesh, sets)
    return mesh


def _start_whole(hvd: Any, update_groups: int, environ: Mapping[str, str]) -> None:
    """Initialise Horovod for ranks that each have the whole model, in so many groups that update it apart."""
    if update_groups == 1:
        hvd.init()
        return
    size = _size(environ)
    found = meshes.update_groups(size, update_groups)
    sets = _init(hvd, size, found)
    problem = meshes.update_groups_fault(hvd.size(), update_groups)
    if problem:
        raise AgreedError(problem, speaks=hvd.rank() == 0)
    own = next(ranks for ranks in found if hvd.rank() in ranks)
    _Here.groups = Groups(updates=Group(sets[own], own, own.index(hvd.rank())))


def _init(hvd: Any, size: int, groups: Sequence[Ranks]) -> dict[Ranks, Any]:
    """Initialise Horovod with a process set for each of these groups, which are returned."""
    sets = {ranks: hvd.ProcessSet(list(ranks)) for ranks in groups}
    try:
        hvd.init(process_sets=list(sets.values()))
    except ValueError as error:
        raise TrainingError("Horovod cannot make the groups of {} ranks: {}".format(size, error)) from error
    return sets


def _use(hvd: Any, mesh: Mesh, sets: Mapping[Ranks, Any]) -> None:
    def group(ranks: Ranks) -> Group:
        whole = hvd.global_process_set if len(ranks) == mesh.size > 1 else None
        return Group(sets.get(ranks, whole), ranks, ranks.index(mesh.rank)) if ranks else Group()

    before = mesh.at(mesh.rank - mesh.tensor).next_pair if mesh.stage else ()
    _Here.groups = Groups(
        group(mesh.tensor_group),
        group(mesh.data_group),
        group(mesh.pipeline_group),
        group(mesh.next_pair),
        group(before),
    )


def _size(environ: Mapping[str, str]) -> int:
    text = environ.get("HOROVOD_SIZE", "")  # of horovodrun
    return int(text) if text.isdigit() else placement.expected_world_size(environ) or 1


def _refuse(hvd: Any, division: Division) -> None:
    """Raise AgreedError if the ranks cannot be divided into groups of these sizes."""
    fault = meshes.fault(hvd.size(), hvd.local_size(), division)
    if fault:
        raise AgreedError(fault, speaks=hvd.rank() == 0)
