"""Which GPUs of its node a rank sees, and in which order; nothing here starts or asks anything (decision 65)."""

from __future__ import annotations

import shlex

from hpclaunch.config.site import LauncherOptions, NodeType
from hpclaunch.core.hardware import NVIDIA, VISIBILITY
from hpclaunch.core.spec import ALL_GPUS, GPU_VIEWS, HOROVOD, JAX, MPI, ONE_GPU, Layout
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.framework import uses_horovod
from hpclaunch.resolve.environment.given_variables import exported_by
from hpclaunch.resolve.nodes.sizing import Sizing
from hpclaunch.resolve.strategies import takes_several_gpus

_BY_OWN_NUMBER = {
    JAX: "jax.distributed.initialize() takes the GPU of its rank's number on the node: with --gpu-view one a program "
    "needs local_device_ids=[0]",
    HOROVOD: "with --gpu-view one every rank has GPU 0 alone: a program that takes GPU hvd.local_rank() needs "
    "--gpu-view all",
}
"""What counts the ranks of a node itself, and not by LOCAL_RANK -> what a program must do if it sees one GPU."""


def gpu_view_of(case: Case, sizing: Sizing, launcher: str, framework: str, decisions: Decisions) -> str:
    """Return what a rank sees: ``all`` GPUs of its node's allocation, or ``one``; empty text for ranks without GPUs.

    PyTorch, JAX and Horovod take the GPU of the rank's number on its node, so they need all. A program of MPI has the
    view that its centre teaches.
    """
    components = sizing.components
    typed, of_job = case.request.gpu_view, case.job.gpu_view
    if typed is not None and typed not in GPU_VIEWS:
        decisions.fault(f"no view of the GPUs is called {typed!r}", where="--gpu-view", allowed=", ".join(GPU_VIEWS))
        typed = None
    if not any(one.layout.gpus_per_node for one in components) or case.request.search:
        return ""
    binds = any(_site_binds(case, one.node_type, launcher) and one.layout.tasks_per_node > 1 for one in components)
    in_part = any(not _has_all_gpus(case.node(one.node_type), one.layout) for one in components)
    by_scheduler = case.site.gpus is not None and case.site.gpus.one_per_task
    view = decisions.pick(
        "gpu view",
        ("--gpu-view", typed),
        ("job", of_job),
        ("divided GPUs", ONE_GPU if any(_has_divided_gpus(case, one.layout, launcher) for one in components) else None),
        (f"site {case.site.name}, for MPI", ONE_GPU if binds and framework == MPI else None),
        (f"site {case.site.name}", ONE_GPU if binds and by_scheduler and in_part else None),
    )
    view = view or ALL_GPUS
    if view == ONE_GPU:
        _check_one(case, sizing, framework, decisions)
    return view


def _check_one(case: Case, sizing: Sizing, framework: str, decisions: Decisions) -> None:
    """Note what a rank with one GPU cannot do."""
    if takes_several_gpus(case.request):
        decisions.fault(
            f"--strategy {case.request.strategy} uses several GPUs in a task, and --gpu-view one shows it one",
            next="leave --gpu-view out",
            subject="GPUs",
        )
    library = HOROVOD if uses_horovod(case) else framework
    is_alone = all(one.layout.tasks_per_node == 1 for one in sizing.components)
    if library in _BY_OWN_NUMBER and not is_alone and not case.job.uses_library and not case.job.training:
        decisions.warnings.append(_BY_OWN_NUMBER[library])


def gpu_lines_of(case: Case, sizing: Sizing, launcher: str, view: str, chosen: dict[str, str]) -> tuple[str, ...]:
    """Return the lines that choose and check a rank's GPUs; they set no variable that site, settings or job ``chose``.

    They stand in the rank's own shell because srun sets CUDA_VISIBLE_DEVICES again for every task (decision 65).
    """
    node, layout = case.node(sizing.node_type), sizing.layout
    if not layout.gpus_per_node:
        return ()
    own = node.rank_setup if LAUNCHERS[launcher].ranks_are_tasks else ()
    own = tuple(line for line in own if chosen.keys().isdisjoint(exported_by([line])))
    if not view:
        return tuple(line for line in own if not _chooses_gpus(line))
    vendor = _vendor_of(case, node)
    if not case.site.scheduler_row.assigns_gpus:
        lines = _own_divided_gpu(case, layout, launcher, chosen) if view == ONE_GPU else ()
    elif view == ONE_GPU and _site_binds(case, sizing.node_type, launcher):
        lines = own
    else:
        order = _order_of(case, node, layout)
        lines = tuple(line for line in own if not _chooses_gpus(line))
        lines += tuple(f"export {name}={shlex.quote(value)}" for name, value in order.items() if name not in chosen)
    several = takes_several_gpus(case.request) and layout.gpus_per_node > layout.tasks_per_node
    each = layout.gpus_per_node // layout.tasks_per_node if several else 1
    shared = " shared" if any(name in chosen for name in VISIBILITY.get(vendor, _ANY)) else ""
    narrowed = (f"show_one_gpu {vendor} || return 78",) if view == ONE_GPU else ()
    return (*lines, *narrowed, f"check_gpus {vendor} {each}{shared} || return 78")


def _chooses_gpus(line: str) -> bool:
    """Whether a site's line for every rank sets a variable by which a program sees a part of the GPUs."""
    return any(f"{name}=" in line for name in _ANY)


