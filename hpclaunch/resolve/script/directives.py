"""The #SBATCH lines: only what user, job or site requested, each option once; typed text cannot add a line."""

from __future__ import annotations

import re

from hpclaunch.config.site import NodeType, Site
from hpclaunch.core.runtime_rows import ContainerCommand
from hpclaunch.core.spec import Layout, Pairs, Sweep
from hpclaunch.core.spec_parts import Asked
from hpclaunch.core.units import CONTROL, format_memory, format_walltime
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.software import Software
from hpclaunch.resolve.nodes.placement import Placement
from hpclaunch.resolve.nodes.sizing import Sizing
from hpclaunch.resolve.script.asked import memory_of
from hpclaunch.resolve.script.clusters import names_clusters
from hpclaunch.resolve.script.parts import Parts

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


def directives_of(case: Case, parts: Parts, asked: Asked, container: ContainerCommand, decisions: Decisions) -> Pairs:
    """Return (option, value) pairs in the order of the script; an option without a value has an empty one."""
    site, sizing = case.site, parts.sizing
    layout, placement = sizing.layout, sizing.placement
    node = case.node(sizing.node_type)
    typed = _typed_options(case, placement, parts.software, decisions)
    memory = format_memory(asked.memory) if asked.memory else ""
    pairs = [*_place(asked, placement), *_tasks(site, layout), *_gpus(site, node, layout)]
    pairs += [("mem", memory), ("time", format_walltime(placement.walltime) if placement.walltime else "")]
    pairs = [(name, value) for name, value in pairs if value]
    waiting = _wait_options(case, asked, typed, decisions)
    pairs += [*_conduct(case, asked, parts, waiting), *_mail(asked), *container.directives]
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
    memory = memory_of(case, sizing, decisions)
    pairs += [("mem", format_memory(memory) if memory else ""), *container.directives]
    dropped = {*typed, *(_REPLACED[name] for name in typed if name in _REPLACED)}
    kept = [(name, value) for name, value in pairs if value and name not in dropped]
    own = [(name, value) for name, value in typed.items() if name != "signal"]
    return [(case.site.scheduler_row.component_directive, ""), *kept, *own]


def _typed_options(case: Case, placement: Placement, software: Software, decisions: Decisions) -> dict[str, str]:
    """Return the sbatch options that site, software, settings, job and request add: each overrides the last."""
    levels = _added_options(case, placement, software)
    return dict(pair for where, options in levels for pair in _read_options(options, where, decisions))


def _added_options(case: Case, placement: Placement, software: Software) -> list[tuple[str, tuple[str, ...]]]:
    """Return (who adds them, the sbatch options), lowest precedence first."""
    places = tuple(option for limits in placement.limits for option in limits.sbatch)
    return [
        ("site", case.site.sbatch + places),
        ("environment", software.sbatch),
        ("settings", case.settings.all("sbatch", case.site.name)),
        ("job", case.job.sbatch),
        ("--sbatch", case.request.sbatch),
    ]


def refuse_options(case: Case, parts: Parts, container: ContainerCommand, decisions: Decisions) -> None:
    """Note a fault for every option of sbatch: the scripts of this site's scheduler have none."""
    for where, options in _added_options(case, parts.sizing.placement, parts.software):
        for option in options:
            what = f"{option!r} is an option of sbatch, and {case.site.name} has {case.site.scheduler_row.title}"
            decisions.fault(what, where=where, next="leave it out")
    for name, _ in container.directives:
        decisions.fault(f"this container needs the directive {name!r}, which only sbatch reads", where="container")


def _place(asked: Asked, placement: Placement) -> list[tuple[str, str]]:
    return [
        ("job-name", asked.name),
        ("account", placement.account),
        ("partition", placement.partition),
        ("qos", placement.qos),
        ("constraint", asked.features),
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


def _mail(asked: Asked) -> list[tuple[str, str]]:
    return [("mail-user", asked.mail_to), ("mail-type", ",".join(asked.mail_events))] if asked.mail_to else []


def _wait_options(case: Case, asked: Asked, typed: dict[str, str], decisions: Decisions) -> list[tuple[str, str]]:
    """Return the directives with which the job waits for others. If one of them fails, the job is cancelled.

    Else it would stay in the queue for ever, as it does at a site that does not want the option.
    """
    row = case.site.scheduler_row
    words = row.wait_words(asked.after_success, asked.after_end, same_name=asked.after_same_name)
    name, _, value = words.removeprefix("--").partition("=")
    if name in typed:
        what = "the job would wait for two things, but a script has one such line"
        decisions.fault(
            what, where=f"--sbatch --{name}", next=f"leave out --sbatch --{name}, or --after and --after-any"
        )
    if not name:
        return []
    if value == row.wait_same_name:
        return [(name, value)]  # it cannot fail
    if case.site.kill_on_invalid_dep:
        return [(name, value), ("kill-on-invalid-dep", "yes")]
    decisions.warnings.append(
        f"if what it waits for fails, the job stays in the queue (DependencyNeverSatisfied) until you cancel it: "
        f"{case.site.name} wants no --kill-on-invalid-dep"
    )
    return [(name, value)]


def _conduct(case: Case, asked: Asked, parts: Parts, waiting: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the directives of folders, logs, waiting, requeueing, signal and environment.

    The scheduler may requeue a job after a node failure or preemption only if the program continues from its
    checkpoints. The signal goes to the script, which passes it on: no other way reaches the ranks under every launcher.
    """
    run_dir, row, restarts, sweep = case.context.run_dir, case.site.scheduler_row, parts.restarts, parts.sweep
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
