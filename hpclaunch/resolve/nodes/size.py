"""What size of run is requested: the node type, the node count, the tasks and GPUs of a node, and the walltime."""

from __future__ import annotations

from hpclaunch.config.site import NodeType, Site
from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.records import record
from hpclaunch.core.spec import Request
from hpclaunch.core.spec_parts import Allocation
from hpclaunch.core.units import count
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.alternatives import implied_node_type
from hpclaunch.resolve.nodes.limits import Ask
from hpclaunch.resolve.strategies import ONE_TASK, takes_several_gpus


@record
class Size:
    """The size of a request, before its partition is chosen. ``gpus`` are the GPUs of a node that tasks will use.

    ``tasks`` are those of a node; ``walltime`` is in seconds (0: not given). ``gpu_type``: the type by which GPUs are
    asked for. ``cpus`` and ``memory`` (MB) are those of a node, as far as they are typed or the job's (0: not known).
    """

    nodes: int
    tasks: int
    gpus: int
    walltime: int
    gpu_type: str = ""
    cpus: int = 0
    memory: int = 0

    def ask(self, node_type: str) -> Ask:
        """Return the request as ``resolve.nodes.limits`` compares it with the limits of partitions and QOS."""
        return Ask(
            node_type=node_type,
            nodes=self.nodes,
            gpus=self.gpus,
            walltime=self.walltime,
            gpu_type=self.gpu_type,
            tasks=self.tasks,
            cpus=self.cpus,
            memory=self.memory,
        )


def node_type_of(case: Case, named: dict[str, str], decisions: Decisions) -> str:
    """Return the name of the node type; an unknown one is a fault, and the site's default takes its place.

    ``named``: account, partition and QOS as far as a person named them.
    """
    site, partition = case.site, named.get("partition", "")
    implied, gpus = implied_node_type(site, partition), case.request.gpus_per_node or 0
    usual = implied or case.settings.offer("node_type", site.name)[1] or site.defaults.node_type
    chosen = decisions.pick(
        "node type",
        ("--node-type", case.request.node_type),
        ("job", case.job.resources.node_type),
        (f"--gpus-per-node {gpus}", _larger_type(site, usual, gpus)),
        (f"partition {partition}", implied),
        case.settings.offer("node_type", site.name),
        ("planner", case.advice.node_type),
        (f"site {site.name}", site.defaults.node_type),
    )
    if chosen not in site.node_types:
        near = did_you_mean(str(chosen), site.node_types)
        with_numbers = bool(set(",:") & set(str(chosen)))
        step = "only submit and render take NAME:NODES; elsewhere: --node-type NAME --nodes N" if with_numbers else ""
        what = f"{site.name} has no node type {chosen!r}{near}"
        decisions.fault(what, allowed=", ".join(site.node_types), next=step)
        return site.defaults.node_type
    return str(chosen)


def _larger_type(site: Site, usual: str, gpus: int) -> str | None:
    """Return the smallest node type with so many GPUs that the number alone selects; None if the usual one has them."""
    known = site.node_types.get(usual)
    if known is None or not known.gpus_per_node or gpus <= known.gpus_per_node:
        return None
    enough = {
        name: node.gpus_per_node
        for name, node in site.node_types.items()
        if node.gpus_per_node >= gpus
        and (node.partition, node.gpu_type, node.constraint) == (known.partition, known.gpu_type, None)
    }
    return min(enough, key=lambda name: enough[name], default=None)


def size_of(case: Case, node_type: str, decisions: Decisions) -> Size:
    """Return the size of the request.

    A strategy of TensorFlow in one process has one task on one node, with all its GPUs or one. ``nodes: auto`` takes
    the planner's node count, or 1 without the planner. Every task gets one GPU unless the request or the job names
    another number.
    """
    request, wants, node = case.request, case.job.resources, case.node(node_type)
    nodes = _nodes_of(case, decisions)
    tasks = _tasks_of(case, node, decisions)
    walltime = _walltime_of(case, decisions)
    cpus_per_task = request.cpus_per_task or wants.cpus_per_task or 0
    return Size(
        nodes=nodes,
        tasks=tasks,
        gpus=_gpus_of(case, node, tasks),
        walltime=walltime,
        gpu_type=_gpu_type_of(case.site, node),
        cpus=tasks * cpus_per_task,
        memory=request.memory or wants.memory or 0,
    )


def _one_process(request: Request) -> int | None:
    """Return the one node, and the one task, of a strategy in one process; None of any other."""
    return 1 if (request.strategy or "") in ONE_TASK else None


def _allocation_words(allocation: Allocation | None) -> str:
    return f"allocation {allocation.job_id}" if allocation else ""


def _nodes_of(case: Case, decisions: Decisions) -> int:
    """Return the node count; more nodes than the allocation has are a fault, and all of them take their place."""
    request, wants, allocation = case.request, case.job.resources, case.context.allocation
    if wants.nodes == "auto":
        otherwise = ("default of 'auto'", 1)
        planned = case.advice.nodes
    else:
        otherwise = ("job", wants.nodes)
        planned = None
    most = len(allocation.hosts) if allocation else None
    nodes = decisions.pick(
        "nodes",
        ("--nodes", request.nodes),
        (request.strategy or "", _one_process(request)),
        (_allocation_words(allocation), most),
        ("planner", planned),
        otherwise,
    )
    if most is not None and nodes and nodes > most:
        what, allowed = f"{nodes} nodes requested", f"at most {count(most, 'node')}"
        decisions.fault(what, where=_allocation_words(allocation), allowed=allowed, next=f"--nodes {most}")
        nodes = most
    return nodes or 1


def _tasks_of(case: Case, node: NodeType, decisions: Decisions) -> int:
    """Return the tasks of a node."""
    request, wants = case.request, case.job.resources
    # The planner's ranks of a node belong to its node count.
    planned = case.advice.tasks_per_node if wants.nodes == "auto" and request.nodes is None else None
    tasks = decisions.pick(
        "tasks per node",
        ("one worker of the search", 1 if request.search else None),
        ("--tasks-per-node", request.tasks_per_node),
        (request.strategy or "", _one_process(request)),
        ("job", wants.tasks_per_node),
        ("planner", planned),
        (f"site {case.site.name}", node.tasks),
    )
    return tasks or 1


def _walltime_of(case: Case, decisions: Decisions) -> int:
    """Return the walltime in seconds; 0: not given."""
    site, allocation = case.site, case.context.allocation
    walltime = decisions.pick(
        "walltime",
        ("--walltime", case.request.walltime),
        (_allocation_words(allocation), allocation.walltime if allocation else None),
        ("job", case.job.resources.walltime),
        case.settings.offer("walltime", site.name),
        (f"site {site.name}", site.defaults.walltime),
    )
    return walltime or 0


def _gpus_of(case: Case, node: NodeType, tasks: int) -> int:
    """Return the GPUs of a node."""
    request = case.request
    if request.gpus_per_node is not None:
        return request.gpus_per_node
    if case.job.resources.gpus_per_node is not None:
        return case.job.resources.gpus_per_node
    # The trials of a search divide the GPUs of a node, and so does one process that uses several.
    if request.search and not request.sweep:
        return node.gpus_per_node
    if _one_process(request) and takes_several_gpus(request):
        return node.gpus_per_node
    return min(tasks, node.gpus_per_node)


def _gpu_type_of(site: Site, node: NodeType) -> str:
    """Return the type by which GPUs are asked for; empty if the site names none, or needs no option for GPUs."""
    if site.gpus is not None and site.gpus.directive == "none":
        return ""
    return node.gpu_type or ""