_ANY = tuple(dict.fromkeys(name for names in VISIBILITY.values() for name in names))


def gpu_bind_of(case: Case, node_type: str, layout: Layout, view: str, options: LauncherOptions) -> str:
    """Return how srun binds GPUs: not at all for ranks that see several, where the site would bind them to one.

    ``--gpus-per-task`` implies a binding by the task, which only a written one replaces (srun manual). ``none`` unsets
    the variables that name the job's GPUs, so it is written only where the job has all GPUs of its nodes: else a rank
    would see those of other jobs if no cgroup hides them (seen with Slurm 22.05).
    """
    binds = options.gpu_bind not in (None, "none")
    if not _sees_several(case, layout, view) or not (binds or _asks_by_task(case)):
        return options.gpu_bind or ""
    return "none" if _has_all_gpus(case.node(node_type), layout) else ""


def undoes_binding(case: Case, sizing: Sizing, view: str) -> bool:
    """Whether the script must take back that the job asked for its GPUs by the task: in part of a node.

    Without these variables a step has all GPUs of its job, and the variables that name them (seen with Slurm 22.05).
    """
    return _asks_by_task(case) and any(
        _sees_several(case, one.layout, view) and not _has_all_gpus(case.node(one.node_type), one.layout)
        for one in sizing.components
    )


def unbound_gpus_of(case: Case, sizing: Sizing, view: str) -> tuple[str, ...]:
    """Return the line of the script that takes such a binding back."""
    names = case.site.scheduler_row.gpu_binding
    return (f"unset {' '.join(names)}",) if names and undoes_binding(case, sizing, view) else ()


def _sees_several(case: Case, layout: Layout, view: str) -> bool:
    return (view == ALL_GPUS or bool(case.request.search)) and layout.gpus_per_node > 1


def _asks_by_task(case: Case) -> bool:
    gpus = case.site.gpus
    return gpus is not None and "gpus-per-task" in (gpus.directive, gpus.srun)


def _site_binds(case: Case, node_type: str, launcher: str) -> bool:
    """Whether the site shows each of its tasks one GPU by itself, under this launcher."""
    if not LAUNCHERS[launcher].ranks_are_tasks or case.site.launchers is None:
        return False
    options = case.site.launchers.options.get(launcher, LauncherOptions())
    bound = options.gpu_bind not in (None, "none") or (_asks_by_task(case) and options.gpu_bind is None)
    shown = case.site.gpus is not None and case.site.gpus.one_per_task
    return bound or shown or any(map(_chooses_gpus, case.node(node_type).rank_setup))


def _has_all_gpus(node: NodeType, layout: Layout) -> bool:
    return layout.gpus_per_node == node.gpus_per_node


def _order_of(case: Case, node: NodeType, layout: Layout) -> dict[str, str]:
    """Return the site's variables for all GPUs of a node: the first of the list is the nearest to rank 0, and so on.

    A fixed order needs all GPUs: with two of them allocated, ``3,2,1,0`` would begin with one that is not there. Fewer
    tasks each have the CPUs of several GPUs, so rank i of ``tasks`` begins beside number i x GPUs / tasks of the list.
    """
    gpus, tasks = layout.gpus_per_node, layout.tasks_per_node
    if not gpus or not _has_all_gpus(node, layout) or (_asks_by_task(case) and gpus % tasks):
        return {}
    orders = {}
    for name, value in node.whole_node.variables.items():
        words = value.split(",")
        if len(words) == gpus and tasks <= gpus:
            nearest = [words[rank * gpus // tasks] for rank in range(tasks)]
            orders[name] = ",".join([*nearest, *(word for word in words if word not in nearest)])
        elif tasks == node.tasks:
            orders[name] = value
    return orders


def _vendor_of(case: Case, node: NodeType) -> str:
    """Return the maker of a node's GPUs, as the model's name or this machine tells it; ``any`` if it is not known."""
    found = case.context.hardware.gpus if case.context.hardware and node.this_machine else ()
    if found:
        return found[0].vendor
    known = [vendor for vendor in VISIBILITY if vendor.upper() in (node.gpu_model or "").upper().split()]
    return known[0] if known and not node.stand_in_gpus else "any"


def _has_divided_gpus(case: Case, layout: Layout, launcher: str) -> bool:
    """Whether this machine's GPUs are divided into MIG devices, which are assigned by no scheduler."""
    gpus = case.context.hardware.gpus if case.context.hardware else ()
    here = not case.site.scheduler_row.assigns_gpus and not case.request.hosts_file
    return here and layout.tasks_per_node > 1 and any(gpu.parent for gpu in gpus)


def _own_divided_gpu(case: Case, layout: Layout, launcher: str, chosen: dict[str, str]) -> tuple[str, ...]:
    """Return the lines that give each rank a MIG device of its own, where this machine's GPUs are divided.

    A process can use one MIG device, and without the variable all ranks would use the first (MIG User Guide, "CUDA
    Device Enumeration").
    """
    variable = VISIBILITY[NVIDIA][0]
    gpus = case.context.hardware.gpus if case.context.hardware else ()
    if not _has_divided_gpus(case, layout, launcher) or variable in chosen:
        return ()
    names = " ".join(shlex.quote(gpu.uuid or gpu.name) for gpu in gpus[: layout.tasks_per_node])
    return (f"local gpus=({names})", f'export {variable}="${{gpus[$LOCAL_RANK]}}"')
