"""A site file beside what Slurm shows of the cluster: where they differ. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.sites.describe.answers import Gpus, Node, nodes_of, nodes_of_sinfo
from hpclaunch.sites.describe.draft import Answers
from hpclaunch.sites.describe.node_types import SLICE
from hpclaunch.sites.slurm_text import records

if TYPE_CHECKING:
    from hpclaunch.config.site import NodeType, Site

_SAME_MEMORY = 1.1
"""Memory that differs by less than this factor is the same: the firmware's share, and 1000 or 1024 MB per GB."""
NODE_KEYS = ("gpu_type", "gpus_per_node", "gpu_shards", "memory_gb", "cores_per_node", "nodes")
"""The keys of a node type that are compared."""
_FEATURE = re.compile(r"[A-Za-z0-9_.=-]+(&[A-Za-z0-9_.=-]+)*")


@record
class Difference:
    """A value of the site file that Slurm contradicts. ``what`` names both values. ``wrong``: it can make runs fail.

    ``now``: the value of Slurm; None if there is none, or if nodes of the type differ in it.
    """

    key: str
    what: str
    wrong: bool = True
    now: int | str | None = None


@record
class Comparison:
    """Where a site file differs from the cluster; ``nodes`` and ``partitions``: how many Slurm shows."""

    differences: tuple[Difference, ...]
    nodes: int
    partitions: int


def compare(site: Site, answers: Answers) -> Comparison | None:
    """Return where the site file differs from the cluster; None if Slurm shows neither partitions nor nodes."""
    known = [fields["PartitionName"] for fields in records(answers.partitions, "PartitionName")]
    nodes = nodes_of(answers.nodes) or nodes_of_sinfo(answers.sinfo)
    if not known or not nodes:
        return None
    differences = [*_partition_differences(site, known)]
    for name in site.node_types:
        if not missing_places(site, name, known):
            differences += node_differences(site, name, known, nodes)
    return Comparison(differences=tuple(differences), nodes=len(nodes), partitions=len(known))


def _partition_differences(site: Site, known: Sequence[str]) -> Iterable[Difference]:
    named = {f"partitions.{name}": name for name in site.partitions}
    named |= {"defaults.partition": site.defaults.partition or ""}
    named |= {f"node_types.{key}.partition": node_type.partition or "" for key, node_type in site.node_types.items()}
    missing: dict[str, list[str]] = {}
    for key, text in named.items():
        for name in filter(None, text.split(",")):
            if name not in known:
                missing.setdefault(name, []).append(key)
    for name, keys in missing.items():
        what = f"Slurm has no partition {name}{did_you_mean(name, known)}; it has {', '.join(known)}"
        yield Difference(key=", ".join(keys), what=what)


