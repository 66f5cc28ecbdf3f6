"""The nodes of a partition that only the scheduler knows have what it shows, not what the site file says. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.config.site import NodeType, WholeNode
from hpclaunch.core.spec import LiveNodes
from hpclaunch.core.units import count
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.size import node_type_of

_SAME_MEMORY = 1.1
"""Memory that differs by less than this factor is the same: the firmware's share, and 1000 or 1024 MB per GB."""
_FEATURES = re.compile(r"[A-Za-z0-9_.=-]+(&[A-Za-z0-9_.=-]+)*")


def with_live_nodes(case: Case, partitions: Sequence[str]) -> Case:
    """Return the case with the nodes of the first of these partitions, which only the scheduler knows.

    They replace the CPUs, GPUs and memory of the node type that would be taken for them, unless some of the nodes are
    as the file says; what the file says of software stays. A job with nodes of several types keeps those of the file.
    """
    kinds = next(filter(None, (_kinds_in(case, name) for name in partitions)), ())
    if not kinds or case.request.further_nodes:
        return case
    name = node_type_of(case, {}, Decisions())
    node = case.site.node_types[name]
    kind = _nearest(kinds, node)
    found = replace(node, nodes=kind.number) if _is_as_described(kind, node) else _node_type_of(kind, node)
    found = found if _has_features(kind, node) else replace(found, constraint=None)
    return replace(case, site=replace(case.site, node_types={**case.site.node_types, name: found}))


def _kinds_in(case: Case, partition: str) -> tuple[LiveNodes, ...]:
    live = case.context.live.get("partition")
    return live.nodes.get(partition, ()) if live else ()


def _nearest(kinds: Sequence[LiveNodes], node: NodeType) -> LiveNodes:
    """Return the nodes that are as the site file says, else the most frequent ones."""
    return next((kind for kind in kinds if _is_as_described(kind, node)), kinds[0])


def _is_as_described(kind: LiveNodes, node: NodeType) -> bool:
    """Whether the site file says the same of a node; what it does not say is not compared."""
    types = (node.gpu_type or "", kind.gpu_type)
    memory = (node.memory_gb or 0) * 1024
    return (
        kind.gpus == node.gpus_per_node
        and (types[0] == types[1] or not all(types))
        and (node.slurm_cpus in (None, kind.cpus) or node.cores_per_node == kind.cores)
        and (not memory or max(memory, kind.memory) <= _SAME_MEMORY * min(memory, kind.memory))
    )


def _has_features(kind: LiveNodes, node: NodeType) -> bool:
    """Whether the nodes have the features that the node type is chosen by; an expression is left to the scheduler."""
    constraint = node.constraint or ""
    return not _FEATURES.fullmatch(constraint) or set(constraint.split("&")) <= kind.features


def _node_type_of(kind: LiveNodes, node: NodeType) -> NodeType:
    """Return the node type with the hardware of other nodes; nothing is kept of it that may not hold for these."""
    same_gpus = kind.gpus > 0 and not (kind.gpu_type and node.gpu_type and kind.gpu_type != node.gpu_type)
    memory_gb = max(1, kind.memory // 1024)
    return replace(
        node,
        title=f"nodes with {_words(kind)}",
        nodes=kind.number,
        cpu=None,
        sockets=None,
        numa_domains=None,
        cores_per_node=kind.cores,
        usable_cores=None,
        threads_per_core=max(1, kind.cpus // kind.cores),
        cpus_per_core=None,
        memory_gb=memory_gb,
        request_memory=None if (node.request_memory or 0) > kind.memory else node.request_memory,
        local_storage=None,
        gpus_per_node=kind.gpus,
        gpu_type=kind.gpu_type or None if node.gpu_type else None,
        gpu_model=node.gpu_model if same_gpus else None,
        gpu_memory_gb=node.gpu_memory_gb if same_gpus else None,
        gpu_links=None,
        nics=None,
        default_tasks_per_node=None,
        default_cpus_per_task=None,
        whole_node=WholeNode(),
    )


def words_of_nodes(case: Case, partition: str, node_type: str) -> str:
    """Return what each node has of a partition that the site file lacks; empty if the scheduler shows none."""
    kinds = _kinds_in(case, partition)
    if not kinds:
        return ""
    kind = _nearest(kinds, case.site.node_types[node_type])
    several = f"{kind.number} of its {sum(one.number for one in kinds)} nodes"
    return f"{several if len(kinds) > 1 else 'its nodes'} have {_words(kind)} each"


def _words(kind: LiveNodes) -> str:
    gpus = count(kind.gpus, f"{kind.gpu_type} GPU".strip()) if kind.gpus else "no GPUs"
    return f"{count(kind.cpus, 'CPU')}, {gpus} and {max(1, kind.memory // 1024)} GB"
