"""What Slurm and this machine report -> a site file: the known values, and the gaps that a person must fill in. Pure.

An unknown value is left out, never guessed: hpclaunch checks nothing for a key that the site file lacks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hpclaunch.config.site import OURS
from hpclaunch.core.units import count, format_walltime, parse_walltime
from hpclaunch.sites.describe.answers import mpi_types, nodes_of, nodes_of_sinfo
from hpclaunch.sites.describe.draft import HERE, PLATFORM, SLURM, Answers, Cluster, Described, Draft, Here
from hpclaunch.sites.describe.hardware import add_gpu_option, add_known_gpus, add_memory_gaps, add_node_types
from hpclaunch.sites.describe.node_types import node_groups_of
from hpclaunch.sites.describe.partitions import Member, Person, home_of, partitions_of, qos_of
from hpclaunch.sites.describe.platforms import platform_of
from hpclaunch.sites.describe.software import (
    add_container,
    add_environment,
    add_folders,
    add_launcher,
    add_launcher_options,
    add_node_environments,
    add_rule_gaps,
)
from hpclaunch.sites.slurm_text import names_in, records, settings, table

_WALLTIME = 30 * 60
"""Default walltime (seconds), as in the bundled site files."""


def describe(answers: Answers, here: Here) -> Described | None:
    """Return the site file of the cluster, or None where Slurm shows no node in any partition."""
    config = settings(answers.config)
    partition_records = records(answers.partitions, "PartitionName")
    fields = {one["PartitionName"]: one for one in partition_records}
    nodes = nodes_of(answers.nodes) or nodes_of_sinfo(answers.sinfo)
    groups = node_groups_of([node for node in nodes if fields.keys() & set(node.partitions)])
    if not groups:
        return None
    name = config.get("ClusterName") or here.known_cluster or "cluster"
    person, qos_rows = _person(answers, here, name), table(answers.qos)
    partitions = partitions_of(partition_records, groups, qos_rows, person, config)
    usual = next((one for one, values in fields.items() if values.get("Default") == "YES"), "")
    homes = {group.name: home_of(group, partitions, usual) for group in groups}
    cluster = Cluster(
        name=name, config=config, partitions=fields, groups=groups, homes=homes, gres_conf=answers.gres_conf
    )
    platform = platform_of(config, here.platform_folders)
    shared = next((one for one in here.platforms if one.platform == platform), None)
    # The order of these steps is that of the keys and of the gaps in the file.
    draft = Draft()
    _add_title(draft, cluster, len(nodes))
    _add_modules(draft, here)
    _add_detection(draft, name, here)
    _add_defaults(draft, cluster, partitions)
    add_node_types(draft, cluster)
    if shared is not None:
        add_known_gpus(draft, cluster, shared)
        add_node_environments(draft, cluster, shared)
    add_memory_gaps(draft, cluster)
    draft.add("partitions", partitions, SLURM)
    qos = qos_of(qos_rows, person, config)
    if qos:
        draft.add("qos", qos, SLURM)
    add_gpu_option(draft, cluster)
    add_launcher(draft, mpi_types(answers.mpi), config.get("MpiDefault", ""), here)
    if shared is not None:
        add_launcher_options(draft, shared)
    add_container(draft, here)
    add_environment(draft, here, shared)
    add_folders(draft, config, shared)
    add_rule_gaps(draft, config)
    values = _values_with_sources(draft, cluster, here, platform)
    return Described(name=_file_name(name), values=values, gaps=tuple(draft.gaps))


def _file_name(cluster: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", cluster).strip("-_")[:64] or "cluster"


def _add_title(draft: Draft, cluster: Cluster, nodes: int) -> None:
    version = cluster.config.get("SLURM_VERSION", "")
    title = f"{cluster.name}, {count(nodes, 'node')}, as Slurm {version} shows it"
    draft.add("title", title.replace("  ", " "), SLURM)
    draft.add("scheduler", SLURM, SLURM)


def _person(answers: Answers, here: Here, cluster: str) -> Person:
    """Return what accounting knows of the user on this cluster: one slurmdbd may serve several clusters."""
    rows = [row for row in table(answers.associations) if row.get("User") == here.user]
    rows = [row for row in rows if _is_same_cluster(row.get("Cluster", cluster), cluster)]
    usual = [row.get("DefQOS", "") for row in rows if row.get("DefQOS")]
    return Person(
        groups=here.groups,
        is_root=here.is_root,
        accounts=frozenset(row["Account"] for row in rows if row.get("Account")),
        qos=frozenset(name for row in rows for name in names_in(row.get("QOS", ""))),
        default_qos=usual[0] if usual else "normal",
    )


def _is_same_cluster(one: str, other: str) -> bool:
    """Whether two names mean one cluster: Slurm may write ClusterName in lower case (manual of slurm.conf)."""
    return one.casefold() == other.casefold()


def _add_modules(draft: Draft, here: Here) -> None:
    if here.module_setup:
        why = f"{here.module_setup} is set here; a job with an empty environment gets modules only from a login shell"
        draft.add("login_shell", True, HERE, why)


def _add_detection(draft: Draft, cluster: str, here: Here) -> None:
    if _is_same_cluster(here.known_cluster, cluster):
        draft.add("detect", {"cluster_name": here.known_cluster}, SLURM)
    elif here.hostname:
        pattern = re.sub(r"\d+", r"\\d+", re.escape(here.hostname))
        draft.add("detect", {"hostname": pattern}, HERE, f"from the host name {here.hostname}")


def _add_defaults(draft: Draft, cluster: Cluster, partitions: Mapping[str, Member]) -> None:
    """Add the defaults: the first node type in a partition that anybody may use, else the first of all."""
    for_anybody = {name for name, limits in partitions.items() if "only_if_asked" not in limits}
    usable = [group for group in cluster.groups if cluster.homes[group.name] in for_anybody]
    usual = usable[0].name if usable else cluster.groups[0].name
    home = cluster.homes[usual]
    longest = parse_walltime(partitions.get(home, {}).get("max_walltime", format_walltime(_WALLTIME)))
    defaults = {"node_type": usual}
    if home:
        defaults["partition"] = home
    defaults["walltime"] = format_walltime(min(_WALLTIME, longest))
    draft.add("defaults", defaults, OURS)


def _values_with_sources(draft: Draft, cluster: Cluster, here: Here, platform: str) -> dict[str, Any]:
    """Return all values in the file's order, with their sources."""
    version = cluster.config.get("SLURM_VERSION", "")
    programs = (
        f"Slurm {version} of {cluster.name}: scontrol show config, partition and node; sinfo; sacctmgr; srun --mpi=list"
    )
    sources = {
        SLURM: {"ref": programs.replace("  ", " "), "read": here.today},
        HERE: {"ref": f"the machine {here.hostname or 'that this file was written on'}", "read": here.today},
        PLATFORM: {"ref": f"hpclaunch sites show {platform}, which has the sources", "read": here.today},
    }
    used = {name for names in draft.origins.values() for name in names}
    values = {
        **draft.values,
        "sources": {name: source for name, source in sources.items() if name in used},
        "origins": draft.origins,
    }
    if draft.derived:
        values["derived"] = draft.derived
    values["unverified"] = {gap.key: gap.why for gap in draft.gaps}
    return values
