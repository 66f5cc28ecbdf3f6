"""Which nodes, how many, and how many tasks, CPUs and GPUs on each."""

from __future__ import annotations

from hpclaunch.config.job import Job
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import NodeType, Site
from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.records import record
from hpclaunch.core.spec import MIRRORED, Layout, Request, Surroundings
from hpclaunch.resolve.decisions import Ledger
from hpclaunch.resolve.placement import Placement, implied_kind
from hpclaunch.resolve.strategies import takes_several_gpus


@record
class Size:
    """What is asked for before it is known where: ``gpus`` on a node are those that tasks will use."""

    nodes: int
    tasks: int
    gpus: int
    walltime: int


def node_type_of(
    site: Site, job: Job, request: Request, settings: Settings, asked: dict[str, str], ledger: Ledger
) -> str:
    """Return the name of the node type; an unknown one is a fault, and the site's default goes on in its place."""
    partition = asked.get("partition", "")
    kind = ledger.pick(
        "node type",
        ("--node-type", request.node_type),
        ("job", job.resources.node_type),
        (f"partition {partition}", implied_kind(site, partition)),
        settings.offer("node_type", site.name),
        (f"site {site.name}", site.defaults.node_type),
    )
    if kind not in site.node_types:
        near = did_you_mean(str(kind), site.node_types)
        ledger.fault(f"{site.name} has no node type {kind!r}{near}", allowed=", ".join(site.node_types))
        return site.defaults.node_type
    return str(kind)


def size_of(
    site: Site,
    kind: str,
    job: Job,
    request: Request,
    settings: Settings,
    ledger: Ledger,
    planned_nodes: int | None = None,
) -> Size:
    """Return how much is asked for.

    Under MirroredStrategy it is one task with all GPUs of one node. ``nodes: auto`` is what the planner found, else 1;
    one GPU for every task unless somebody says otherwise.
    """
    node, wants = site.node_types[kind], job.resources
    one = 1 if request.strategy == MIRRORED else None
    auto = wants.nodes == "auto"
    nodes = ledger.pick(
        "nodes",
        ("--nodes", request.nodes),
        ("mirrored", one),
        ("planner", planned_nodes if auto else None),
        ("job" if not auto else "default of 'auto'", 1 if wants.nodes == "auto" else wants.nodes),
    )
    tasks = ledger.pick(
        "tasks per node",
        ("--tasks-per-node", request.tasks_per_node),
        ("mirrored", one),
        ("job", wants.tasks_per_node),
        (f"site {site.name}", node.tasks),
    )
    walltime = ledger.pick(
        "walltime",
        ("--walltime", request.walltime),
        ("job", wants.walltime),
        settings.offer("walltime", site.name),
        (f"site {site.name}", site.defaults.walltime),
    )
    typed = request.gpus_per_node if request.gpus_per_node is not None else wants.gpus_per_node
    usual = node.gpus_per_node if one else min(tasks or 1, node.gpus_per_node)
    gpus = usual if typed is None else typed
    return Size(nodes=nodes or 1, tasks=tasks or 1, gpus=gpus, walltime=walltime or 0)


def layout_of(
    site: Site,
    kind: str,
    size: Size,
    job: Job,
    request: Request,
    around: Surroundings,
    placement: Placement,
    ledger: Ledger,
) -> Layout:
    """Return the layout.

    CPUs of a task: Slurm's CPUs per core x floor(cores / tasks), the formula that NERSC teaches for Perlmutter and Cori
    (2*floor(64/tasks) on a GPU node); of a shared node only the part that goes with its GPUs. On whole nodes all GPUs
    are asked for, where they are asked for by the node.
    """
    node, wants = site.node_types[kind], job.resources
    whole = placement.whole_nodes(node)
    by_node = site.gpus is None or site.gpus.directive not in ("gpus-per-task", "none")
    gpus = ledger.pick(
        "gpus per node",
        ("--gpus-per-node", request.gpus_per_node),
        ("job", wants.gpus_per_node),
        ("whole nodes", node.gpus_per_node if whole and by_node and size.gpus else None),
        ("one per task", size.gpus),
    )
    cpus = ledger.pick(
        "cpus per task",
        ("--cpus-per-task", request.cpus_per_task),
        ("job", wants.cpus_per_task),
        (f"site {site.name}", node.default_cpus_per_task if size.tasks == node.tasks else None),
        ("formula", _cpus_by_formula(site, node, size, whole, request, around)),
    )
    if cpus is None:
        ledger.fault(
            f"how many cores a node has is not known at {site.name}",
            where=f"{site.name} {kind}",
            next="--cpus-per-task N",
        )
    layout = Layout(
        nodes=size.nodes,
        tasks_per_node=size.tasks,
        cpus_per_task=cpus or 1,
        cpus_per_core=node.slurm_cpus_per_core,
        gpus_per_node=gpus or 0,
        node_gpus=node.gpus_per_node,
        whole_nodes=whole,
        stand_in_gpus=node.stand_in_gpus,
    )
    _check(site, kind, layout, request, around, ledger)
    _warn_of_idle(layout, takes_several_gpus(request), "charging" not in site.unverified, ledger)
    return layout


