"""Nodes -> node types: two types differ only where a job can choose by partition, GPUs (type, number) or feature."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from hpclaunch.core.records import record
from hpclaunch.sites.describe.answers import Gpus, Node

SLICE = re.compile(r"(?:^|[^0-9])[1-7]g\.[0-9]+gb", re.IGNORECASE)
"""What names of GRES types call a MIG slice, as NVML does: ``1g.5gb``, ``a100_3g.20gb`` (gres.conf manual)."""
_SAME_MEMORY = 1.1
"""Nodes whose memory differs by less than this factor are alike: the firmware's share differs from node to node."""


@record
class NodeGroup:
    """Nodes that count as one type.

    ``mixed``: some of the nodes have more than the type says. ``constraint``: the feature that a job must name to get
    these nodes, where nothing else selects them. ``typed``: a job must ask for their GPUs by type. ``position``: which
    of the nodes' GPU types it is; a node with GPUs of several types counts as a node of each. ``larger``: the nodes
    (their ``id``) among them that have more GPUs, and are a type of their own: a request for few GPUs may get them.
    ``shards``: into how many parts Slurm divides each GPU (0: a job gets whole ones); a job gets a part of one GPU.
    """

    nodes: tuple[Node, ...]
    name: str = ""
    constraint: str = ""
    typed: bool = False
    position: int = 0
    larger: frozenset[int] = frozenset()
    shards: int = 0

    @property
    def gpu(self) -> tuple[str, int]:
        """Type and number of the GPUs of every node. The type is empty where the types differ."""
        here = [node.gpus[self.position] if node.gpus else ("", 0) for node in self.nodes]
        types = {gpu_type for gpu_type, _ in here}
        return types.pop() if len(types) == 1 else "", min(count for _, count in here)

    @property
    def is_sliced(self) -> bool:
        """Whether its GPUs are MIG slices: parts of a GPU, of which a process can use one (MIG User Guide)."""
        return bool(SLICE.search(self.gpu[0]))

    @property
    def slices(self) -> int:
        """The parts of GPUs on a node, of which a job gets one: MIG slices or shards; 0 for whole GPUs."""
        number = self.gpu[1]
        return number * self.shards or (number if self.is_sliced else 0)

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
        own = [node for node in self.nodes if id(node) not in self.larger]
        return (
            len({(node.cores, node.threads, node.cpus, node.gpus) for node in own}) > 1
            or max(node.memory for node in own) > min(node.memory for node in own) * _SAME_MEMORY
        )

    @property
    def partitions(self) -> Counter[str]:
        """Partition -> how many of these nodes are in it."""
        return Counter(partition for node in self.nodes for partition in node.partitions)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A candidate for a node type: nodes with the same hardware.

    ``partitions`` are theirs; ``features`` are those that all of them have, and no node of another candidate.
    """

    nodes: list[Node]
    partitions: frozenset[str]
    features: tuple[str, ...]
    gpus: frozenset[Gpus]


def node_groups_of(nodes: Sequence[Node]) -> list[NodeGroup]:
    """Return the node types: those with GPUs first, then by the number of nodes, largest first.

    Two nodes are of one type where they share a partition and no sbatch option can select only one of them. Such a
    type promises what the smallest of its nodes has.
    """
    several_gpu_types = len({node.gpus[0][0] for node in nodes if node.gpus}) > 1
    lists = _group_alike(nodes)
    while (pair := _indistinguishable_pair(candidates := _candidates(lists))) is not None:
        first, second = pair
        lists[first] += lists.pop(second)
    groups = []
    for candidate in candidates:
        larger = _larger_nodes(candidate, candidates)
        group = NodeGroup(
            nodes=(*candidate.nodes, *larger),
            constraint=_needed_feature(candidate, candidates),
            larger=frozenset(map(id, larger)),
        )
        alike = len({tuple(gpu_type for gpu_type, _ in node.gpus) for node in group.nodes}) == 1
        positions = range(len(group.nodes[0].gpus) or 1) if alike else range(1)
        variants = [replace(group, position=position) for position in positions]
        several = several_gpu_types or len(variants) > 1 or len(group.nodes[0].gpus) > 1
        variants = [replace(one, typed=bool(one.gpu[0]) and several) for one in variants]
        groups += [*variants, *_shard_types(variants)]
    groups.sort(key=lambda group: (not group.gpu[1], group.is_sliced, bool(group.shards), -len(group.nodes)))
    return _name_groups(groups)


def _shard_types(groups: Sequence[NodeGroup]) -> list[NodeGroup]:
    """Return the node type of the nodes' shards; none where a node has none, or GPUs of several types."""
    if len(groups) != 1 or not groups[0].gpu[1]:
        return []
    (group,) = groups
    parts = {sum(number for _, number in node.shards) // max(1, node.gpus[0][1]) for node in group.nodes}
    return [replace(group, shards=min(parts), larger=frozenset())] if min(parts) else []


def _group_alike(nodes: Sequence[Node]) -> list[list[Node]]:
    """Group the nodes that have the same processors and GPUs, and about the same memory."""
    groups: dict[tuple[object, ...], list[list[Node]]] = {}
    for node in sorted(nodes, key=lambda node: node.memory):
        same = groups.setdefault(
            (node.gpus, node.shards, node.sockets, node.cores, node.threads, node.cpus, node.usable_cpus), []
        )
        if same and node.memory <= same[-1][0].memory * _SAME_MEMORY:
            same[-1].append(node)
        else:
            same.append([node])
    return [group for same in groups.values() for group in same]


def _candidates(lists: Sequence[list[Node]]) -> list[_Candidate]:
    """Return a candidate for every list of nodes, with the features that no other list has, short names first."""
    holders = Counter(name for nodes in lists for name in frozenset[str]().union(*(node.features for node in nodes)))
    found = []
    for nodes in lists:
        common = frozenset.intersection(*(node.features for node in nodes))
        own = sorted((name for name in common if holders[name] == 1), key=lambda name: (len(name), name))
        partitions = frozenset(partition for node in nodes for partition in node.partitions)
        found.append(_Candidate(nodes, partitions, tuple(own), frozenset(node.gpus for node in nodes)))
    return found


def _indistinguishable_pair(candidates: Sequence[_Candidate]) -> tuple[int, int] | None:
    """Return the positions of two candidates between which no sbatch option can choose, or None."""
    for first, second in combinations(range(len(candidates)), 2):
        one, other = candidates[first], candidates[second]
        if one.partitions & other.partitions and not _are_distinct(one, other):
            return first, second
    return None


def _are_distinct(one: _Candidate, other: _Candidate) -> bool:
    first, second = one.nodes[0].gpus, other.nodes[0].gpus
    return (
        _differ_by_gpus(first, second)
        or bool(one.features and other.features)
        or _has_more_gpus(one, other)
        or _has_more_gpus(other, one)
    )


def _has_more_gpus(one: _Candidate, other: _Candidate) -> bool:
    """Whether every node of one has more GPUs, of each of its types, than any of the other: a number selects it."""
    pairs = [(dict(mine), dict(theirs)) for mine in one.gpus for theirs in other.gpus]
    return all(
        mine and mine.keys() == theirs.keys() and all(mine[key] > theirs[key] for key in mine) for mine, theirs in pairs
    )


def _larger_nodes(candidate: _Candidate, candidates: Sequence[_Candidate]) -> list[Node]:
    """Return the nodes of others that a request for this candidate's GPUs may get as well: larger in every respect."""
    if _needed_feature(candidate, candidates):
        return []
    cores, memory = candidate.nodes[0].cores, min(one.memory for one in candidate.nodes)
    larger: list[Node] = []
    for other in candidates:
        if other is candidate or not candidate.partitions & other.partitions:
            continue
        if _has_more_gpus(other, candidate):
            larger += [node for node in other.nodes if node.cores >= cores and node.memory >= memory]
    return larger


def _differ_by_gpus(one: Gpus, other: Gpus) -> bool:
    """Whether a request for GPUs, or for GPUs of a type, selects one of the two.

    A job that asks for GPUs never gets a node without them.
    """
    if not one or not other:
        return bool(one) != bool(other)
    return one[0][0] != other[0][0] and bool(one[0][0]) and bool(other[0][0])


def _needed_feature(candidate: _Candidate, candidates: Sequence[_Candidate]) -> str:
    """Return the feature that a job must name to get these nodes; empty where partition or GPUs are enough."""
    for other in candidates:
        distinct = _differ_by_gpus(candidate.nodes[0].gpus, other.nodes[0].gpus)
        is_alike = other is not candidate and candidate.partitions & other.partitions and not distinct
        if is_alike and candidate.features and other.features:
            return candidate.features[0]
    return ""


def _name_groups(groups: Sequence[NodeGroup]) -> list[NodeGroup]:
    """Name each group in the shortest form that gives every group another name."""
    names = [f"{_name_by_memory(group)}-{number}" for number, group in enumerate(groups, start=1)]
    for form in _FORMS:
        shorter = [form(group) for group in groups]
        if len(set(shorter)) == len(groups):
            names = shorter
            break
    return [replace(group, name=name) for group, name in zip(groups, names, strict=True)]


def _name_by_use(group: NodeGroup) -> str:
    if group.shards:
        return "shard"
    return "gpu" if group.gpu[1] else "cpu"


def _name_by_gpu_type(group: NodeGroup) -> str:
    if group.shards and group.gpu[0]:
        return f"{group.gpu[0]}-shard"
    return group.gpu[0] or _name_by_use(group)


def _name_by_count(group: NodeGroup) -> str:
    return f"{_name_by_gpu_type(group)}x{group.gpu[1]}" if group.gpu[1] else f"cpu{group.cores}"


def _name_by_memory(group: NodeGroup) -> str:
    return f"{_name_by_count(group)}-{group.memory // 1024}gb"


_FORMS = (_name_by_use, _name_by_gpu_type, _name_by_count, _name_by_memory)
