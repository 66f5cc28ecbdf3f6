"""What Slurm and this machine report -> a site file: the known values, and the gaps that a person must fill in. Pure.

An unknown value is left out, never guessed: hpclaunch checks nothing for a key that the site file lacks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpclaunch.core.records import record
from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.core.units import count, format_walltime, parse_walltime
from hpclaunch.sites.describe.answers import (
    Fields,
    gpu_files,
    mpi_types,
    names_in,
    nodes_of,
    nodes_of_sinfo,
    numbers,
    records,
    settings,
    table,
)
from hpclaunch.sites.describe.node_types import NodeGroup, node_groups_of
from hpclaunch.sites.describe.partitions import Member, Person, home_of, partitions_of, qos_of

_SLURM = "slurm"
"""The scheduler of the sites that are described here; also the name of the source of its values."""
_WALLTIME = 30 * 60
"""Default walltime (seconds), as in the bundled site files."""


@record
class Answers:
    """The output of Slurm's programs; empty where a program is missing, fails or prints nothing."""

    config: str = ""
    partitions: str = ""
    nodes: str = ""
    sinfo: str = ""
    qos: str = ""
    associations: str = ""
    mpi: str = ""
    gres_conf: str = ""


@record
class Here:
    """What is known of this machine. ``today`` as YYYY-MM-DD.

    ``known_cluster``: the ClusterName that detection reads here. ``python``: the interpreter that runs hpclaunch, if it
    has TensorFlow and Horovod. ``runtimes``: the container runtimes. ``module_setup``: the variable that shows that
    the shell has environment modules.
    """

    user: str
    groups: frozenset[str] = frozenset()
    is_root: bool = False
    hostname: str = ""
    known_cluster: str = ""
    python: str = ""
    runtimes: tuple[str, ...] = ()
    module_setup: str = ""
    today: str = "undated"


@record
class Gap:
    """A key that a person must fill in, why hpclaunch cannot know it, and an example of its value."""

    key: str
    why: str
    example: str = ""


@record
class Described:
    """A site file: its values by key, in the file's order, and its gaps. ``name``: a name for the file."""

    name: str
    values: dict[str, Any]
    gaps: tuple[Gap, ...] = ()


