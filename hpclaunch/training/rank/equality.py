"""Finds which arrays are the same on all ranks, without sending the arrays themselves."""

from __future__ import annotations

import hashlib
from typing import Any, Sequence

import numpy as np

from hpclaunch.training.rank.world import World

DIGEST_BYTES = 16


def same_on_all(world: World, arrays: Sequence[Any]) -> list[bool]:
    """Whether each array has the same bytes on every rank. A collective; ranks have the same number of arrays."""
    own = [_digest(array) for array in arrays]
    everywhere = world.gather(own)
    return [all(digests[n] == digest for digests in everywhere) for n, digest in enumerate(own)]


def same_on_copies(world: World, arrays: Sequence[Any]) -> list[bool]:
    """Whether each array has the same bytes on all ranks that have the same part of a model. A collective.

    As same_on_all, if every rank has the whole model. The answers are the same on all ranks.
    """
    own = [_digest(array) for array in arrays]
    parts = world.size // world.data_size
    everywhere = world.gather(own)
    return [
        all(digests[n] == everywhere[rank % parts][n] for rank, digests in enumerate(everywhere))
        for n in range(len(own))
    ]


def _digest(array: Any) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=DIGEST_BYTES).digest()
