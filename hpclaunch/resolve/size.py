"""What size of run is requested: the node type, the node count, the tasks and GPUs of a node, and the walltime."""

from __future__ import annotations

from hpclaunch.config.site import Site
from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.resolve.alternatives import implied_node_type
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.limits import Ask
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
        """Return the request as ``resolve.limits`` compares it with the limits of partitions and QOS."""
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
    site, request, wants = case.site, case.request, case.job.resources
    node = case.node(node_type)
    strategy = request.strategy or ""
    single = 1 if strategy in ONE_TASK else None
    auto, allocation = wants.nodes == "auto", case.context.allocation
    here = f"allocation {allocation.job_id}" if allocation else ""
    nodes = decisions.pick(
        "nodes",
        ("--nodes", request.nodes),
        (strategy, single),
        (here, len(allocation.hosts) if allocation else None),
        ("planner", case.advice.nodes if auto else None),
        ("job" if not auto else "default of 'auto'", 1 if wants.nodes == "auto" else wants.nodes),
    )
    if allocation and nodes and nodes > len(allocation.hosts):
        most = len(allocation.hosts)
        decisions.fault(
            f"{nodes} nodes requested", where=here, allowed=f"at most {count(most, 'node')}", next=f"--nodes {most}"
        )
        nodes = most
    tasks = decisions.pick(
        "tasks per node",
        ("one worker of the search", 1 if request.search else None),
        ("--tasks-per-node", request.tasks_per_node),
        (strategy, single),
        ("job", wants.tasks_per_node),
        ("planner", case.advice.tasks_per_node if auto and request.nodes is None else None),
        (f"site {site.name}", node.tasks),
    )
    walltime = decisions.pick(
        "walltime",
        ("--walltime", request.walltime),
        (here, allocation.walltime if allocation else None),
        ("job", wants.walltime),
        case.settings.offer("walltime", site.name),
        (f"site {site.name}", site.defaults.walltime),
    )
    chosen = request.gpus_per_node if request.gpus_per_node is not None else wants.gpus_per_node
    divides = request.search and not request.sweep  # its trials divide the GPUs of a node
    all_gpus = (single and takes_several_gpus(request)) or divides
    usual = node.gpus_per_node if all_gpus else min(tasks or 1, node.gpus_per_node)
    gpus = usual if chosen is None else chosen
    typed = node.gpu_type if site.gpus is None or site.gpus.directive != "none" else None
    return Size(
        nodes=nodes or 1,
        tasks=tasks or 1,
        gpus=gpus,
        walltime=walltime or 0,
        gpu_type=typed or "",
        cpus=(tasks or 1) * (request.cpus_per_task or wants.cpus_per_task or 0),
        memory=request.memory or wants.memory or 0,
    )
