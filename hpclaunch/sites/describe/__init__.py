"""What Slurm and this machine told -> a site file: what is known of the cluster, and what a person must fill in. Pure.

What nobody told is left out: a site file's keys are neither assumed nor checked where they are missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpclaunch.core.records import record
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
from hpclaunch.sites.describe.node_types import NodeGroup, kinds_of
from hpclaunch.sites.describe.partitions import Member, Person, home_of, partitions_of, qos_of

_SLURM = "slurm"
"""The scheduler of the sites that are described here, and what its values name as their source."""
_WALLTIME = 30 * 60
"""What the bundled site files say where a person says nothing."""
_RUNTIMES = ("shifter", "podman-hpc", "pyxis", "apptainer", "singularity")


@record
class Answers:
    """What Slurm's programs wrote; nothing where one is missing, refuses, or has nothing to say."""

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
    """What this machine tells of itself. ``today`` as YYYY-MM-DD.

    ``known_cluster``: the ClusterName that detection reads here. ``python`` is the interpreter that runs hpclaunch if
    it has TensorFlow and Horovod. ``runtimes`` are those of containers; ``module_setup``: the variable that shows that
    the shell has modules.
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
    """A key that a person must fill in: why nobody but a person knows, and how it may look."""

    key: str
    why: str
    example: str = ""


@record
class Described:
    """A site file: its values by key, in the file's order, and its gaps. ``name`` would do for the file."""

    name: str
    values: dict[str, Any]
    gaps: tuple[Gap, ...] = ()


