"""The layout of a run: its nodes, and the tasks, CPUs and GPUs of a node, once its partition and QOS are chosen."""

from __future__ import annotations

from hpclaunch.core.spec import Layout
from hpclaunch.core.units import count
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.placement import Placement
from hpclaunch.resolve.nodes.size import Size
from hpclaunch.resolve.strategies import takes_several_gpus


def layout_of(case: Case, node_type: str, size: Size, placement: Placement, decisions: Decisions) -> Layout:
    """Return the layout.

    CPUs per task = Slurm's CPUs per core x floor(cores / tasks). This is NERSC's formula for Perlmutter and Cori
    (2*floor(64/tasks) on a GPU node). On a shared node, only the share of the cores that goes with the requested GPUs
    counts (decision 65). On whole nodes all GPUs are requested, where the site's directive counts GPUs per node.
    """
    site, request, wants = case.site, case.request, case.job.resources
    node = case.node(node_type)
    whole = placement.whole_nodes(node)
    by_node = site.gpus is None or site.gpus.directive not in ("gpus-per-task", "none")
    gpus = decisions.pick(
        "gpus per node",
        ("--gpus-per-node", request.gpus_per_node),
        ("job", wants.gpus_per_node),
        ("whole nodes", node.gpus_per_node if whole and by_node and size.gpus else None),
        ("one per task", size.gpus),
    )
    cpus = decisions.pick(
        "cpus per task",
        ("--cpus-per-task", request.cpus_per_task),
        ("job", wants.cpus_per_task),
        (f"site {site.name}", node.default_cpus_per_task if size.tasks == node.tasks else None),
        ("formula", _cpus_by_formula(case, node_type, size, whole)),
    )
    if cpus is None:
        decisions.fault(
            f"the number of cores of a node is not known at {site.name}",
            where=f"{site.name} {node_type}",
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
    if not site.scheduler_row.has_queue:
        _check_hosts(case, layout, decisions)
    elif request.hosts_file is not None:
        decisions.fault(
            f"--hosts is for sites without a scheduler; {site.scheduler_row.title} assigns the hosts itself",
            next="leave --hosts out",
        )
    _check_cpus(case, node_type, layout, decisions)
    _check_gpus(case, node_type, layout, decisions)
    _warn_of_idle_gpus(case, layout, decisions)
    return layout


def _cpus_by_formula(case: Case, node_type: str, size: Size, whole: bool) -> int | None:
    node = case.node(node_type)
    cores = node.cores
    if not case.site.scheduler_row.has_queue and not case.request.hosts_file:
        cores = case.context.cpus
    elif node.this_machine:
        cores = 1  # the ranks are on other hosts, whose cores are not known
    if cores is None:
        return None
    if not whole and size.gpus and node.gpus_per_node:
        cores = cores * min(size.gpus, node.gpus_per_node) // node.gpus_per_node
    return node.slurm_cpus_per_core * max(1, cores // size.tasks)


def _check_cpus(case: Case, node_type: str, layout: Layout, decisions: Decisions) -> None:
    most = case.node(node_type).slurm_cpus
    if case.site.scheduler_row.has_queue and most and layout.tasks_per_node * layout.cpus_per_task > most:
        decisions.fault(
            f"{layout.tasks_per_node} tasks x {layout.cpus_per_task} CPUs do not fit a node",
            where=f"{case.site.name} {node_type}",
            allowed=f"at most {most} CPUs per node",
            next="lower --tasks-per-node or --cpus-per-task",
        )


def _check_gpus(case: Case, node_type: str, layout: Layout, decisions: Decisions) -> None:
    site, node, place = case.site, case.node(node_type), f"{case.site.name} {node_type}"
    if node.gpu_shards and layout.gpus_per_node and max(layout.gpus_per_node, layout.tasks_per_node) > 1:
        decisions.fault(
            f"{count(layout.tasks_per_node, 'task')} and {count(layout.gpus_per_node, 'GPU')} per node requested",
            where=place,
            allowed="one task per node: a job gets a part of one GPU, and NCCL joins no two ranks on one GPU",
            next="--tasks-per-node 1; or another --node-type, for whole GPUs",
            subject="GPUs",
        )
        return
    if layout.gpus_per_node > node.gpus_per_node:
        nearest, is_typed = f"--gpus-per-node {node.gpus_per_node}", case.request.gpus_per_node is not None
        of_several = bool(case.request.further_nodes) and is_typed  # it would be for all of them
        hardware = case.context.hardware if node.this_machine else None
        if hardware is not None and hardware.hidden:
            hides = f"{hardware.limit} of this shell hides {count(hardware.hidden, 'GPU')}"
            nearest = f"{nearest}, or another value of this variable: {hides}"
        decisions.fault(
            f"{layout.gpus_per_node} GPUs per node requested",
            where=place,
            allowed=f"at most {node.gpus_per_node}",
            next="leave --gpus-per-node out: each node type then has its own" if of_several else nearest,
            subject="GPUs",
        )
    if 0 < layout.gpus_per_node < layout.tasks_per_node:
        decisions.fault(
            f"{layout.tasks_per_node} tasks would share {layout.gpus_per_node} GPUs",
            where=place,
            allowed=f"at most {node.gpus_per_node} tasks per node, one per GPU",
            next="lower --tasks-per-node, or type --gpus-per-node 0 for a run without GPUs",
            subject="GPUs",
        )
    by_task = site.gpus is not None and site.gpus.directive == "gpus-per-task"
    if by_task and layout.gpus_per_node % layout.tasks_per_node:
        decisions.fault(
            f"{layout.gpus_per_node} GPUs cannot be divided evenly among {layout.tasks_per_node} tasks",
            where=f"{site.name}, where GPUs are requested per task",
            allowed=f"a multiple of {layout.tasks_per_node} GPUs",
            subject="GPUs",
        )


def _check_hosts(case: Case, layout: Layout, decisions: Decisions) -> None:
    hosts_file, hosts = case.request.hosts_file, case.context.hosts
    if hosts_file is None:
        if layout.nodes > 1:
            decisions.fault(
                f"{layout.nodes} nodes requested, but {case.site.name} is a single machine",
                next="name a Slurm site (--site), or list the hosts in a file (--hosts FILE)",
            )
    elif layout.nodes > len(hosts):
        decisions.fault(
            f"{layout.nodes} nodes requested",
            where=hosts_file,
            allowed=f"at most {len(hosts)}, the number of hosts in this file",
        )
    elif layout.gpus_per_node and case.context.hardware is not None and case.request.gpus_per_node is None:
        alike = f"every host of {hosts_file} is taken to have {count(layout.node_gpus, 'GPU')}, as this machine has"
        decisions.warnings.append(f"{alike}; --gpus-per-node N says otherwise")


def _warn_of_idle_gpus(case: Case, layout: Layout, decisions: Decisions) -> None:
    """Warn of GPUs that no task will use, although the account may be charged for them."""
    several = takes_several_gpus(case.request) or case.request.search
    used = layout.gpus_per_node if several else min(layout.tasks_per_node, layout.gpus_per_node)
    if used >= layout.node_gpus:
        return
    what = f"{layout.node_gpus - used} of the {layout.node_gpus} GPUs of every node"
    if layout.whole_nodes or layout.gpus_per_node > used:
        charged = "charging" not in case.site.unverified
        paid = ", and whole nodes are charged" if charged and layout.whole_nodes else ""
        decisions.warnings.append(f"{what} will be idle{paid}")
    else:
        decisions.warnings.append(f"{what} are not requested")
