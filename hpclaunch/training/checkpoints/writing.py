"""Writes a checkpoint together: which rank writes which file, in which order; it needs no framework."""

from __future__ import annotations

import functools
import time
from collections import deque
from itertools import chain
from typing import Any, Mapping

from hpclaunch.training.checkpoints import folders, stored
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.checkpoints.state import State
from hpclaunch.training.rank.world import World


def save(world: World, state: State, folder: str, place: Place, facts: Mapping[str, Any], keep: int) -> str:
    """Save the state of all ranks at `place` in their training; returns the checkpoint's path. A collective.

    facts: values for JSON, saved with it. A superseded start ends here (rank.fence). Raises AgreedError on every
    rank if any rank cannot write; the existing checkpoints then stay unchanged.
    """
    partial = folders.partial_of(folder, place.made, place.lineage.start)
    begin = functools.partial(folders.begin, folder, place.made, place.lineage.start)
    try:
        if world.size > 1:  # the others must not write before the folder exists
            world.together(lambda: begin() if world.is_root else None)
        else:
            begin()
        state.unite()
        common, own = state.statistics()
        own = state.of_copy({**own, **state.own(metrics=place.step > 0)})
        shared = state.shared(common, keep=world.is_root)
        parts = state.parts(common, keep=world.data_rank == 0)
        about = state.part_facts(common)
        files = world.together(lambda: _write(world, partial, (iter(own.items()), shared, parts), about))
        files = [entry for part in world.gather(files) for entry in part]
        facts = {**facts, **state.manifest(), "epoch": place.epoch, "epoch_step": place.step, "time": time.time()}
        facts.update(world_size=world.size, replicas=world.replicas, copies=world.data_size, **about)
        commit = functools.partial(folders.commit, partial, place.made, files, facts, keep, place.lineage)
        path = world.together(lambda: commit() if world.is_root else "")
    except Exception:
        if world.is_root:
            folders.abandon(partial)
        raise
    return str(path)


def _write(world: World, partial: str, arrays: Any, about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Write the files of this rank: that of its copy of the model, its parts, and on rank 0 the shared one.

    arrays: own, shared, parts; each an iterator of names with arrays. about: what the manifest says of parts.
    """
    _, shared, parts = arrays
    part = folders.part_file(world.mesh.part) if world.mesh is not None and world.data_rank == 0 else ""
    names = (
        folders.own_file(world.data_rank) if world.leads_copy else "",
        folders.SHARED if world.is_root else "",
        part if part in stored.part_names(about) else "",
    )
    files = []
    # To read the arrays may be a collective: every rank reads all in the same order, also if it could not write.
    try:
        for name, found in zip(names, arrays):
            if name:
                files.append(folders.write(partial, name, found))
            deque(found, maxlen=0)
    finally:
        deque(chain(shared, parts), maxlen=0)
    return files
