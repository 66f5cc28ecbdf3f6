"""The node types, their memory and their GPUs, as a site file writes them: the known values, and the gaps. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpclaunch.core.units import count
from hpclaunch.sites.describe.answers import gpu_files
from hpclaunch.sites.describe.draft import PLATFORM, SLURM, Cluster, Draft
from hpclaunch.sites.describe.node_types import NodeGroup
from hpclaunch.sites.describe.partitions import Member
from hpclaunch.sites.describe.platforms import Shared
from hpclaunch.sites.slurm_text import numbers

_ORDER = (
    *("title", "nodes", "sockets", "cores_per_node", "usable_cores", "threads_per_core", "cpus_per_core", "memory_gb"),
    *("default_cpus_per_task", "gpus_per_node", "gpu_shards", "gpu_type", "constraint", "partition"),
)
"""The order of a node type's keys in the file."""
_KNOWN_OF_GPUS = ("gpu_model", "gpu_memory_gb", "gpu_links", "default_tasks_per_node")
"""The keys that Slurm does not show, and that are the same for all nodes of a cloud's instance type."""
_KNOWN_OF_CPUS = ("sockets", "cores_per_node", "threads_per_core")


def add_node_types(draft: Draft, cluster: Cluster) -> None:
    """Add the node types. The model of a GPU is a gap; GPUs whose file is no device cannot compute."""
    stand_ins = [file for file in gpu_files(cluster.gres_conf) if not file.startswith("/dev/")]
    usual = draft.values["defaults"].get("partition", "")
    members = {}
    for group in cluster.groups:
        home, key = cluster.homes[group.name], f"node_types.{group.name}"
        # The usual partition stands in the defaults already.
        members[group.name] = _node_type_values(cluster, group, home if home != usual else "")
        if group.gpu[1] and stand_ins:
            members[group.name]["stand_in_gpus"] = True
            why = f"gres.conf names {stand_ins[0]}, which is not a device in /dev"
            draft.derived[f"{key}.stand_in_gpus"] = why
        elif group.gpu[1]:
            why = "Slurm does not show the model or its memory; the planner needs both, and containers need the maker"
            draft.add_gap(f"{key}.gpu_model", why, "gpu_model: NVIDIA A100, gpu_memory_gb: 80")
        if not group.nodes[0].sockets and group.threads == 1:
            why = f"slurm.conf gives {group.nodes[0].cpus} CPUs and no cores: each may be a hardware thread"
            draft.derived[f"{key}.cores_per_node"] = why
        if group.mixed:
            draft.derived[key] = "the smallest of its nodes; some have more, and no sbatch option can select those"
        elif group.larger:
            draft.derived[key] = "its nodes with more GPUs are a node type of their own, too"
        if group.is_sliced:
            slices = f"{group.gpu[1]} MIG slices on a node"
            draft.derived[f"{key}.gpus_per_node"] = f"{slices}, of which a process uses one, and NCCL joins none"
        if group.shards:
            shards = f"{group.slices} shards on a node, each a part of one of its {count(group.gpu[1], 'GPU')}"
            draft.derived[f"{key}.gpus_per_node"] = f"{shards}; NCCL joins no two ranks on one GPU"
        if group.slices:
            draft.derived[f"{key}.default_cpus_per_task"] = "the share of a node's CPUs that goes with one of its parts"
    draft.add("node_types", members, SLURM)


def add_known_gpus(draft: Draft, cluster: Cluster, shared: Shared) -> None:
    """Add what is known of the GPUs of the cloud's instances: their type is a feature of the node."""
    for group in cluster.groups:
        key, node = f"node_types.{group.name}", draft.values["node_types"][group.name]
        features = frozenset.intersection(*(one.features for one in group.nodes))
        known = [facts for feature, facts in shared.features.items() if feature in features]
        if len(known) != 1 or known[0].get("gpus_per_node") != node.get("gpus_per_node") or "stand_in_gpus" in node:
            continue
        names: tuple[str, ...] = _KNOWN_OF_GPUS
        if not group.nodes[0].sockets and _threads_of(known[0]) == group.nodes[0].cpus:
            names = (*names, *_KNOWN_OF_CPUS)  # slurm.conf gives the threads alone
            words = (count(number, "core") for number in (group.cores, known[0]["cores_per_node"]))
            node["title"] = node["title"].replace(*words)
            draft.derived.pop(f"{key}.cores_per_node", None)
        facts = {name: known[0][name] for name in names if name in known[0]}
        node |= facts
        draft.origins |= {f"{key}.{name}": [PLATFORM] for name in facts}
        if "gpu_model" in facts:
            draft.gaps = [gap for gap in draft.gaps if gap.key != f"{key}.gpu_model"]
            if "gpu_memory_gb" not in facts:
                why = "Slurm does not show it, and the planner needs it"
                draft.add_gap(f"{key}.gpu_memory_gb", why, "gpu_memory_gb: 80")


def _threads_of(facts: Mapping[str, Any]) -> int:
    """Return the hardware threads of a known instance; 0: not known."""
    return int(facts.get("cores_per_node", 0)) * int(facts.get("threads_per_core", 1))


