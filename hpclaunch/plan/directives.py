"""The #SBATCH lines: only what user, job or site asked for, each once, and none that typed text could add."""

from __future__ import annotations

import re

from hpclaunch.job import Job
from hpclaunch.plan.ledger import Ledger
from hpclaunch.plan.placement import Placement
from hpclaunch.site import NodeType, Site
from hpclaunch.spec import Layout, Pairs, Request, Surroundings
from hpclaunch.units import CONTROL, format_memory, format_walltime

_OPTION = re.compile(r"--([a-z][a-z0-9-]*)(?:=(.*))?", re.DOTALL)

OWNED = {
    "account": "--account",
    "array": "",
    "chdir": "--runs-dir",
    "cpus-per-task": "--cpus-per-task",
    "error": "--runs-dir",
    "export": "'environment: variables:' in the job file",
    "export-file": "'environment: variables:' in the job file",
    "gpus-per-node": "--gpus-per-node",
    "input": "",
    "job-name": "",
    "nodes": "--nodes",
    "ntasks": "--nodes and --tasks-per-node",
    "ntasks-per-node": "--tasks-per-node",
    "open-mode": "",
    "output": "--runs-dir",
    "parsable": "--json",
    "partition": "--partition",
    "qos": "--qos",
    "test-only": "--dry-run",
    "time": "--walltime",
    "wait": "--wait",
    "wrap": "-- ARGS",
}
"""sbatch options that hpclaunch writes or relies on, and its own way to say the same (empty: there is none)."""


def directives_of(
    site: Site,
    node: NodeType,
    job: Job,
    request: Request,
    layout: Layout,
    placement: Placement,
    around: Surroundings,
    ledger: Ledger,
) -> Pairs:
    """Return (option, value) pairs in the order of the script; an option without a value has an empty one."""
    extra = [*_passed_on(site.sbatch, "site", ledger), *_passed_on(job.sbatch, "job", ledger)]
    extra += _passed_on(request.sbatch, "--sbatch", ledger)
    pairs = [*_resources(node, job, layout, placement), *_conduct(around)]
    typed = dict(extra)
    replaced = {"requeue": "no-requeue", "no-requeue": "requeue"}
    dropped = {*typed, *(replaced[name] for name in typed if name in replaced), *site.omit}
    kept = [(name, value) for name, value in pairs if name not in dropped]
    return (*kept, *typed.items())


def _resources(node: NodeType, job: Job, layout: Layout, placement: Placement) -> list[tuple[str, str]]:
    pairs = [
        ("job-name", job.name),
        ("account", placement.account),
        ("partition", placement.partition),
        ("qos", placement.qos),
        ("constraint", node.constraint or ""),
        ("nodes", str(layout.nodes)),
        ("ntasks-per-node", str(layout.tasks_per_node)),
        ("cpus-per-task", str(layout.cpus_per_task)),
        ("gpus-per-node", str(layout.gpus_per_node or "")),
        ("mem", format_memory(job.resources.memory) if job.resources.memory else ""),
        ("time", format_walltime(placement.walltime) if placement.walltime else ""),
    ]
    return [(name, value) for name, value in pairs if value]


def _conduct(around: Surroundings) -> list[tuple[str, str]]:
    """How the job behaves. A % in a path of logs is a pattern, also in what Slurm 22.05 would add from --chdir."""
    return [
        ("chdir", around.run_dir),
        ("output", f"{around.run_dir.replace('%', '%%')}/logs/slurm-%j.out"),
        ("open-mode", "append"),
        ("no-requeue", ""),
        ("export", "NONE"),
    ]


def _shortened(name: str) -> str:
    """Return the option that sbatch would take this for, if it is one that planning must know (getopt_long)."""
    if name in OWNED or name in ("signal", "gpus"):
        return ""
    return next((full for full in (*OWNED, "signal") if full.startswith(name)), "")


def _passed_on(options: tuple[str, ...], where: str, ledger: Ledger) -> list[tuple[str, str]]:
    pairs = []
    for option in options:
        match = _OPTION.fullmatch(option.strip())
        if match is None or CONTROL.search(option):
            ledger.fault(
                f"{option!r} is not one sbatch option", where=where, allowed="the long form, --name or --name=value"
            )
        elif _shortened(match[1]):
            full = _shortened(match[1])
            ledger.fault(f"--{match[1]} is short for --{full}", where=where, next="write sbatch options in full")
        elif match[1] in OWNED:
            own = OWNED[match[1]]
            ledger.fault(
                f"--{match[1]} belongs to hpclaunch",
                where=where,
                next=f"use {own} instead" if own else "leave it out: hpclaunch writes it itself",
            )
        else:
            pairs.append((match[1], match[2] or ""))
    return pairs
