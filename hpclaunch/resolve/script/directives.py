"""The #SBATCH lines: only what user, job or site requested, each option once; typed text cannot add a line."""

from __future__ import annotations

import re

from hpclaunch.config.site import NodeType, Site
from hpclaunch.core.runtime_rows import ContainerCommand
from hpclaunch.core.spec import Layout, Pairs, Restarts, Sweep
from hpclaunch.core.units import CONTROL, format_memory, format_walltime
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.software import Software
from hpclaunch.resolve.nodes.placement import Placement
from hpclaunch.resolve.nodes.sizing import Sizing
from hpclaunch.resolve.script.clusters import names_clusters
from hpclaunch.resolve.script.parts import Parts
from hpclaunch.resolve.script.waiting import wait_option_of

_OPTION = r"(?s)--([a-z][a-z0-9-]*)(?:=(.*))?"

OWNED = {
    "account": "--account",
    "array": "--sweep and --at-once",
    "chdir": "--runs-dir",
    "cpus-per-task": "--cpus-per-task",
    "error": "--runs-dir",
    "export": "'environment: variables:' in the job file",
    "export-file": "'environment: variables:' in the job file",
    "gpus": "--gpus-per-node",
    "gpus-per-node": "--gpus-per-node",
    "gpus-per-task": "--gpus-per-node",
    "input": "",
    "job-name": "--name",
    "mem": "--memory",
    "nodes": "--nodes",
    "ntasks": "--nodes and --tasks-per-node",
    "ntasks-per-node": "--tasks-per-node",
    "open-mode": "",
    "output": "--runs-dir",
    "parsable": "--json",
    "partition": "--partition",
    "qos": "--qos",
    "test-only": "--test-only",
    "time": "--walltime",
    "wait": "--wait",
    "wrap": "-- ARGS",
}
"""sbatch options that hpclaunch writes or relies on, and the flag or key that sets each (empty: there is none)."""

_REPLACED = {"requeue": "no-requeue", "no-requeue": "requeue", "mem-per-cpu": "mem", "mem-per-gpu": "mem"}
"""sbatch options that a site, a job or a request adds -> the option in whose place they stand."""
_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
EXCLUDED = {
    "cpus-per-gpu": "cpus-per-task",
    "ntasks-per-gpu": "ntasks-per-node",
}
"""sbatch options that sbatch refuses beside another one, which hpclaunch always writes (seen with Slurm 22.05)."""


def directives_of(case: Case, parts: Parts, container: ContainerCommand, decisions: Decisions) -> Pairs:
    """Return (option, value) pairs in the order of the script; an option without a value has an empty one."""
    site, sizing = case.site, parts.sizing
    layout, placement = sizing.layout, sizing.placement
    node = case.node(sizing.node_type)
    typed = _typed_options(case, placement, parts.software, decisions)
    memory = _memory(case, sizing, decisions)
    pairs = [*_place(node, case.run_name, placement), *_tasks(site, layout), *_gpus(site, node, layout)]
    pairs += [("mem", memory), ("time", format_walltime(placement.walltime) if placement.walltime else "")]
    pairs = [(name, value) for name, value in pairs if value]
    waiting = _wait_options(case, parts.clusters, typed, decisions)
    pairs += [*_conduct(case, parts.restarts, parts.sweep, waiting), *_mail(case), *container.directives]
    dropped = {*typed, *(_REPLACED[name] for name in typed if name in _REPLACED)}
    kept = [(name, value) for name, value in pairs if name not in dropped]
    for name in dict([*kept, *typed.items()]):
        if f"--{name}" in site.refuses:
            what = f"{site.name} accepts no job with --{name}"
            decisions.fault(what, next=f"leave {OWNED.get(name) or f'--{name}'} out")
    ways = [*(["--memory"] if case.request.memory else []), *(f"--{name}" for name in typed if name in _MEMORY)]
    if len(ways) > 1:
        what = f"{ways[0]} and {ways[1]} ask for memory in two ways, which exclude each other"
        decisions.fault(what, where="--sbatch", next="leave one of them out")
    further = (
        pair for one in sizing.further for pair in _further_directives(case, one, parts.software, container, decisions)
    )
    return (*kept, *typed.items(), *further)