def missing_places(site: Site, name: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the partitions of a node type if Slurm has none of them: which nodes are its own is not known then."""
    offer = _partitions_of(site, name, known)
    return () if set(offer) & set(known) else offer


def _partitions_of(site: Site, name: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the partitions that a node type is looked for in; empty if the file names none.

    They are its own, else the default one of the default type. Else they are all that may have such nodes, unless
    Slurm has none of those that are listed for this type by name: partitions for any type do not show its nodes.
    """
    default = site.defaults.partition if name == site.defaults.node_type else None
    if own := site.node_types[name].partition or default:
        return tuple(own.split(","))
    listed = tuple(key for key, limits in site.partitions.items() if name in limits.node_types)
    if listed and not set(listed) & set(known):
        return listed
    return tuple(key for key, limits in site.partitions.items() if not limits.node_types or name in limits.node_types)


def _nodes_of_type(site: Site, name: str, known: Sequence[str], nodes: Sequence[Node]) -> list[Node]:
    """Return Slurm's nodes of a node type: those of its partitions (of all if it has none), with its feature."""
    places = set(_partitions_of(site, name, known) or known)
    return [node for node in nodes if places & set(node.partitions) and _has_features(node, site.node_types[name])]


def _has_features(node: Node, node_type: NodeType) -> bool:
    if not _FEATURE.fullmatch(node_type.constraint or ""):
        return True  # none, or an expression, which only Slurm evaluates
    return set((node_type.constraint or "").split("&")) <= node.features


def fitting_partitions(site: Site, name: str, known: Sequence[str], nodes: Sequence[Node]) -> list[str]:
    """Return the partitions that the file does not list, and whose nodes are in all what it says of a node type."""
    node_type, fitting = site.node_types[name], []
    for partition in known:
        members = [node for node in nodes if partition in node.partitions and _has_features(node, node_type)]
        if partition not in site.partitions and members and not [*_differences_among(name, node_type, members)]:
            fitting.append(partition)
    return fitting


def node_differences(site: Site, name: str, known: Sequence[str], every_node: Sequence[Node]) -> Iterable[Difference]:
    """Yield where a node type differs from Slurm's nodes; ``known``: the names of Slurm's partitions.

    Ask ``missing_places`` first.
    """
    node_type, nodes = site.node_types[name], _nodes_of_type(site, name, known, every_node)
    if nodes:
        yield from _differences_among(name, node_type, nodes)
        return
    what = "Slurm shows no such node in its partitions" + (
        f" with the feature {node_type.constraint}" if node_type.constraint else ""
    )
    yield Difference(key=f"node_types.{name}", what=what)


def _differences_among(name: str, node_type: NodeType, nodes: Sequence[Node]) -> Iterable[Difference]:
    key = f"node_types.{name}"
    alike = [node for node in nodes if bool(_gpus(node, node_type.gpu_type)) is bool(node_type.gpus_per_node)]
    if node_type.gpu_type and not alike:
        has = sorted({gpu_type or "GPUs without a type" for node in nodes for gpu_type, _ in node.gpus})
        what = f"Slurm has {', '.join(has) or 'no GPUs'}, the file says {node_type.gpu_type}"
        yield Difference(key=f"{key}.gpu_type", what=what, now=has[0] if len(has) == 1 and " " not in has[0] else None)
        return
    matching = alike or nodes
    if has_parts(node_type) or _are_slices(matching):
        yield from _shard_differences(key, node_type, matching)
        yield from _size_differences(key, node_type, matching)
        return
    gpus = sorted({_gpus(node, node_type.gpu_type) for node in matching})
    if node_type.gpus_per_node not in gpus:
        what = f"Slurm has {_either(gpus)} GPUs in such a node, the file says {node_type.gpus_per_node}"
        is_wrong = node_type.gpus_per_node > gpus[-1]
        yield Difference(key=f"{key}.gpus_per_node", what=what, wrong=is_wrong, now=_single_value(gpus))
    yield from _size_differences(key, node_type, matching)


def has_parts(node_type: NodeType) -> bool:
    """Whether a job gets one part of a GPU: then the file's number of GPUs is not that of the node."""
    return bool(node_type.gpu_shards) or SLICE.search(node_type.gpu_type or "") is not None


def _are_slices(nodes: Sequence[Node]) -> bool:
    types = {gpu_type for node in nodes for gpu_type, _ in node.gpus}
    return bool(types) and all(SLICE.search(gpu_type) for gpu_type in types)


def _shard_differences(key: str, node_type: NodeType, nodes: Sequence[Node]) -> Iterable[Difference]:
    said, gpu_type = node_type.gpu_shards, node_type.gpu_type
    found = sorted({_count(node.shards, gpu_type) // max(1, _gpus(node, gpu_type)) for node in nodes})
    if said and said not in found:
        what = f"Slurm divides each GPU of such a node into {_either(found)} shards, the file says {said}"
        yield Difference(key=f"{key}.gpu_shards", what=what, wrong=not found[-1], now=_single_value(found))


def _size_differences(key: str, node_type: NodeType, nodes: Sequence[Node]) -> Iterable[Difference]:
    """Yield the differences in memory, cores and the number of nodes."""
    memory = sorted({node.memory // 1024 for node in nodes})
    said = node_type.memory_gb
    if said and not any(said <= gb * _SAME_MEMORY and gb <= said * _SAME_MEMORY for gb in memory):
        what = f"Slurm has {_either(memory)} GB in such a node, the file says {said}"
        yield Difference(key=f"{key}.memory_gb", what=what, wrong=said > memory[-1], now=_single_value(memory))
    # Where slurm.conf gives CPUs alone, the file may know better how many cores they are.
    cores = sorted({node.cores if node.sockets or node.cpus != node_type.slurm_cpus else 0 for node in nodes} - {0})
    if cores and node_type.cores_per_node and node_type.cores_per_node not in cores:
        what = f"Slurm has {_either(cores)} cores in such a node, the file says {node_type.cores_per_node}"
        is_wrong = node_type.cores_per_node > cores[-1]
        yield Difference(key=f"{key}.cores_per_node", what=what, wrong=is_wrong, now=_single_value(cores))
    if node_type.nodes and node_type.nodes > len(nodes):
        what = f"Slurm has {count(len(nodes), 'such node')}, the file says {node_type.nodes}"
        yield Difference(key=f"{key}.nodes", what=what, wrong=False, now=len(nodes))


def _gpus(node: Node, gpu_type: str | None) -> int:
    """Return the GPUs of a node, of the type if one is given."""
    return _count(node.gpus, gpu_type)


def _count(gpus: Gpus, gpu_type: str | None) -> int:
    return sum(number for name, number in gpus if gpu_type in (None, name))


def _single_value(values: Sequence[int]) -> int | None:
    return values[0] if len(values) == 1 and values[0] > 0 else None


def _either(values: Sequence[int]) -> str:
    return " or ".join(map(str, values))
