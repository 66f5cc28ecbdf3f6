"""Proves that ranks can share a model: process sets of neighbours in a node, and across, each with its right sum."""

from __future__ import annotations

from typing import Any, Sequence

from hpclaunch.training.doctor import all_reduce
from hpclaunch.training.model_parallel.mesh import Mesh

DYNAMIC = "HOROVOD_DYNAMIC_PROCESS_SETS"
"""With it Horovod can make process sets after its start. It costs a small exchange in every cycle."""


def shared_by(size: int, local_size: int) -> int:
    """The ranks that share a model in the probe: all of a node, or of a single node's the fewest that divide it."""
    if size > local_size or local_size < 4:
        return local_size
    return next(ranks for ranks in range(2, local_size + 1) if local_size % ranks == 0)


def by_horovod(tf: Any, hvd: Any) -> dict[str, Any]:
    """The groups, and the times of all-reduces among the ranks that share a model. A collective.

    All groups work at the same time, as in a step. Raises ArithmeticError if a group has a wrong sum.
    """
    size, local_size = hvd.size(), hvd.local_size()
    if size < 2 or size % local_size:
        return {}
    mesh = Mesh(size // shared_by(size, local_size), 1, shared_by(size, local_size), hvd.rank())
    sets = {ranks: hvd.add_process_set(list(ranks)) for ranks in mesh.groups()}
    for kind, group in (("inside", mesh.tensor_group), ("across", mesh.data_group)):
        if len(group) > 1:
            _check_sum(tf, hvd, group, sets.get(group, hvd.global_process_set), kind)
    facts: dict[str, Any] = {"groups": [list(ranks) for ranks in mesh.groups()], "shared_by": mesh.tensor}
    if 1 < mesh.tensor < size:
        inside = all_reduce.by_horovod(tf, hvd, sets[mesh.tensor_group], mesh.tensor)
        facts["inside"] = inside
    hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name="doctor.groups")  # a rank that ends would end the others' sums
    return facts


def _check_sum(tf: Any, hvd: Any, ranks: Sequence[int], process_set: Any, kind: str) -> None:
    """Add one more than each rank's number, so that a group of other ranks has another sum."""
    own = tf.constant(float(hvd.rank() + 1))
    found = float(hvd.allreduce(own, op=hvd.Sum, process_set=process_set, name="doctor.group." + kind))
    expected = float(sum(rank + 1 for rank in ranks))
    if found != expected:
        words = ", ".join(map(str, ranks))
        raise ArithmeticError("the ranks {} added {:g} in their process set, not {:g}".format(words, found, expected))