def _further_directives(
    case: Case, sizing: Sizing, software: Software, container: ContainerCommand, decisions: Decisions
) -> list[tuple[str, str]]:
    """Return the separator and the directives of a further component.

    Slurm takes job name, account, walltime, log, waiting, requeueing and environment from the first one.
    """
    node, placement = case.node(sizing.node_type), sizing.placement
    typed = _typed_options(case, placement, software, Decisions())  # their faults are those of the first component
    pairs = [("partition", placement.partition), ("qos", placement.qos), ("constraint", node.constraint or "")]
    pairs += [*_tasks(case.site, sizing.layout), *_gpus(case.site, node, sizing.layout)]
    pairs += [("mem", _memory(case, sizing, decisions)), *container.directives]
    dropped = {*typed, *(_REPLACED[name] for name in typed if name in _REPLACED)}
    kept = [(name, value) for name, value in pairs if value and name not in dropped]
    own = [(name, value) for name, value in typed.items() if name != "signal"]
    return [(case.site.scheduler_row.component_directive, ""), *kept, *own]


def _typed_options(case: Case, placement: Placement, software: Software, decisions: Decisions) -> dict[str, str]:
    """Return the sbatch options that site, software, settings, job and request add: each overrides the last."""
    site, places = case.site, tuple(option for limits in placement.limits for option in limits.sbatch)
    options = _read_options(site.sbatch + places, "site", decisions)
    options += _read_options(software.sbatch, "environment", decisions)
    options += _read_options(case.settings.all("sbatch", site.name), "settings", decisions)
    options += _read_options(case.job.sbatch, "job", decisions)
    options += _read_options(case.request.sbatch, "--sbatch", decisions)
    return dict(options)


def _place(node: NodeType, run_name: str, placement: Placement) -> list[tuple[str, str]]:
    return [
        ("job-name", run_name),
        ("account", placement.account),
        ("partition", placement.partition),
        ("qos", placement.qos),
        ("constraint", node.constraint or ""),
    ]


def _tasks(site: Site, layout: Layout) -> list[tuple[str, str]]:
    """Return the directives of nodes and tasks, as far as the site admits them (ARCHER2 rejects those of tasks)."""
    numbers = {
        "ntasks": layout.ranks,
        "ntasks-per-node": layout.tasks_per_node,
        "cpus-per-task": layout.cpus_per_task,
    }
    admitted = [(name, str(number)) for name, number in numbers.items() if name in site.task_directives]
    return [("nodes", str(layout.nodes)), *admitted]


def _gpus(site: Site, node: NodeType, layout: Layout) -> list[tuple[str, str]]:
    """Return the directives that request GPUs in the way of the site.

    ``--gpus`` is the job's total. Slurm may spread it unevenly over nodes that are requested in part, so there
    ``--gpus-per-node`` is added.
    """
    gpus, of_type = layout.gpus_per_node, f"{node.gpu_type}:" if node.gpu_type else ""
    directive = site.gpus.directive if site.gpus else "gpus-per-node"
    if gpus and node.gpu_shards:
        return [("gres", f"shard:{of_type}1")]
    if not gpus or directive == "none":
        return []
    values = {
        "gpus-per-node": f"{of_type}{gpus}",
        "gpus-per-task": f"{of_type}{gpus // layout.tasks_per_node}",
        "gpus": f"{of_type}{gpus * layout.nodes}",
        "gres": f"gpu:{of_type}{gpus}",
    }
    evenly = directive == "gpus" and layout.nodes > 1 and gpus < node.gpus_per_node
    return [(name, values[name]) for name in ((directive, "gpus-per-node") if evenly else (directive,))]


def _memory(case: Case, sizing: Sizing, decisions: Decisions) -> str:
    """Return the memory to request per node: the typed one, the job's, or the site's share for the requested GPUs.

    It is empty where none of them names any.
    """
    node, layout, site = case.node(sizing.node_type), sizing.layout, case.site.name
    share = node.request_memory
    if share and not layout.whole_nodes and 0 < layout.gpus_per_node < node.gpus_per_node:
        share = share * layout.gpus_per_node // node.gpus_per_node
    asked = decisions.pick(
        "memory", ("--memory", case.request.memory), ("job", case.job.resources.memory), (f"site {site}", share)
    )
    most = node.request_memory or (node.memory_gb * 1024 if node.memory_gb else None)
    if asked and most and asked > most:
        decisions.fault(
            f"{format_memory(asked)} of memory per node requested",
            where=f"{site} {sizing.node_type}",
            allowed=f"at most {format_memory(most)}",
            next=f"--memory {format_memory(most)}",
        )
    return format_memory(asked) if asked else ""