def _cpus_by_formula(
    site: Site, node: NodeType, size: Size, whole: bool, request: Request, around: Surroundings
) -> int | None:
    here = site.scheduler == "local" and not request.hosts_file
    cores = around.cpus if here else node.cores
    if cores is None:
        return None
    if not whole and size.gpus and node.gpus_per_node:
        cores = cores * min(size.gpus, node.gpus_per_node) // node.gpus_per_node
    return node.slurm_cpus_per_core * max(1, cores // size.tasks)


def _check(site: Site, kind: str, layout: Layout, request: Request, around: Surroundings, ledger: Ledger) -> None:
    node = site.node_types[kind]
    place = f"{site.name} {kind}"
    if site.scheduler == "local":
        _check_hosts(site, layout, request, around, ledger)
    elif request.hosts_file is not None:
        ledger.fault("--hosts is for sites without a scheduler; Slurm names the hosts itself", next="leave --hosts out")
    most = node.slurm_cpus
    if site.scheduler == "slurm" and most and layout.tasks_per_node * layout.cpus_per_task > most:
        ledger.fault(
            f"{layout.tasks_per_node} tasks x {layout.cpus_per_task} CPUs do not fit a node",
            where=place,
            allowed=f"at most {most} CPUs a node",
            next="lower --tasks-per-node or --cpus-per-task",
        )
    if layout.gpus_per_node > node.gpus_per_node:
        ledger.fault(
            f"{layout.gpus_per_node} GPUs a node asked for", where=place, allowed=f"at most {node.gpus_per_node}"
        )
    if 0 < layout.gpus_per_node < layout.tasks_per_node:
        ledger.fault(
            f"{layout.tasks_per_node} tasks would share {layout.gpus_per_node} GPUs",
            where=place,
            allowed=f"at most {node.gpus_per_node} tasks a node, one per GPU",
            next="lower --tasks-per-node, or --gpus-per-node 0 for a run without GPUs",
        )
    by_task = site.gpus is not None and site.gpus.directive == "gpus-per-task"
    if by_task and layout.gpus_per_node % layout.tasks_per_node:
        ledger.fault(
            f"{layout.gpus_per_node} GPUs cannot be shared out evenly to {layout.tasks_per_node} tasks",
            where=f"{site.name}, where GPUs are asked for by the task",
            allowed=f"a multiple of {layout.tasks_per_node} GPUs",
        )


def _check_hosts(site: Site, layout: Layout, request: Request, around: Surroundings, ledger: Ledger) -> None:
    if request.hosts_file is None:
        if layout.nodes > 1:
            ledger.fault(
                f"{layout.nodes} nodes asked for, and {site.name} is one machine",
                next="name a Slurm site (--site), or the hosts in a file (--hosts FILE)",
            )
    elif layout.nodes > len(around.hosts):
        ledger.fault(
            f"{layout.nodes} nodes asked for",
            where=request.hosts_file,
            allowed=f"the {len(around.hosts)} hosts it names",
        )


def _warn_of_idle(layout: Layout, several: bool, charged: bool, ledger: Ledger) -> None:
    """Warn of GPUs that nobody will use, and of which the account may pay; several: a task can use more than one."""
    used = layout.gpus_per_node if several else min(layout.tasks_per_node, layout.gpus_per_node)
    if used == layout.node_gpus:
        return
    what = f"{layout.node_gpus - used} of the {layout.node_gpus} GPUs of every node"
    if layout.whole_nodes or layout.gpus_per_node > used:
        paid = ", and whole nodes are charged" if charged and layout.whole_nodes else ""
        ledger.warnings.append(f"{what} will be idle{paid}")
    else:
        ledger.warnings.append(f"{what} are not asked for")
