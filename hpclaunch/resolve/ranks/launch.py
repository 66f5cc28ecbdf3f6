"""The launcher that starts the ranks, whether it works at this site, and its command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.config.site import LauncherOptions, NodeType, Site
from hpclaunch.core.runtime_rows import ContainerCommand
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.core.spec import Layout
from hpclaunch.launchers import LAUNCHERS, NO_LAUNCHER, Launch, LauncherRow
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.framework import refusal_of, stated_framework, uses_horovod
from hpclaunch.resolve.nodes.sizing import Sizing
from hpclaunch.resolve.ranks.gpu_view import gpu_bind_of, gpu_lines_of, undoes_binding
from hpclaunch.resolve.strategies import needs_workers

_PLAIN_PATH = r"[A-Za-z0-9_./+=:,@%-]+"
_BY_THE_SCRIPT = (
    "HPCLAUNCH_RUN_DIR",
    "HPCLAUNCH_EXIT_FILE",
    "HPCLAUNCH_CHECKPOINT_DIR",
    "HPCLAUNCH_RESTART_COUNT",
    "HPCLAUNCH_START",
    "MASTER_ADDR",
    "MASTER_PORT",
)
RANK_LOGS = 512
"""The most ranks that each get a log file of their own, unless the job or the settings name another number."""


def launcher_of(case: Case, layout: Layout, decisions: Decisions) -> str:
    """Return the launcher's name; what it cannot do here becomes a fault. One rank without a scheduler needs none."""
    site, request = case.site, case.request
    alone = not site.scheduler_row.has_queue and layout.world_size == 1 and request.hosts_file is None
    known, usual = site.launchers, site.scheduler_row.usual_launcher
    launcher = decisions.pick(
        "launcher",
        ("--launcher", request.launcher),
        ("one worker needs none", NO_LAUNCHER if request.search and layout.nodes == 1 else None),
        ("workers of a search", usual if request.search else None),
        ("job", case.job.launcher),
        case.settings.offer("launcher", site.name),
        ("one rank needs none", NO_LAUNCHER if alone else None),
        _default_launcher(case, layout),
        ("not verified", usual),
    )
    launcher = launcher or usual
    offered = [*known.options] if known else [usual]
    if not is_offered(site, launcher, offered):
        decisions.fault(
            f"{site.name} has no launcher {launcher!r}",
            allowed=", ".join(offered),
            next="leave --launcher out to use the site's default",
            subject="MPI",
        )
    if launcher not in LAUNCHERS:
        return offered[0]
    _check_launcher(case, launcher, layout, decisions)
    return launcher


def _default_launcher(case: Case, layout: Layout) -> tuple[str, str | None]:
    """Return (origin, launcher): the site's default, or the first under which the ranks can find each other.

    It must also reach all nodes, if these are of several types.
    """
    origin, known = f"site {case.site.name}", case.site.launchers
    if known is None:
        return origin, None
    framework = stated_framework(case)[1]
    fit = [name for name in (known.default, *known.options) if refusal_of(case, name, framework) is None]
    if layout.further:
        fit = [name for name in fit if not LAUNCHERS[name].one_node_type]
    if not fit or fit[0] == known.default:
        return origin, known.default
    program = "Horovod" if uses_horovod(case) else framework
    return f"{origin}, for {'several node types' if layout.further else program}", fit[0]


def is_offered(site: Site, launcher: str, offered: Sequence[str]) -> bool:
    """Whether a site that offers these launchers has this one, itself or through the launcher that starts it."""
    row = LAUNCHERS.get(launcher)
    return launcher in offered or (
        row is not None and (row.everywhere or row.started_by.get(site.scheduler) in offered)
    )


def _check_launcher(case: Case, launcher: str, layout: Layout, decisions: Decisions) -> None:
    """Note a fault or a warning for everything that the launcher cannot do at this site."""
    site, row = case.site, LAUNCHERS[launcher]
    options = _options(site, launcher)
    if options.warn:
        decisions.warnings.append(f"{launcher} at {site.name}: {options.warn}")
    _check_reach(site, launcher, layout, decisions)
    if not row.is_step:
        _check_signals(case, launcher, decisions)
    if row.places_ranks and case.request.cpus_per_task is not None:
        decisions.warnings.append(f"{launcher} binds ranks to CPUs itself: --cpus-per-task only sets OMP_NUM_THREADS")
    if row.command_is_text and not re.fullmatch(_PLAIN_PATH, case.context.run_dir):
        decisions.fault(
            f"the run directory {case.context.run_dir!r} contains a character that {launcher}'s shell would interpret",
            allowed="letters, digits and _ . / + - = : , @ %",
            next="choose another with --runs-dir",
            subject="shared paths",
        )


def _options(site: Site, launcher: str) -> LauncherOptions:
    known = site.launchers.options if site.launchers else {}
    return known.get(launcher, LauncherOptions())


