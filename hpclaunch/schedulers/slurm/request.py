"""What a script asks Slurm for, as its limits count it: the directives in numbers, with Slurm's defaults of memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import JobSpec
from hpclaunch.core.units import parse_memory, whole_number
from hpclaunch.resolve.nodes.limits import Ask
from hpclaunch.sites.describe.answers import Node
from hpclaunch.sites.slurm_limits import Bounds
from hpclaunch.sites.slurm_text import Fields

_GPU_OPTIONS = ("gpus-per-node", "gres", "gpus-per-task", "gpus")
_SHARD = "shard:"
"""The beginning of a request for a part of a GPU: no limit of GPUs counts it (TRES gres/shard)."""
_OF_TYPE = re.compile(r"(?:gpu:)?(?P<type>[^:,=]+):[0-9]+")


def ask_of(spec: JobSpec, partition: Fields, config: Mapping[str, str]) -> Ask:
    """Return the least that the job gets in a partition. CPUs and memory are 0 where the script does not say them.

    Nodes that no other job uses may give it more CPUs, and so do whole cores. ``config``: that of Slurm (may be empty).
    """
    layout, asked = spec.layout, _directives(spec)
    cpus = layout.tasks_per_node * layout.cpus_per_task if asked.keys() & {"ntasks", "ntasks-per-node"} else 0
    gpus = 0 if asked.get("gres", "").startswith(_SHARD) else layout.gpus_per_node
    cpus = cpus if "cpus-per-task" in asked or layout.cpus_per_task == 1 else min(cpus, layout.tasks_per_node)
    return Ask(
        node_type=spec.node_type,
        nodes=layout.nodes,
        gpus=gpus,
        walltime=spec.walltime,
        gpu_type=_gpu_type(asked) if gpus else "",
        tasks=layout.tasks_per_node,
        cpus=cpus,
        memory=_memory(asked, cpus, layout.gpus_per_node, partition, config),
    )


def with_whole_nodes(
    ask: Ask, spec: JobSpec, nodes: Sequence[Node], partition: Fields, config: Mapping[str, str]
) -> Ask:
    """Return the request with what it gets of each node that it does not share: the least that one of ``nodes`` has.

    Those are all CPUs and GPUs, and the memory that goes with them, but no more memory than is asked for by itself
    (AllocTRES of 22.05, and tests/slurm/test_qos_limits.py).
    """
    cpus = min((node.usable_cpus for node in nodes), default=0)
    gpus = min((sum(number for _, number in node.gpus) for node in nodes), default=0)
    memory = _memory(_directives(spec), cpus, gpus, partition, config)
    return replace(ask, held_cpus=cpus, held_gpus=gpus, held_memory=memory if memory != ask.memory else 0)


def is_surely_alone(spec: JobSpec, partition: Fields, config: Mapping[str, str]) -> bool:
    """Whether Slurm itself gives the job all of its nodes, whatever the site file says of them."""
    shared = partition.get("OverSubscribe") or partition.get("Shared", "")
    is_whole = config.get("SelectType", "") == "select/linear" or shared.startswith("EXCLUSIVE")
    return is_whole or _directives(spec).get("exclusive") == ""


def _directives(spec: JobSpec) -> Mapping[str, str]:
    """Return the directives of a job with nodes of one type; nothing of the components of any other."""
    asked = dict(spec.directives)
    return {} if scheduler_row(spec.scheduler).component_directive in asked else asked


def asks_for_gpus(spec: JobSpec) -> bool:
    """Whether the script asks Slurm for GPUs; not known of a job with nodes of several types."""
    asked = _directives(spec)
    return any(option in asked and not asked[option].startswith(_SHARD) for option in _GPU_OPTIONS)


def _gpu_type(asked: Mapping[str, str]) -> str:
    for option in _GPU_OPTIONS:
        if match := _OF_TYPE.fullmatch(asked.get(option, "")):
            return match["type"]
    return ""


def _memory(asked: Mapping[str, str], cpus: int, gpus: int, partition: Fields, config: Mapping[str, str]) -> int:
    """Return the MB of a node that the script asks for, else those that Slurm gives by default; 0: not known."""
    for option, times in (("mem", 1), ("mem-per-cpu", cpus), ("mem-per-gpu", gpus)):
        if option in asked:
            try:
                return parse_memory(asked[option]) * times
            except ValueError:  # 0 is all of a node's
                return 0
    is_counted = "MEMORY" in config.get("SelectTypeParameters", "").upper()
    if not is_counted or "DefMemPerGPU" in partition.get("JobDefaults", "") + config.get("JobDefaults", ""):
        return 0
    for place in (partition, config):  # a default of the partition, of either kind, replaces that of the cluster
        for key, times in (("DefMemPerCPU", cpus), ("DefMemPerNode", 1)):
            if share := whole_number(place.get(key, "")):
                return share * times
    return 0


def is_on_whole_nodes(spec: JobSpec, partition: Fields) -> bool:
    """Whether no other job runs on its nodes: it gets all of their CPUs and GPUs then."""
    shared = partition.get("OverSubscribe") or partition.get("Shared", "")
    return spec.layout.whole_nodes or "exclusive" in _directives(spec) or shared.startswith("EXCLUSIVE")


def exact_about(spec: JobSpec, partition: Fields, bounds: Bounds) -> Bounds:
    """Return the bounds without least amounts that the job may get although it asks for less."""
    cores = spec.layout.cpus_per_core
    is_rounded = spec.layout.cpus_per_task % cores if cores else False
    if is_on_whole_nodes(spec, partition):
        return {key: bound for key, bound in bounds.items() if key[0] != "MinTRES" or key[1] == "node"}
    return {key: bound for key, bound in bounds.items() if not (is_rounded and key == ("MinTRES", "cpu"))}