def _node_type_values(cluster: Cluster, group: NodeGroup, partition: str) -> Member:
    """Return the keys of a node type; one is left out where the site file's own default says the same."""
    first = group.nodes[0]
    memory_gb = max(1, _usable_memory(cluster, group) // 1024)
    values: Member = {
        "title": f"{_use_of(group)}, {count(group.cores, 'core')}, {memory_gb} GB",
        "nodes": len(group.nodes),
        "cores_per_node": group.cores,
        "memory_gb": memory_gb,
    }
    if first.sockets and len({node.sockets for node in group.nodes}) == 1:
        values["sockets"] = first.sockets
    usable = _usable_cores(cluster, group)
    if 0 < usable < group.cores:
        values["usable_cores"] = usable
    if group.threads > 1:
        values["threads_per_core"] = group.threads
    if group.cpus_per_core != group.threads:
        values["cpus_per_core"] = group.cpus_per_core
    values |= _gpu_values(group, usable * group.cpus_per_core)
    if group.constraint:
        values["constraint"] = group.constraint
    if partition:
        values["partition"] = partition
    return {key: values[key] for key in _ORDER if key in values}


def _gpu_values(group: NodeGroup, cpus: int) -> Member:
    """Return the keys of the GPUs of a node, and of the CPUs (``cpus`` of a node) that go with a part of one."""
    gpu_type, gpus = group.gpu
    values: Member = {}
    if gpus:
        values["gpus_per_node"] = 1 if group.slices else gpus  # a part of a GPU is asked for alone
    if group.slices:
        values["default_cpus_per_task"] = max(1, cpus // group.slices)
    if group.shards:
        values["gpu_shards"] = group.shards
    return values | ({"gpu_type": gpu_type} if group.typed else {})


def _use_of(group: NodeGroup) -> str:
    """Return what a job gets of the GPUs, in the words of a title."""
    gpu_type, gpus = group.gpu
    if not gpus:
        return "CPU node"
    all_gpus = f"{gpus} x {gpu_type or 'GPU'}"
    if group.shards:
        return f"A part of a GPU, each of {all_gpus} in {group.shards} parts"
    return f"{'MIG slices' if group.is_sliced else 'GPU node'}, {all_gpus}"


def _usable_cores(cluster: Cluster, group: NodeGroup) -> int:
    """Return the cores of a node that jobs may use: without Slurm's own, and as many as the partition allows."""
    usable = min(node.usable_cpus // node.cpus_per_core for node in group.nodes)
    most_cpus = numbers([cluster.home_fields(group).get("MaxCPUsPerNode", "")])
    if most_cpus and most_cpus[0]:
        return min(usable, max(1, most_cpus[0] // group.cpus_per_core))
    return usable


def _usable_memory(cluster: Cluster, group: NodeGroup) -> int:
    """Return the MB of a node that a job may have: no more than its usual partition allows (MaxMemPerNode)."""
    own, general = (fields.get("MaxMemPerNode", "") for fields in (cluster.home_fields(group), cluster.config))
    return min([group.memory, *(most for most in numbers([own, general])[:1] if most)])


def add_memory_gaps(draft: Draft, cluster: Cluster) -> None:
    """Add a gap where a job without --mem gets only a part of the node's memory (DefMemPer… of slurm.conf)."""
    if "MEMORY" not in cluster.config.get("SelectTypeParameters", "").upper():
        return
    for group in cluster.groups:
        fields = cluster.home_fields(group)
        if group.gpu[1] and "DefMemPerGPU" in fields.get("JobDefaults", ""):
            continue  # such a job gets memory with every GPU
        _add_memory_gap(draft, cluster, group)


def _add_memory_gap(draft: Draft, cluster: Cluster, group: NodeGroup) -> None:
    """Add the gap if the default memory of a whole node's job is below 90 % of the node's."""
    cpus, most = min(node.usable_cpus for node in group.nodes), _usable_memory(cluster, group)
    # A default of the partition, of either kind, replaces that of the cluster.
    for place in (cluster.home_fields(group), cluster.config):
        for key, times in (("DefMemPerCPU", cpus), ("DefMemPerNode", 1)):
            share = next(iter(numbers([place.get(key, "")])), 0)
            if not share:
                continue
            if share * times < most * 0.9:
                why = f"with {key}={share} a job that asks for no memory gets {share * times} of {most} MB"
                draft.add_gap(f"node_types.{group.name}.request_memory", why, f"request_memory: {most}M")
            return


def add_gpu_option(draft: Draft, cluster: Cluster) -> None:
    """Add the GPU option: ``--gpus-per-node`` needs select/cons_tres (manual of sbatch); ``--gres`` always works."""
    if not cluster.has_gpus:
        return
    select = cluster.config.get("SelectType", "")
    directive = "gpus-per-node" if select == "select/cons_tres" else "gres"
    draft.add("gpus", {"directive": directive}, SLURM, f"SelectType is {select or 'unknown'}")
