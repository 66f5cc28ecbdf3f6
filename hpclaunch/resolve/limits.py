"""What a partition or a QOS refuses, and the nearest request that it would accept; used for Slurm's live limits too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hpclaunch.config.limits import Limits
from hpclaunch.core.errors import Subject
from hpclaunch.core.records import record
from hpclaunch.core.units import count, format_walltime


@record
class Ask:
    """What limits apply to in a request: nodes of a type, GPUs per node, and walltime in seconds (0: not given).

    ``of_several_types``: the nodes are a component of a heterogeneous job.
    """

    node_type: str
    nodes: int
    gpus: int
    walltime: int
    of_several_types: bool = False

    def __str__(self) -> str:
        time = f" for {format_walltime(self.walltime)}" if self.walltime else ""
        return f"{count(self.nodes, f'{self.node_type} node')}{time}"


@record
class Violation:
    """One limit that a request violates: what was requested, and what is allowed."""

    what: str
    allowed: str
    subject: Subject = ""

    def __str__(self) -> str:
        return f"{self.what}; allowed: {self.allowed}"


def violations(limits: Limits, ask: Ask) -> list[Violation]:
    """Return every limit that the request violates."""
    limits = limits.of(ask.node_type)
    found = []
    if not limits.has_nodes_of(ask.node_type):
        found.append(Violation(what=f"node type {ask.node_type} requested", allowed=", ".join(limits.node_types)))
    most = most_nodes(limits)
    if most is not None and ask.nodes > most:
        found.append(Violation(what=_nodes(ask), allowed=f"at most {count(most, 'node')}"))
    if limits.min_nodes is not None and ask.nodes < limits.min_nodes:
        found.append(Violation(what=_nodes(ask), allowed=f"at least {count(limits.min_nodes, 'node')}"))
    if limits.max_gpus_per_node is not None and ask.gpus > limits.max_gpus_per_node:
        found.append(
            Violation(
                what=f"{ask.gpus} GPUs per node requested",
                allowed=f"at most {limits.max_gpus_per_node} GPUs per node",
                subject="GPUs",
            )
        )
    gpus = ask.nodes * ask.gpus
    if limits.max_gpus is not None and gpus > limits.max_gpus:
        allowed = f"at most {count(limits.max_gpus, 'GPU')}"
        found.append(Violation(what=f"{gpus} GPUs requested", allowed=allowed, subject="GPUs"))
    if limits.min_gpus is not None and gpus < limits.min_gpus:
        allowed = f"at least {count(limits.min_gpus, 'GPU')}"
        found.append(Violation(what=f"{gpus} GPUs requested", allowed=allowed, subject="GPUs"))
    longest, why = longest_walltime(limits, ask.nodes)
    if longest is not None and ask.walltime > longest:
        what = f"walltime {format_walltime(ask.walltime)} requested"
        found.append(Violation(what=what, allowed=f"at most {format_walltime(longest)}{why}"))
    return found


def _nodes(ask: Ask) -> str:
    return f"{count(ask.nodes, 'node')} requested"


def most_nodes(limits: Limits) -> int | None:
    """Return the most nodes that one job may have, or None.

    The largest bin is a limit only if no walltime is given for larger jobs.
    """
    binned = max((size.max_nodes for size in limits.bins), default=None) if limits.max_walltime is None else None
    return min((most for most in (limits.max_nodes, binned) if most is not None), default=None)


def longest_walltime(limits: Limits, nodes: int) -> tuple[int | None, str]:
    """Return the longest walltime (seconds, or None) for a node count, and a remark where it depends on the count."""
    fitting = [size for size in limits.bins if nodes <= size.max_nodes]
    if not fitting:
        return limits.max_walltime, ""
    smallest = min(fitting, key=lambda size: size.max_nodes)
    return smallest.max_walltime, f" with up to {count(smallest.max_nodes, 'node')}"


def nearest_allowed(all_limits: Sequence[Limits], ask: Ask) -> Ask | None:
    """Return the request nearest to this one that all the limits allow, or None; the node type stays the same."""
    several = [limits.of(ask.node_type) for limits in all_limits]
    of_job = [limits.max_gpus for limits in several if limits.max_gpus]
    gpus = min([ask.gpus, *(limits.max_gpus_per_node for limits in several if limits.max_gpus_per_node), *of_job])
    nodes = min([ask.nodes, *(most for limits in several if (most := most_nodes(limits)))])
    if gpus and of_job:
        nodes = min(nodes, min(of_job) // gpus)
    nodes = max([nodes, *(limits.min_nodes for limits in several if limits.min_nodes)])
    if gpus:
        nodes = max([nodes, *(-(-limits.min_gpus // gpus) for limits in several if limits.min_gpus)])
    times = [longest for limits in several if (longest := longest_walltime(limits, nodes)[0])]
    near = replace(ask, nodes=nodes, gpus=gpus, walltime=min([ask.walltime, *times]))
    return None if any(violations(limits, near) for limits in several) else near


def flags(ask: Ask, near: Ask) -> str:
    """Return the flags that change ``ask`` into ``near``."""
    words = []
    if near.nodes != ask.nodes:
        words.append(f"--node-type {ask.node_type}:{near.nodes},…" if ask.of_several_types else f"--nodes {near.nodes}")
    if near.gpus != ask.gpus:
        words.append(f"--tasks-per-node {near.gpus} --gpus-per-node {near.gpus}")
    if near.walltime != ask.walltime:
        words.append(f"--walltime {format_walltime(near.walltime)}")
    return " ".join(words)


def distance(ask: Ask, near: Ask) -> float:
    """Return how far apart two requests are: the product of the factors by which each quantity changes."""
    ratio = 1.0
    for one, other in ((ask.nodes, near.nodes), (ask.gpus, near.gpus), (ask.walltime, near.walltime)):
        if one != other:
            ratio *= max(one, other) / max(1, min(one, other))
    return ratio


def suggestion(places: Iterable[tuple[str, Sequence[Limits]]], ask: Ask) -> str | None:
    """Return the flags of the nearest request that one of the places accepts, or None where no place accepts any.

    A place is (the flags that name it, its limits). Of equally near requests the first is returned.
    """
    nearest = [(distance(ask, near), place, near) for place, limits in places if (near := nearest_allowed(limits, ask))]
    if not nearest:
        return None
    _, place, near = min(nearest, key=lambda candidate: candidate[0])
    return f"{flags(ask, near)} {place}".strip()
