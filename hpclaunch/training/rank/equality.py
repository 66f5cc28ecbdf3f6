"""Finds which arrays are the same on all ranks, without sending the arrays themselves."""

from __future__ import annotations

import hashlib
from typing import Any, Sequence

import numpy as np

from hpclaunch.training.rank.world import World

DIGEST_BYTES = 16


def same_on_copies(world: World, arrays: Sequence[Any]) -> list[bool]:
    """Whether each array has the same bytes on all ranks, of a divided model on those with the same part. A collective.

    The answers are the same on these ranks, which have the same number of arrays.
    """
    own = [_digest(array) for array in arrays]
    everywhere = world.gather(own)
    parts = world.size // world.data_size
    same_part = everywhere[world.rank % parts :: parts]
    return [all(digests[n] == digest for digests in same_part) for n, digest in enumerate(own)]


def different_in_stage(world: World, arrays: Sequence[tuple[str, Any]]) -> list[str]:
    """The names of arrays that have not the same bytes on all ranks with the same stage of a model. A collective.

    arrays: name and array, in the same order on the ranks of a stage. The answer is the same on all ranks.
    """
    # By number, as the names of Keras's layers may differ between ranks.
    everywhere = world.gather([(name, _digest(array)) for name, array in arrays])
    mesh = world.mesh
    stages = [mesh.at(rank).stage if mesh else 0 for rank in range(world.size)]
    first = {stage: [digest for _, digest in everywhere[stages.index(stage)]] for stage in set(stages)}
    return [
        name
        for rank, own in enumerate(everywhere)
        for (name, digest), wanted in zip(own, first[stages[rank]])
        if digest != wanted
    ]


def _digest(array: Any) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=DIGEST_BYTES).digest()