def _check_reach(site: Site, launcher: str, layout: Layout, decisions: Decisions) -> None:
    row, scheduler = LAUNCHERS[launcher], site.scheduler_row
    if row.starts_one_rank and layout.world_size > 1:
        what = f"launcher {launcher!r} starts only one rank, but {layout.world_size} are requested"
        decisions.fault(what, subject="MPI")
    several = layout.nodes > 1 and scheduler.has_queue
    if row.over_ssh and several and not _options(site, launcher).ssh:
        offered = site.launchers.options if site.launchers else (scheduler.usual_launcher,)
        others = [name for name in offered if name != launcher]
        decisions.fault(
            f"{launcher} needs ssh between nodes, which {site.name} is not known to offer, so it can use one node only",
            next=f"--launcher {others[0]}" if others else "--nodes 1",
            subject="MPI",
        )
    if layout.further and row.one_node_type:
        reaching = [name for name, other in LAUNCHERS.items() if not other.one_node_type and other.scheduler]
        decisions.fault(
            f"{launcher} cannot start the ranks of several node types: {row.one_node_type}",
            next=f"--launcher {reaching[0]}",
            subject="MPI",
        )
    if row.scheduler not in ("", site.scheduler):
        needed = SCHEDULERS[row.scheduler].title
        decisions.fault(f"{launcher} needs a {needed} site", next="choose one of: hpclaunch sites list", subject="MPI")
    if row.started_by and site.scheduler not in row.started_by:
        starters = " or ".join(row.started_by.values())
        decisions.fault(f"{launcher} is started on every node by {starters}, which {site.name} has not", subject="MPI")


def check_software_has(case: Case, launcher: str, framework: str, decisions: Decisions) -> None:
    """Refuse a launcher that the site's own software for a framework does not bring."""
    site = case.site
    if framework in _options(site, launcher).missing_in:
        other = LAUNCHERS[launcher].started_by.get(site.scheduler) or site.scheduler_row.usual_launcher
        decisions.fault(
            f"the software of {site.name} for {framework} has no {launcher}",
            where="--launcher",
            next=f"--launcher {other}; or --venv, --conda or --module with software that has it",
            subject="MPI",
        )


def _check_signals(case: Case, launcher: str, decisions: Decisions) -> None:
    """Refuse a signal that would miss ranks.

    Slurm sends it to the steps of a job. Under mpirun the ranks of the first node are children of the script, and so
    belong to no step.
    """
    own, beginnings = case.settings.all("sbatch", case.site.name), case.site.scheduler_row.script_signals
    to_the_script = tuple(f"--signal={beginning}" for beginning in beginnings)
    for option in (*case.site.sbatch, *own, *case.job.sbatch, *case.request.sbatch):
        if option.startswith("--signal=") and not option.startswith(to_the_script):
            decisions.fault(
                f"under {launcher}, {option} would miss the ranks on the first node, which belong to no Slurm step",
                next=f"use {to_the_script[0]}… instead: the script receives the signal and passes it on to every rank",
            )


def fills_node(node: NodeType, layout: Layout) -> bool:
    """Whether the layout has all GPUs and the default task count of a node.

    Only then can a fixed order of GPUs or a CPU mask be used: with two GPUs allocated, CUDA_VISIBLE_DEVICES=3,2,1,0
    would hide both.
    """
    gpus = layout.gpus_per_node == node.gpus_per_node
    return gpus and layout.tasks_per_node == node.tasks and bool(node.gpus_per_node)


def rank_identity_of(layout: Layout, launcher: str) -> tuple[str, ...]:
    """Return bash's expressions for a rank's number, and for its place where the launcher tells it; none for one rank.

    The number on the node and that of the node follow from the rank's number: ranks are placed node by node.
    """
    row = LAUNCHERS[launcher]
    return tuple(text for text in (row.rank_number, *row.place_of_rank) if text) if layout.world_size > 1 else ()


def rank_setup_of(case: Case, sizing: Sizing, launcher: str, view: str, chosen: dict[str, str]) -> tuple[str, ...]:
    """Return the lines that every rank runs first; they set no variable that site, settings or job have ``chosen``.

    ``view``: what a rank sees of its node's GPUs (resolve.ranks.gpu_view). What differs between the components of a
    heterogeneous job is set by component.
    """
    if not sizing.further:
        return gpu_lines_of(case, sizing, launcher, view, chosen)
    common = _own_variables(sizing.layout, chosen)  # the script exports them for all ranks
    cases: list[str] = []
    for number, one in enumerate(sizing.components):
        variables = _difference(_own_variables(one.layout, chosen), common)
        own = (*variables, *gpu_lines_of(case, one, launcher, view, chosen))
        if own:
            cases += [f"  {number})", *(f"    {line}" for line in own), "    ;;"]
    return ("case $HPCLAUNCH_COMPONENT in", *cases, "esac")


