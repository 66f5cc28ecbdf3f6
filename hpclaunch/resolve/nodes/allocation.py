"""A run inside an allocation that its user has: what its nodes offer, and the flags that only a queued job can have."""

from __future__ import annotations

from dataclasses import fields, replace

from hpclaunch.config.site import NodeType, Site, WholeNode
from hpclaunch.core.spec import WITH_QUEUE, Request, flag_of
from hpclaunch.core.spec_parts import Allocation
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.alternatives import implied_node_type

_OF_A_JOB = ("walltime", "restarts", "signal", "sweep", "at_once", "hosts_file", "further_nodes")
"""Fields of a request that a run in an allocation cannot have, besides those that need a queue."""


def site_within(site: Site, allocation: Allocation) -> Site:
    """Return the site as the allocation has it: no limits of partitions and QOS, and no more of a node than it holds.

    So a layout that is chosen fits, and a typed one that does not is refused.
    """
    node_types = {name: _node_within(node, allocation) for name, node in site.node_types.items()}
    usual = _node_type_of(site, allocation) or site.defaults.node_type
    defaults = replace(site.defaults, node_type=usual)
    return replace(site, node_types=node_types, defaults=defaults, partitions={}, qos={}, required=())


def _node_type_of(site: Site, allocation: Allocation) -> str | None:
    """Return the node type that the allocation's constraint or partition means; None if neither says it."""
    by_constraint = [name for name, node in site.node_types.items() if node.constraint and allocation.features]
    matching = [name for name in by_constraint if site.node_types[name].constraint == allocation.features]
    return next(iter(matching), None) or implied_node_type(site, allocation.partition)


def _node_within(node: NodeType, allocation: Allocation) -> NodeType:
    """Return a node type with the part of a node that the allocation has, and defaults that fit into it."""
    node = replace(node, nodes=len(allocation.hosts))
    cores = max(1, allocation.cpus // node.slurm_cpus_per_core)
    has_all_cores = node.cores is not None and node.cores <= cores
    if not allocation.cpus or (has_all_cores and node.gpus_per_node <= allocation.gpus):
        return node
    return replace(
        node,
        usable_cores=min(node.cores or cores, cores),
        gpus_per_node=min(node.gpus_per_node, allocation.gpus),
        default_tasks_per_node=None,
        default_cpus_per_task=None,
        whole_node=WholeNode(),
    )


def places_of(allocation: Allocation, request: Request, decisions: Decisions) -> dict[str, str]:
    """Return account, partition and QOS of the allocation; every flag that belongs to a queued job is a fault."""
    with_queue = [one.name for one in fields(Request) if one.metadata == WITH_QUEUE]
    for name in (*with_queue, *_OF_A_JOB):
        if getattr(request, name):
            flag = "--node-type A:N,B:N" if name == "further_nodes" else flag_of(name)
            what = f"{flag} is for a job of its own, and a run in the allocation {allocation.job_id} has none"
            decisions.fault(what, where="--here", next=f"leave {flag} out; or leave --here out to submit a job")
    named = {"account": allocation.account, "partition": allocation.partition, "qos": allocation.qos}
    known = {key: value for key, value in named.items() if value}
    for key, value in known.items():
        decisions.pick(key, (f"allocation {allocation.job_id}", value))
    return known
