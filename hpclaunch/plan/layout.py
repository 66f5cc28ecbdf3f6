"""Which nodes, how many, and how many tasks, CPUs and GPUs on each."""

from __future__ import annotations

from hpclaunch.catalog import did_you_mean
from hpclaunch.job import Job
from hpclaunch.plan.ledger import Ledger
from hpclaunch.site import NodeType, Site
from hpclaunch.spec import Layout, Request, Surroundings


def node_type_of(site: Site, job: Job, request: Request, ledger: Ledger) -> str:
    """Return the name of the node type; an unknown one is a fault, and the site's default goes on in its place."""
    kind = ledger.pick(
        "node type",
        ("--node-type", request.node_type),
        ("job", job.resources.node_type),
        (f"site {site.name}", site.defaults.node_type),
    )
    if kind not in site.node_types:
        near = did_you_mean(str(kind), site.node_types)
        ledger.fault(f"{site.name} has no node type {kind!r}{near}", allowed=", ".join(site.node_types))
        return site.defaults.node_type
    return str(kind)


def layout_of(site: Site, kind: str, job: Job, request: Request, around: Surroundings, ledger: Ledger) -> Layout:
    """Return the layout. ``nodes: auto`` is 1.

    CPUs of a task: threads per core x floor(cores / tasks), the formula that NERSC teaches for Perlmutter and Cori
    (2*floor(64/tasks) on a GPU node).
    """
    node, wants, origin = site.node_types[kind], job.resources, f"site {site.name}"
    cores = around.cpus if site.scheduler == "local" and not request.hosts_file else node.cores_per_node
    auto = wants.nodes == "auto"
    nodes = ledger.pick(
        "nodes",
        ("--nodes", request.nodes),
        ("job" if not auto else "default of 'auto'", 1 if wants.nodes == "auto" else wants.nodes),
    )
    tasks = ledger.pick(
        "tasks per node",
        ("--tasks-per-node", request.tasks_per_node),
        ("job", wants.tasks_per_node),
        (origin, node.default_tasks_per_node or node.gpus_per_node or 1),
    )
    tasks = tasks or 1
    cpus = ledger.pick(
        "cpus per task",
        ("--cpus-per-task", request.cpus_per_task),
        ("job", wants.cpus_per_task),
        ("formula", node.threads_per_core * max(1, cores // tasks)),
    )
    gpus = ledger.pick(
        "gpus per node",
        ("--gpus-per-node", request.gpus_per_node),
        ("job", wants.gpus_per_node),
        ("one per task", min(tasks, node.gpus_per_node)),
    )
    layout = Layout(
        nodes=nodes or 1,
        tasks_per_node=tasks,
        cpus_per_task=cpus or 1,
        threads_per_core=node.threads_per_core,
        gpus_per_node=gpus or 0,
        node_gpus=node.gpus_per_node,
        stand_in_gpus=node.stand_in_gpus,
    )
    _check(site, kind, layout, request, around, ledger)
    return layout


def _check(site: Site, kind: str, layout: Layout, request: Request, around: Surroundings, ledger: Ledger) -> None:
    node = site.node_types[kind]
    place = f"{site.name} {kind}"
    if site.scheduler == "local":
        _check_hosts(site, layout, request, around, ledger)
    elif request.hosts_file is not None:
        ledger.fault("--hosts is for sites without a scheduler; Slurm names the hosts itself", next="leave --hosts out")
    if node.nodes is not None and layout.nodes > node.nodes:
        ledger.fault(f"{layout.nodes} nodes asked for", where=place, allowed=f"at most {node.nodes} nodes")
    if site.scheduler == "slurm" and layout.tasks_per_node * layout.cpus_per_task > node.logical_cpus:
        ledger.fault(
            f"{layout.tasks_per_node} tasks x {layout.cpus_per_task} CPUs do not fit a node",
            where=place,
            allowed=f"at most {node.logical_cpus} CPUs a node",
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


def exclusive_warnings(node: NodeType, layout: Layout, ledger: Ledger) -> None:
    """Warn of GPUs that nobody will use."""
    idle = node.gpus_per_node - layout.gpus_per_node
    if idle > 0 and node.gpus_per_node:
        ledger.warnings.append(f"{idle} of the {node.gpus_per_node} GPUs of every node are not asked for")