@dataclass(slots=True)
class _Draft:
    """The file while it is made: values, where each is from, and what is missing."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, list[str]] = field(default_factory=dict)
    derived: dict[str, str] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)

    def say(self, key: str, value: Any, source: str, derived: str = "") -> None:
        self.values[key] = value
        self.origins[key] = [source]
        if derived:
            self.derived[key] = derived


def describe(answers: Answers, here: Here) -> Described | None:
    """Return what is known of the cluster, or None where Slurm shows no node in any partition."""
    config = settings(answers.config)
    shown = records(answers.partitions, "PartitionName")
    names = {fields["PartitionName"] for fields in shown}
    nodes = nodes_of(answers.nodes) or nodes_of_sinfo(answers.sinfo)
    kinds = kinds_of([node for node in nodes if names & set(node.partitions)])
    if not kinds:
        return None
    draft = _Draft()
    cluster = config.get("ClusterName") or here.known_cluster or "cluster"
    most = count(len(nodes), "node")
    draft.say(
        "title", f"{cluster}, {most}, as Slurm {config.get('SLURM_VERSION', '')} shows it".replace("  ", " "), _SLURM
    )
    draft.say("scheduler", _SLURM, _SLURM)
    _say_modules(draft, here)
    _say_detect(draft, cluster, here)
    person = _person(answers, here, cluster)
    qos_rows = table(answers.qos)
    partitions = partitions_of(shown, kinds, qos_rows, person, config)
    default = next((one["PartitionName"] for one in shown if one.get("Default") == "YES"), "")
    homes = {kind.name: home_of(kind, partitions, default) for kind in kinds}
    _say_defaults(draft, kinds, homes, partitions)
    places = {one["PartitionName"]: one for one in shown}
    _say_nodes(draft, kinds, homes, places, answers.gres_conf)
    _mark_memory(draft, kinds, homes, places, config)
    draft.say("partitions", partitions, _SLURM)
    qos = qos_of(qos_rows, person, config)
    if qos:
        draft.say("qos", qos, _SLURM)
    _say_gpus(draft, kinds, config)
    _say_launchers(draft, mpi_types(answers.mpi), config.get("MpiDefault", ""))
    _say_containers(draft, here)
    _say_environment(draft, here)
    _say_folders(draft, config)
    _mark_rules(draft, config)
    return Described(name=_file_name(cluster), values=_finished(draft, cluster, config, here), gaps=tuple(draft.gaps))


def _file_name(cluster: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", cluster).strip("-_")[:64] or "cluster"


def _person(answers: Answers, here: Here, cluster: str) -> Person:
    """Return what accounting knows of the person on this cluster: one slurmdbd may serve several."""
    rows = [row for row in table(answers.associations) if row.get("User") == here.user]
    rows = [row for row in rows if _same(row.get("Cluster", cluster), cluster)]
    usual = [row.get("DefQOS", "") for row in rows if row.get("DefQOS")]
    return Person(
        groups=here.groups,
        is_root=here.is_root,
        accounts=frozenset(row["Account"] for row in rows if row.get("Account")),
        qos=frozenset(name for row in rows for name in names_in(row.get("QOS", ""))),
        default_qos=usual[0] if usual else "normal",
    )


def _same(one: str, other: str) -> bool:
    """Whether two names are of one cluster: Slurm may write ClusterName in small letters (slurm.conf's manual)."""
    return one.casefold() == other.casefold()


def _say_modules(draft: _Draft, here: Here) -> None:
    if here.module_setup:
        why = f"{here.module_setup} is set here, and a job that starts from nothing has modules from a login shell only"
        draft.say("login_shell", True, "here", why)


def _say_detect(draft: _Draft, cluster: str, here: Here) -> None:
    if _same(here.known_cluster, cluster):
        draft.say("detect", {"cluster_name": here.known_cluster}, _SLURM)
    elif here.hostname:
        pattern = re.sub(r"\d+", r"\\d+", re.escape(here.hostname))
        draft.say("detect", {"hostname": pattern}, "here", f"from the host name {here.hostname}")


def _say_defaults(
    draft: _Draft, kinds: Sequence[NodeGroup], homes: Mapping[str, str], partitions: Mapping[str, Member]
) -> None:
    """The usual node type is the first one with GPUs that anybody may use, else the first."""
    open_ones = [kind for kind in kinds if homes[kind.name] and "only_if_asked" not in partitions[homes[kind.name]]]
    usual = (open_ones or list(kinds))[0].name
    home = homes[usual]
    longest = parse_walltime(partitions.get(home, {}).get("max_walltime", format_walltime(_WALLTIME)))
    defaults = {"node_type": usual, **({"partition": home} if home else {})}
    draft.say("defaults", {**defaults, "walltime": format_walltime(min(_WALLTIME, longest))}, "hpclaunch")


def _say_nodes(
    draft: _Draft, kinds: Sequence[NodeGroup], homes: Mapping[str, str], places: Mapping[str, Fields], gres_conf: str
) -> None:
    stand_ins = [file for file in gpu_files(gres_conf) if not file.startswith("/dev/")]
    usual = draft.values["defaults"].get("partition", "")
    members = {}
    for kind in kinds:
        home = homes[kind.name]
        most = numbers([places.get(home, {}).get("MaxCPUsPerNode", "")])
        members[kind.name] = _member(kind, home if home != usual else "", most[0] if most else 0)
        if kind.gpu[1] and stand_ins:
            members[kind.name]["stand_in_gpus"] = True
            draft.derived[f"node_types.{kind.name}.stand_in_gpus"] = (
                f"gres.conf names {stand_ins[0]}, which is no device of /dev"
            )
        if kind.mixed:
            draft.derived[f"node_types.{kind.name}"] = (
                "some of its nodes have more; no option of sbatch tells them apart"
            )
        if kind.gpu[1] and not stand_ins:
            why = "Slurm does not tell; the planner needs both, and containers the maker"
            example = "gpu_model: NVIDIA A100, gpu_memory_gb: 80"
            draft.gaps.append(Gap(key=f"node_types.{kind.name}.gpu_model", why=why, example=example))
    draft.say("node_types", members, _SLURM)


def _mark_memory(
    draft: _Draft, kinds: Sequence[NodeGroup], homes: Mapping[str, str], places: Mapping[str, Fields], config: Fields
) -> None:
    """Mark request_memory where a job that asks for none gets a small part of the node (slurm.conf's DefMemPer…)."""
    if "MEMORY" not in config.get("SelectTypeParameters", "").upper():
        return
    for kind in kinds:
        place = places.get(homes[kind.name], {})
        if kind.gpu[1] and "DefMemPerGPU" in place.get("JobDefaults", ""):
            continue
        cpus = min(node.usable_cpus for node in kind.nodes)
        for key, times in (("DefMemPerCPU", cpus), ("DefMemPerNode", 1)):
            share = next(iter(numbers([place.get(key, ""), config.get(key, "")])), 0)
            if 0 < share * times < kind.memory * 0.9:
                why = f"with {key}={share} a job that asks for no memory gets {share * times} of {kind.memory} MB"
                example = f"request_memory: {kind.memory}M"
                draft.gaps.append(Gap(key=f"node_types.{kind.name}.request_memory", why=why, example=example))
                break


def _member(kind: NodeGroup, partition: str, most_cpus: int) -> Member:
    """Return what the file says of a node type; ``most_cpus`` of a node go to the jobs of its partition, 0: all."""
    first, (gpu_type, gpus), per_core = kind.nodes[0], kind.gpu, kind.cpus_per_core
    usable = min(node.usable_cpus // node.cpus_per_core for node in kind.nodes)
    usable = min(usable, max(1, most_cpus // per_core)) if most_cpus else usable
    what = f"GPU node, {gpus} x {gpu_type or 'GPU'}" if gpus else "CPU node"
    known = {
        "title": f"{what}, {count(kind.cores, 'core')}, {max(1, kind.memory // 1024)} GB",
        "nodes": len(kind.nodes),
        "sockets": first.sockets if len({node.sockets for node in kind.nodes}) == 1 else None,
        "cores_per_node": kind.cores,
        "usable_cores": usable if 0 < usable < kind.cores else None,
        "threads_per_core": kind.threads if kind.threads > 1 else None,
        "cpus_per_core": per_core if per_core != kind.threads else None,
        "memory_gb": max(1, kind.memory // 1024),
        "gpus_per_node": gpus or None,
        "gpu_type": gpu_type if kind.typed else None,
        "constraint": kind.constraint or None,
        "partition": partition or None,
    }
    return {key: value for key, value in known.items() if value is not None}


def _say_gpus(draft: _Draft, kinds: Sequence[NodeGroup], config: Mapping[str, str]) -> None:
    """``--gpus-per-node`` needs select/cons_tres (sbatch's manual); ``--gres`` works with every SelectType."""
    if not any(kind.gpu[1] for kind in kinds):
        return
    select = config.get("SelectType", "")
    directive = "gpus-per-node" if select == "select/cons_tres" else "gres"
    draft.say("gpus", {"directive": directive}, _SLURM, f"SelectType is {select or 'not known'}")


def _say_launchers(draft: _Draft, types: Sequence[str], default: str) -> None:
    """The cluster's MpiDefault, else PMIx, which Open MPI (Horovod's usual MPI) speaks, else the only other one."""
    pmix = [name for name in types if name == "pmix"] or sorted(name for name in types if name.startswith("pmix"))[-1:]
    others = [name for name in types if name != "none"]
    if default:
        chosen, why = default, "MpiDefault of the cluster"
    elif pmix:
        chosen, why = pmix[0], f"srun --mpi=list shows {', '.join(types)}; no MpiDefault"
    elif len(others) == 1:
        chosen, why = others[0], "srun --mpi=list shows no other"
    else:
        what = f"srun --mpi=list shows {', '.join(types) or 'nothing'}, and no MpiDefault is set"
        draft.gaps.append(Gap(key="launchers", why=what, example="default: srun, options: {srun: {mpi: pmix}}"))
        return
    launcher = SCHEDULERS[_SLURM].usual_launcher
    draft.say("launchers", {"default": launcher, "options": {launcher: {"mpi": chosen}}}, _SLURM, why)


def _say_containers(draft: _Draft, here: Here) -> None:
    found = [name for name in _RUNTIMES if name in here.runtimes]
    if found:
        why = "an option of this srun" if found[0] == "pyxis" else f"{found[0]} is a program of this machine"
        draft.say("container", {"runtime": found[0]}, "here", why)


def _say_environment(draft: _Draft, here: Here) -> None:
    if here.python:
        why = f"{here.python}, which runs hpclaunch, has TensorFlow and Horovod"
        draft.say("environment", {"python": "current"}, "here", why)
        draft.say("provides", ["tensorflow", "horovod"], "here")
        return
    why = "what brings TensorFlow and Horovod to the ranks: modules, a venv, conda, or a container"
    draft.gaps.append(
        Gap(key="environment", why=why, example="modules: [tensorflow/2.15], or container: /shared/tf.sif")
    )


def _say_folders(draft: _Draft, config: Mapping[str, str]) -> None:
    told = config.get("TmpFS", "").rstrip("/")  # of a whole file system, "/", every folder would be one
    private = list(dict.fromkeys([*([told] if told.startswith("/") else []), "/tmp", "/dev/shm"]))
    draft.say("folders", {"node_private": private}, _SLURM, "TmpFS, and what no two machines share")
    why = "a file system that all nodes share, for runs and data; run directories are made in ./runs until then"
    draft.gaps.append(Gap(key="folders.runs", why=why, example="runs: $SCRATCH/hpclaunch/runs, data: $SCRATCH/data"))


def _mark_rules(draft: _Draft, config: Mapping[str, str]) -> None:
    """Name what the site decides and Slurm does not show."""
    plugins = config.get("JobSubmitPlugins", "")
    if plugins:
        why = f"JobSubmitPlugins={plugins} may demand an account, a QOS or a constraint, or change the request"
        draft.gaps.append(Gap(key="required", why=why, example="[account, walltime]"))
    draft.gaps.append(
        Gap(key="charging", why="Slurm does not show what the site charges", example="unit: node-hour, counts: node")
    )
    draft.gaps.append(Gap(key="interconnect", why="Slurm does not show it", example="InfiniBand HDR, 200 Gbit/s"))


def _finished(draft: _Draft, cluster: str, config: Mapping[str, str], here: Here) -> dict[str, Any]:
    """Return all values in the file's order, with their sources."""
    version = config.get("SLURM_VERSION", "")
    programs = (
        f"Slurm {version} of {cluster}: scontrol show config, partition and node; sinfo; sacctmgr; srun --mpi=list"
    )
    sources = {
        _SLURM: {"ref": programs.replace("  ", " "), "read": here.today},
        "here": {"ref": f"the machine {here.hostname or 'on which it was described'}", "read": here.today},
    }
    used = {name for names in draft.origins.values() for name in names}
    return {
        **draft.values,
        "sources": {name: source for name, source in sources.items() if name in used},
        "origins": draft.origins,
        **({"derived": draft.derived} if draft.derived else {}),
        "unverified": {gap.key: gap.why for gap in draft.gaps},
    }
