"""Nodes -> node types: those that a job can tell apart by partition, GPU type or feature, and no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hpclaunch.core.records import record
from hpclaunch.sites.describe.answers import Gpus, Node

_SAME_MEMORY = 1.1
"""Nodes whose memory differs by less are alike: what the firmware keeps for itself differs from node to node."""


@record
class NodeGroup:
    """Nodes that count as one type. ``mixed``: some of them have more than the type says.

    ``constraint``: the feature by which they are asked for, where nothing else tells them apart. ``typed``: their GPUs
    have to be asked for by type.
    """

    nodes: tuple[Node, ...]
    name: str = ""
    constraint: str = ""
    typed: bool = False

    @property
    def gpu(self) -> tuple[str, int]:
        """Type and number of the GPUs of every node; of a node with several types the first. No type: they differ."""
        firsts = [node.gpus[0] if node.gpus else ("", 0) for node in self.nodes]
        types = {kind for kind, _ in firsts}
        return types.pop() if len(types) == 1 else "", min(count for _, count in firsts)

    @property
    def cores(self) -> int:
        """Cores of every node."""
        return min(node.cores for node in self.nodes)

    @property
    def threads(self) -> int:
        """Hardware threads of every core."""
        return min(node.threads for node in self.nodes)

    @property
    def cpus_per_core(self) -> int:
        """What Slurm counts as CPUs of every core."""
        return min(node.cpus_per_core for node in self.nodes)

    @property
    def memory(self) -> int:
        """MB of every node."""
        return min(node.memory for node in self.nodes)

    @property
    def mixed(self) -> bool:
        """Whether some nodes have more cores, threads, GPUs or memory than others."""
        return (
            len({(node.cores, node.threads, node.cpus, node.gpus) for node in self.nodes}) > 1
            or max(node.memory for node in self.nodes) > self.memory * _SAME_MEMORY
        )

    @property
    def partitions(self) -> Counter[str]:
        """Partition -> how many of these nodes are in it."""
        return Counter(partition for node in self.nodes for partition in node.partitions)


@dataclass(frozen=True, slots=True)
class _Group:
    """Nodes that look alike, with their partitions and the features that all of them have and no other group."""

    nodes: list[Node]
    places: frozenset[str]
    own: tuple[str, ...]


def kinds_of(nodes: Sequence[Node]) -> list[NodeGroup]:
    """Return the node types, those with GPUs first, then the largest first.

    Nodes that share a partition and that no option of sbatch tells apart are one type, which has what each of them has.
    """
    several = len({node.gpus[0][0] for node in nodes if node.gpus}) > 1
    lists = _alike(nodes)
    while (pair := _confused(groups := _groups(lists))) is not None:
        one, other = pair
        lists[one] += lists.pop(other)
    kinds = [NodeGroup(nodes=tuple(group.nodes), constraint=_needed_feature(group, groups)) for group in groups]
    kinds = [replace(kind, typed=bool(kind.gpu[0]) and (several or len(kind.nodes[0].gpus) > 1)) for kind in kinds]
    kinds.sort(key=lambda kind: (not kind.gpu[1], -len(kind.nodes)))
    return _named(kinds)


def _alike(nodes: Sequence[Node]) -> list[list[Node]]:
    """Group the nodes that have the same processors and GPUs, and about the same memory."""
    groups: dict[tuple[object, ...], list[list[Node]]] = {}
    for node in sorted(nodes, key=lambda one: one.memory):
        same = groups.setdefault((node.gpus, node.sockets, node.cores, node.threads, node.cpus, node.usable_cpus), [])
        if same and node.memory <= same[-1][0].memory * _SAME_MEMORY:
            same[-1].append(node)
        else:
            same.append([node])
    return [group for same in groups.values() for group in same]


def _groups(lists: Sequence[list[Node]]) -> list[_Group]:
    """Say of every list of nodes what tells it from the others; features with short names first."""
    holders = Counter(name for nodes in lists for name in frozenset[str]().union(*(node.features for node in nodes)))
    found = []
    for nodes in lists:
        common = frozenset.intersection(*(node.features for node in nodes))
        own = sorted((name for name in common if holders[name] == 1), key=lambda name: (len(name), name))
        places = frozenset(partition for node in nodes for partition in node.partitions)
        found.append(_Group(nodes, places, tuple(own)))
    return found


def _confused(groups: Sequence[_Group]) -> tuple[int, int] | None:
    """Return two groups of which a job cannot ask for one only, or None."""
    for one in range(len(groups)):
        for other in range(one + 1, len(groups)):
            if groups[one].places & groups[other].places and not _told_apart(groups[one], groups[other]):
                return one, other
    return None


def _told_apart(one: _Group, other: _Group) -> bool:
    return _by_gpus(one.nodes[0].gpus, other.nodes[0].gpus) or bool(one.own and other.own)


def _by_gpus(one: Gpus, other: Gpus) -> bool:
    """Whether asking for GPUs, or for GPUs of a type, is enough: a node without GPUs is never given for one with."""
    if not one or not other:
        return bool(one) != bool(other)
    return one[0][0] != other[0][0] and bool(one[0][0]) and bool(other[0][0])


def _needed_feature(group: _Group, groups: Sequence[_Group]) -> str:
    """Return the feature by which a group must be asked for, or nothing where partition or GPUs are enough."""
    for rest in groups:
        apart = _by_gpus(group.nodes[0].gpus, rest.nodes[0].gpus)
        if rest is not group and group.places & rest.places and not apart:
            return group.own[0]
    return ""


def _named(kinds: Sequence[NodeGroup]) -> list[NodeGroup]:
    """Name each type by its GPUs, and by what differs where that is not enough."""
    names = next(
        (names for form in _FORMS if len(set(names := [form(kind) for kind in kinds])) == len(names)),
        [f"{_by_memory(kind)}-{number}" for number, kind in enumerate(kinds, start=1)],
    )
    return [replace(kind, name=name) for kind, name in zip(kinds, names, strict=True)]


def _by_use(kind: NodeGroup) -> str:
    return "gpu" if kind.gpu[1] else "cpu"


def _by_type(kind: NodeGroup) -> str:
    return kind.gpu[0] or _by_use(kind)


def _by_count(kind: NodeGroup) -> str:
    return f"{_by_type(kind)}x{kind.gpu[1]}" if kind.gpu[1] else f"cpu{kind.cores}"


def _by_memory(kind: NodeGroup) -> str:
    return f"{_by_count(kind)}-{kind.memory // 1024}gb"


_FORMS = (_by_use, _by_type, _by_count, _by_memory)