def _difference(lines: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(line for line in lines if line not in others)


def _own_variables(layout: Layout, chosen: dict[str, str]) -> tuple[str, ...]:
    """Return the lines for those of the script's variables that depend on the node type, unless they are chosen."""
    has_gpus = layout.gpus_per_node > 0 and not layout.stand_in_gpus
    values = {"OMP_NUM_THREADS": layout.cores_per_task, "HPCLAUNCH_EXPECT_GPU": int(has_gpus)}
    return tuple(f"export {name}={value}" for name, value in values.items() if name not in chosen)


def python_path_of(case: Case) -> tuple[str, ...]:
    """Return the line with which a script that is not copied finds hpclaunch.training: in the run directory."""
    code = shlex.quote(f"{case.context.run_dir}/code")
    return (f'export PYTHONPATH={code}"${{PYTHONPATH:+:$PYTHONPATH}}"',) if case.job.script_in_place else ()


def rank_number_of(case: Case, launcher: str, layout: Layout, decisions: Decisions) -> str:
    """Return bash's expression for a rank's number; empty where ranks get no log of their own.

    A single rank writes to the job's log. Above the limit, the log files would burden a shared file system.
    """
    most = decisions.pick(
        "rank logs",
        ("job", case.job.rank_logs),
        case.settings.offer("rank_logs", case.site.name),
        ("default", RANK_LOGS),
    )
    return LAUNCHERS[launcher].rank_number if 1 < layout.world_size <= (most or 0) else ""


def launch_of(
    case: Case, sizing: Sizing, launcher: str, view: str, container: ContainerCommand, names: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the launcher's argv; ``names`` are the variables that the script exports."""
    site, layout, row = case.site, sizing.layout, LAUNCHERS[launcher]
    starter = row.started_by.get(site.scheduler, "")
    options = _options(site, starter or launcher)
    own_transport = any(name in ("OMPI_MCA_btl", "OMPI_MCA_pml") for name in names)
    launch = Launch(
        layout=layout,
        exported=("PATH", "LD_LIBRARY_PATH", *_BY_THE_SCRIPT, *names),
        mpi=(row.without_mpi if case.request.search else "") or _mpi_of(site, options, container),
        cpu_bind=_cpu_bind_of(case.node(sizing.node_type), layout, options),
        gpu_bind=gpu_bind_of(case, sizing.node_type, layout, view, options),
        gpus_by=_gpus_by(case, sizing, view),
        extra=(*container.step_options, *options.extra, *(row.independent if case.request.search else ())),
        tcp=bool(layout.gpus_per_node) and not own_transport,
        exit_wait=0 if case.request.search else case.job.resources.exit_wait,
        hosts_file=_hosts_file_of(case, layout, row),
        address_suffix=site.address_suffix or "",
        started_by=starter,
        inside=container.prefix if row.is_in_image else (),
    )
    further = (
        replace(
            launch,
            layout=one.layout,
            cpu_bind=_cpu_bind_of(case.node(one.node_type), one.layout, options),
            gpu_bind=gpu_bind_of(case, one.node_type, one.layout, view, options),
        )
        for one in sizing.further
    )
    return row.argv(replace(launch, further=tuple(further)))


def _gpus_by(case: Case, sizing: Sizing, view: str) -> str:
    """Return the option with which srun asks for GPUs again, as the site has it; empty if it need not."""
    typed = (case.site.gpus.srun if case.site.gpus else None) or ""
    return "gpus-per-node" if typed and undoes_binding(case, sizing, view) else typed


def _mpi_of(site: Site, options: LauncherOptions, container: ContainerCommand) -> str:
    """Return the type of MPI: inside a container the one that it speaks."""
    inside = container.prefix or container.step_options
    contained = site.container.mpi if site.container and inside else None
    return contained or options.mpi or ""


def _cpu_bind_of(node: NodeType, layout: Layout, options: LauncherOptions) -> str:
    """Return how CPUs are bound: a node's own list of masks fits only a job that fills whole nodes."""
    own = node.whole_node.cpu_bind if layout.whole_nodes and fills_node(node, layout) else None
    return own or options.cpu_bind or ""


def _hosts_file_of(case: Case, layout: Layout, row: LauncherRow) -> str:
    """Return the list of hosts that a launcher over ssh needs: typed, or written by the script."""
    given = case.request.hosts_file is not None
    return f"{case.context.run_dir}/hosts" if given or _needs_host_list(case, layout, row) else ""


def _needs_host_list(case: Case, layout: Layout, row: LauncherRow) -> bool:
    """Whether the script must write the list of hosts, because only the job knows which nodes it has."""
    return row.over_ssh and case.site.scheduler_row.has_queue and layout.nodes > 1


def before_launch_of(case: Case, layout: Layout, launcher: str, strategy: str) -> tuple[str, ...]:
    """Return the calls of the script's library before the launch, for what only the job knows about its hosts."""
    row, tasks = LAUNCHERS[launcher], layout.tasks_per_node
    calls = [f"set_workers {tasks}"] if needs_workers(strategy, layout) else []
    first = "" if case.site.scheduler_row.has_queue else f" {shlex.quote((*case.context.hosts, 'localhost')[0])}"
    calls += [f"set_rendezvous{first}"] if row.has_rendezvous else []
    calls += [f"list_hosts {tasks}"] if _needs_host_list(case, layout, row) else []
    return tuple(calls)