@dataclass(slots=True)
class _Draft:
    """The site file while it is built: its values, the origin of each, and the gaps."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, list[str]] = field(default_factory=dict)
    derived: dict[str, str] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)

    def add(self, key: str, value: Any, source: str, derived: str = "") -> None:
        self.values[key] = value
        self.origins[key] = [source]
        if derived:
            self.derived[key] = derived


def describe(answers: Answers, here: Here) -> Described | None:
    """Return the site file of the cluster, or None where Slurm shows no node in any partition."""
    config = settings(answers.config)
    partition_records = records(answers.partitions, "PartitionName")
    names = {fields["PartitionName"] for fields in partition_records}
    nodes = nodes_of(answers.nodes) or nodes_of_sinfo(answers.sinfo)
    groups = node_groups_of([node for node in nodes if names & set(node.partitions)])
    if not groups:
        return None
    draft = _Draft()
    cluster = config.get("ClusterName") or here.known_cluster or "cluster"
    size, version = count(len(nodes), "node"), config.get("SLURM_VERSION", "")
    draft.add("title", f"{cluster}, {size}, as Slurm {version} shows it".replace("  ", " "), _SLURM)
    draft.add("scheduler", _SLURM, _SLURM)
    _add_modules(draft, here)
    _add_detection(draft, cluster, here)
    person = _person(answers, here, cluster)
    qos_rows = table(answers.qos)
    partitions = partitions_of(partition_records, groups, qos_rows, person, config)
    default = next((fields["PartitionName"] for fields in partition_records if fields.get("Default") == "YES"), "")
    homes = {group.name: home_of(group, partitions, default) for group in groups}
    _add_defaults(draft, groups, homes, partitions)
    partition_fields = {fields["PartitionName"]: fields for fields in partition_records}
    _add_node_types(draft, groups, homes, partition_fields, answers.gres_conf)
    _add_memory_gaps(draft, groups, homes, partition_fields, config)
    draft.add("partitions", partitions, _SLURM)
    qos = qos_of(qos_rows, person, config)
    if qos:
        draft.add("qos", qos, _SLURM)
    _add_gpus(draft, groups, config)
    _add_launcher(draft, mpi_types(answers.mpi), config.get("MpiDefault", ""))
    _add_container(draft, here)
    _add_environment(draft, here)
    _add_folders(draft, config)
    _add_rule_gaps(draft, config)
    return Described(
        name=_file_name(cluster), values=_site_values(draft, cluster, config, here), gaps=tuple(draft.gaps)
    )


def _file_name(cluster: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", cluster).strip("-_")[:64] or "cluster"


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


def _add_modules(draft: _Draft, here: Here) -> None:
    if here.module_setup:
        why = f"{here.module_setup} is set here; a job with an empty environment gets modules only from a login shell"
        draft.add("login_shell", True, "here", why)


def _add_detection(draft: _Draft, cluster: str, here: Here) -> None:
    if _is_same_cluster(here.known_cluster, cluster):
        draft.add("detect", {"cluster_name": here.known_cluster}, _SLURM)
    elif here.hostname:
        pattern = re.sub(r"\d+", r"\\d+", re.escape(here.hostname))
        draft.add("detect", {"hostname": pattern}, "here", f"from the host name {here.hostname}")


def _add_defaults(
    draft: _Draft, groups: Sequence[NodeGroup], homes: Mapping[str, str], partitions: Mapping[str, Member]
) -> None:
    """Add the defaults: the first node type in a partition that anybody may use, else the first of all."""
    for_anybody = {name for name, limits in partitions.items() if "only_if_asked" not in limits}
    usable = [group for group in groups if homes[group.name] in for_anybody]
    usual = (usable or list(groups))[0].name
    home = homes[usual]
    longest = parse_walltime(partitions.get(home, {}).get("max_walltime", format_walltime(_WALLTIME)))
    defaults = {"node_type": usual}
    if home:
        defaults["partition"] = home
    defaults["walltime"] = format_walltime(min(_WALLTIME, longest))
    draft.add("defaults", defaults, "hpclaunch")


def _add_node_types(
    draft: _Draft,
    groups: Sequence[NodeGroup],
    homes: Mapping[str, str],
    partition_fields: Mapping[str, Fields],
    gres_conf: str,
) -> None:
    stand_ins = [file for file in gpu_files(gres_conf) if not file.startswith("/dev/")]
    usual = draft.values["defaults"].get("partition", "")
    members = {}
    for group in groups:
        home = homes[group.name]
        most = numbers([partition_fields.get(home, {}).get("MaxCPUsPerNode", "")])
        partition = home if home != usual else ""  # the usual one stands in the defaults already
        members[group.name] = _node_type_values(group, partition, most[0] if most else 0)
        has_gpus = group.gpu[1] > 0
        if has_gpus and stand_ins:
            members[group.name]["stand_in_gpus"] = True
            draft.derived[f"node_types.{group.name}.stand_in_gpus"] = (
                f"gres.conf names {stand_ins[0]}, which is not a device in /dev"
            )
        elif has_gpus:
            why = "Slurm does not show the model or its memory; the planner needs both, and containers need the maker"
            example = "gpu_model: NVIDIA A100, gpu_memory_gb: 80"
            draft.gaps.append(Gap(key=f"node_types.{group.name}.gpu_model", why=why, example=example))
        if group.mixed:
            draft.derived[f"node_types.{group.name}"] = (
                "the smallest of its nodes; some have more, and no sbatch option can select those"
            )
    draft.add("node_types", members, _SLURM)


def _add_memory_gaps(
    draft: _Draft,
    groups: Sequence[NodeGroup],
    homes: Mapping[str, str],
    partition_fields: Mapping[str, Fields],
    config: Fields,
) -> None:
    """Add a gap where a job without --mem gets only a part of the node's memory (DefMemPer… of slurm.conf)."""
    if "MEMORY" not in config.get("SelectTypeParameters", "").upper():
        return
    for group in groups:
        place = partition_fields.get(homes[group.name], {})
        if group.gpu[1] and "DefMemPerGPU" in place.get("JobDefaults", ""):
            continue  # such a job gets memory with every GPU
        gap = _memory_gap(group, place, config)
        if gap:
            draft.gaps.append(gap)


def _memory_gap(group: NodeGroup, place: Fields, config: Fields) -> Gap | None:
    """Return the gap if the default memory of a whole node's job is below 90 % of the node's, else None."""
    cpus = min(node.usable_cpus for node in group.nodes)
    for key, times in (("DefMemPerCPU", cpus), ("DefMemPerNode", 1)):
        share = next(iter(numbers([place.get(key, ""), config.get(key, "")])), 0)  # the partition's, else the cluster's
        if 0 < share * times < group.memory * 0.9:
            why = f"with {key}={share} a job that asks for no memory gets {share * times} of {group.memory} MB"
            example = f"request_memory: {group.memory}M"
            return Gap(key=f"node_types.{group.name}.request_memory", why=why, example=example)
    return None