def _mail(case: Case) -> list[tuple[str, str]]:
    _, mail = case.settings.offer("mail", case.site.name)
    return [("mail-user", mail.to), ("mail-type", ",".join(mail.events))] if mail else []


def _wait_options(case: Case, clusters: str, typed: dict[str, str], decisions: Decisions) -> list[tuple[str, str]]:
    """Return the directives with which the job waits for others. If one of them fails, the job is cancelled.

    Else it would stay in the queue for ever, as it does at a site that does not want the option.
    """
    name, _, value = wait_option_of(case, clusters, decisions).removeprefix("--").partition("=")
    if name in typed:
        what = "the job would wait for two things, but a script has one such line"
        decisions.fault(
            what, where=f"--sbatch --{name}", next=f"leave out --sbatch --{name}, or --after and --after-any"
        )
    if not name:
        return []
    if value == case.site.scheduler_row.wait_same_name:
        return [(name, value)]  # it cannot fail
    if case.site.kill_on_invalid_dep:
        return [(name, value), ("kill-on-invalid-dep", "yes")]
    decisions.warnings.append(
        f"if what it waits for fails, the job stays in the queue (DependencyNeverSatisfied) until you cancel it: "
        f"{case.site.name} wants no --kill-on-invalid-dep"
    )
    return [(name, value)]


def _conduct(
    case: Case, restarts: Restarts, sweep: Sweep | None, waiting: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return the directives of folders, logs, waiting, requeueing, signal and environment.

    The scheduler may requeue a job after a node failure or preemption only if the program continues from its
    checkpoints. The signal goes to the script, which passes it on: no other way reaches the ranks under every launcher.
    """
    run_dir, row = case.context.run_dir, case.site.scheduler_row
    again = "requeue" if restarts.most and restarts.by == "requeue" else "no-requeue"
    signal = [("signal", f"{row.script_signals[0]}{restarts.signal}@{restarts.lead}")] if restarts.most else []
    return [
        *_array(sweep),
        *waiting,
        ("chdir", run_dir),
        ("output", row.log_path(f"{run_dir}/logs", is_array=sweep is not None)),
        ("open-mode", "append"),
        (again, ""),
        *signal,
        *([("export", "NONE")] if case.site.export == "none" else []),
    ]


def _array(sweep: Sweep | None) -> list[tuple[str, str]]:
    """Return the directive of the array's tasks, which count from 0 like the lines of the sweep's file of values."""
    if sweep is None:
        return []
    return [("array", f"0-{sweep.count - 1}" + (f"%{sweep.at_once}" if sweep.at_once else ""))]


def _full_name(name: str) -> str:
    """Return the owned option that sbatch would read from this abbreviation, as getopt_long does, or empty text."""
    if name in OWNED or name == "signal":
        return ""
    return next((full for full in (*OWNED, "clusters", "signal") if full.startswith(name)), "")


def _read_options(options: tuple[str, ...], where: str, decisions: Decisions) -> list[tuple[str, str]]:
    pairs = []
    for option in options:
        match = re.fullmatch(_OPTION, option.strip())
        if match is not None and match[1] == "gres" and "gpu" in (match[2] or ""):
            decisions.fault("hpclaunch writes the request for GPUs", where=where, next="use --gpus-per-node instead")
        elif names_clusters(option):
            continue  # it is no directive: a job that submits its successor would ask for the way to its own cluster
        elif match is None or CONTROL.search(option):
            decisions.fault(
                f"{option!r} is not a single sbatch option",
                where=where,
                allowed="the long form, --name or --name=value",
            )
        elif _full_name(match[1]):
            full = _full_name(match[1])
            decisions.fault(f"--{match[1]} is short for --{full}", where=where, next="write sbatch options in full")
        elif match[1] in EXCLUDED or (match[1], (match[2] or "").partition(":")[0]) == ("tres-per-task", "cpu"):
            own = EXCLUDED.get(match[1], "cpus-per-task")
            what = f"--{match[1]} and --{own}, which hpclaunch writes, exclude each other"
            decisions.fault(what, where=where, next=f"use {OWNED[own]} instead")
        elif match[1] in OWNED:
            own = OWNED[match[1]]
            decisions.fault(
                f"hpclaunch itself writes --{match[1]}",
                where=where,
                next=f"use {own} instead" if own else "leave it out",
            )
        else:
            pairs.append((match[1], match[2] or ""))
    return pairs
