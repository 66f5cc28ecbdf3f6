"""Account, partition, QOS and walltime: who chose them, and whether the site's limits admit them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpclaunch.catalog import did_you_mean
from hpclaunch.job import Job
from hpclaunch.plan.ledger import Ledger
from hpclaunch.settings import Settings, sbatch_variables
from hpclaunch.site import Limits, NodeType, Site
from hpclaunch.spec import Layout, Request, Surroundings
from hpclaunch.units import format_walltime

_NAME = re.compile(r"[A-Za-z0-9_.,:@+=&|*()\[\]-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the run goes; empty text and a walltime of 0 mean "not said, so the scheduler's own default"."""

    account: str
    partition: str
    qos: str
    walltime: int


def placement_of(
    site: Site,
    kind: str,
    layout: Layout,
    job: Job,
    request: Request,
    settings: Settings,
    around: Surroundings,
    ledger: Ledger,
) -> Placement:
    """Return the placement; every limit that the request breaks is a fault."""
    node = site.node_types[kind]
    if site.scheduler != "slurm":
        _refuse_slurm_words(site, request, ledger)
        return Placement(account="", partition="", qos="", walltime=_walltime(site, job, request, ledger))
    named = {key: _named(key, site, node, request, settings, around, ledger) for key in ("account", "partition", "qos")}
    placement = Placement(**named, walltime=_walltime(site, job, request, ledger))
    for key in site.required:
        if not getattr(placement, key):
            ledger.fault(
                f"{site.name} needs {key} to be said",
                next=f"--{key}, or '{key}: …' in the settings file ({SETTINGS_HINT})",
            )
    _check_family("partition", placement.partition, site.partitions, site, kind, layout, placement, ledger)
    _check_family("qos", placement.qos, site.qos, site, kind, layout, placement, ledger)
    return placement


SETTINGS_HINT = "~/.config/hpclaunch/settings.yaml"


def _named(
    key: str,
    site: Site,
    node: NodeType,
    request: Request,
    settings: Settings,
    around: Surroundings,
    ledger: Ledger,
) -> str:
    variable, from_shell = sbatch_variables(around.environment).get(key, ("", None))
    value = ledger.pick(
        key,
        (f"--{key}", getattr(request, key)),
        (variable, from_shell),
        ("settings", settings.value(key, site.name)),
        (f"node type of {site.name}", node.partition if key == "partition" else None),
        (f"site {site.name}", getattr(site.defaults, key)),
    )
    if value and not _NAME.fullmatch(value):
        ledger.fault(f"{key} {value!r} holds a character that no Slurm {key} has", where=f"--{key}")
    return value or ""


def _walltime(site: Site, job: Job, request: Request, ledger: Ledger) -> int:
    seconds = ledger.pick(
        "walltime",
        ("--walltime", request.walltime),
        ("job", job.resources.walltime),
        (f"site {site.name}", site.defaults.walltime),
    )
    return seconds or 0


def _refuse_slurm_words(site: Site, request: Request, ledger: Ledger) -> None:
    typed = [key for key in ("account", "partition", "qos") if getattr(request, key)]
    typed += ["sbatch"] if request.sbatch else []
    for key in typed:
        ledger.fault(
            f"--{key} means nothing at {site.name}, which has no scheduler",
            next=f"leave --{key} out, or name a Slurm site (hpclaunch sites list)",
        )


def _check_family(
    family: str,
    name: str,
    known: dict[str, Limits],
    site: Site,
    kind: str,
    layout: Layout,
    placement: Placement,
    ledger: Ledger,
) -> None:
    if not name or not known:
        return
    if name not in known:
        near = did_you_mean(name, known)
        ledger.fault(f"{site.name} has no {family} {name!r}{near}", allowed=", ".join(known))
        return
    for reason in breaches(known[name], kind, layout.nodes, placement.walltime):
        fitting = [
            other for other, limits in known.items() if not breaches(limits, kind, layout.nodes, placement.walltime)
        ]
        ledger.fault(
            reason,
            where=f"{site.name} {family} {name}",
            next=f"--{family} {fitting[0]} would take it" if fitting else "ask for less",
        )


def breaches(limits: Limits, kind: str, nodes: int, walltime: int) -> list[str]:
    """Return the reasons for which these limits refuse so many nodes of that type for so long (seconds)."""
    reasons = []
    if limits.node_types and kind not in limits.node_types:
        reasons.append(f"node type {kind} asked for; allowed: {', '.join(limits.node_types)}")
    if limits.max_nodes is not None and nodes > limits.max_nodes:
        reasons.append(f"{nodes} nodes asked for; allowed: at most {limits.max_nodes} nodes")
    if limits.max_walltime is not None and walltime > limits.max_walltime:
        allowed = format_walltime(limits.max_walltime)
        reasons.append(f"walltime {format_walltime(walltime)} asked for; allowed: at most {allowed}")
    return reasons