def _node_type_values(group: NodeGroup, partition: str, most_cpus: int) -> Member:
    """Return the keys of a node type. ``most_cpus``: CPUs per node that the partition's jobs may use; 0 means all."""
    first, (gpu_type, gpus), per_core = group.nodes[0], group.gpu, group.cpus_per_core
    usable = min(node.usable_cpus // node.cpus_per_core for node in group.nodes)
    if most_cpus:
        usable = min(usable, max(1, most_cpus // per_core))
    what = f"GPU node, {gpus} x {gpu_type or 'GPU'}" if gpus else "CPU node"
    # None where the site file's own default says the same, or where the nodes differ.
    known = {
        "title": f"{what}, {count(group.cores, 'core')}, {max(1, group.memory // 1024)} GB",
        "nodes": len(group.nodes),
        "sockets": first.sockets if len({node.sockets for node in group.nodes}) == 1 else None,
        "cores_per_node": group.cores,
        "usable_cores": usable if 0 < usable < group.cores else None,
        "threads_per_core": group.threads if group.threads > 1 else None,
        "cpus_per_core": per_core if per_core != group.threads else None,
        "memory_gb": max(1, group.memory // 1024),
        "gpus_per_node": gpus or None,
        "gpu_type": gpu_type if group.typed else None,
        "constraint": group.constraint or None,
        "partition": partition or None,
    }
    return {key: value for key, value in known.items() if value is not None}


def _add_gpus(draft: _Draft, groups: Sequence[NodeGroup], config: Mapping[str, str]) -> None:
    """Add the GPU option: ``--gpus-per-node`` needs select/cons_tres (manual of sbatch); ``--gres`` always works."""
    if not any(group.gpu[1] for group in groups):
        return
    select = config.get("SelectType", "")
    directive = "gpus-per-node" if select == "select/cons_tres" else "gres"
    draft.add("gpus", {"directive": directive}, _SLURM, f"SelectType is {select or 'unknown'}")


def _add_launcher(draft: _Draft, types: Sequence[str], default: str) -> None:
    """Add srun's MPI type: MpiDefault, else PMIx (which Open MPI, Horovod's usual MPI, uses), else the only other."""
    # Without the plain name: the newest of pmix_v3, pmix_v4, ...
    pmix = [name for name in types if name == "pmix"] or sorted(name for name in types if name.startswith("pmix"))[-1:]
    others = [name for name in types if name != "none"]
    if default:
        chosen, why = default, "the cluster's MpiDefault"
    elif pmix:
        chosen, why = pmix[0], f"srun --mpi=list shows {', '.join(types)}; no MpiDefault"
    elif len(others) == 1:
        chosen, why = others[0], "srun --mpi=list shows no other type"
    else:
        what = f"srun --mpi=list shows {', '.join(types) or 'nothing'}, and no MpiDefault is set"
        draft.gaps.append(Gap(key="launchers", why=what, example="default: srun, options: {srun: {mpi: pmix}}"))
        return
    launcher = SCHEDULERS[_SLURM].usual_launcher
    draft.add("launchers", {"default": launcher, "options": {launcher: {"mpi": chosen}}}, _SLURM, why)


def _add_container(draft: _Draft, here: Here) -> None:
    found = [name for name in RUNTIMES if name in here.runtimes]
    if found:
        is_option = bool(RUNTIMES[found[0]].step_option)
        why = "srun has its option here" if is_option else f"{found[0]} is installed on this machine"
        draft.add("container", {"runtime": found[0]}, "here", why)


def _add_environment(draft: _Draft, here: Here) -> None:
    if here.python:
        why = f"{here.python}, which runs hpclaunch, has TensorFlow and Horovod"
        draft.add("environment", {"python": "current"}, "here", why)
        draft.add("provides", ["tensorflow", "horovod"], "here")
        return
    why = "how the ranks get TensorFlow and Horovod: modules, a venv, conda, or a container"
    draft.gaps.append(
        Gap(key="environment", why=why, example="modules: [tensorflow/2.15], or container: /shared/tf.sif")
    )


def _add_folders(draft: _Draft, config: Mapping[str, str]) -> None:
    scratch = config.get("TmpFS", "").rstrip("/")  # "/" would make every folder private to its node
    private = ["/tmp", "/dev/shm"]
    if scratch.startswith("/"):
        private = list(dict.fromkeys([scratch, *private]))  # often TmpFS is one of the two
    draft.add("folders", {"node_private": private}, _SLURM, "TmpFS, and the folders that machines never share")
    why = "folders for runs and data on a file system that all nodes share; until then runs go to ./runs"
    draft.gaps.append(Gap(key="folders.runs", why=why, example="runs: $SCRATCH/hpclaunch/runs, data: $SCRATCH/data"))


def _add_rule_gaps(draft: _Draft, config: Mapping[str, str]) -> None:
    """Add gaps for what the site decides and Slurm does not show."""
    plugins = config.get("JobSubmitPlugins", "")
    if plugins:
        why = f"JobSubmitPlugins={plugins} may require an account, a QOS or a constraint, or may change the request"
        draft.gaps.append(Gap(key="required", why=why, example="[account, walltime]"))
    draft.gaps.append(
        Gap(key="charging", why="Slurm does not show what the site charges", example="unit: node-hour, counts: node")
    )
    draft.gaps.append(Gap(key="interconnect", why="Slurm does not show it", example="InfiniBand HDR, 200 Gbit/s"))


def _site_values(draft: _Draft, cluster: str, config: Mapping[str, str], here: Here) -> dict[str, Any]:
    """Return all values in the file's order, with their sources."""
    version = config.get("SLURM_VERSION", "")
    programs = (
        f"Slurm {version} of {cluster}: scontrol show config, partition and node; sinfo; sacctmgr; srun --mpi=list"
    )
    sources = {
        _SLURM: {"ref": programs.replace("  ", " "), "read": here.today},
        "here": {"ref": f"the machine {here.hostname or 'that this file was written on'}", "read": here.today},
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
