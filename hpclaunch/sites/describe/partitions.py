"""Partitions and QOS as Slurm shows them -> the limits of a site file, and why some must be named by the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields as fields_of
from typing import Any, get_args

from hpclaunch.config.limits import Liftable, Limits
from hpclaunch.core.records import record
from hpclaunch.core.units import format_memory, format_walltime, parse_walltime
from hpclaunch.sites.describe.answers import Node
from hpclaunch.sites.describe.node_types import NodeGroup
from hpclaunch.sites.slurm_limits import is_over_partition, limits_of_qos
from hpclaunch.sites.slurm_text import Fields, names_in, numbers

Member = dict[str, Any]
"""The keys of the site file below the name of a partition or QOS."""


@record
class Person:
    """The user: Unix groups, and accounts and QOS from Slurm's accounting (empty without accounting)."""

    groups: frozenset[str] = frozenset()
    is_root: bool = False
    accounts: frozenset[str] = frozenset()
    qos: frozenset[str] = frozenset()
    default_qos: str = ""


def partitions_of(
    records: Sequence[Fields],
    groups: Sequence[NodeGroup],
    qos: Sequence[Fields],
    person: Person,
    config: Mapping[str, str],
) -> dict[str, Member]:
    """Return partition -> its keys in the site file; partitions without nodes or for root only are left out."""
    rows = {row.get("Name", ""): row for row in qos}
    found = {}
    for fields in records:
        name = fields["PartitionName"]
        here = {group.name: group.partitions[name] for group in groups if group.partitions[name]}
        if not here or (fields.get("RootOnly") == "YES" and not person.is_root):
            continue
        # A node may be one of several types: one for each kind of its GPUs, and for parts of them.
        nodes = len({id(node) for node in _nodes_of(name, groups)})
        own = _own_limits(fields, here, nodes, len(groups) > 1, config)
        reasons = _reasons(fields, person)
        is_usual = fields.get("Default") == "YES" and not reasons
        reasons += [_PREEMPTIBLE] if _preemptible(fields, _rivals(fields, records, groups), config) else []
        found[name] = _merge_limits(own, _limits_of_own_qos(rows.get(fields.get("QoS", ""), {})))
        if reasons:
            # A job that names no partition gets the default one anyway, so it may always be chosen.
            found[name] |= ({} if is_usual else {"only_if_asked": True}) | {"note": "; ".join(reasons)}
    return found


def _nodes_of(partition: str, groups: Sequence[NodeGroup]) -> list[Node]:
    """Return the nodes of a partition, each as often as there are groups that have it."""
    return [node for group in groups for node in group.nodes if partition in node.partitions]


def _rivals(fields: Fields, records: Sequence[Fields], groups: Sequence[NodeGroup]) -> list[Fields]:
    """Return the other partitions that have nodes of this one: only their jobs can take them away."""
    name = fields["PartitionName"]
    sharing = {partition for node in _nodes_of(name, groups) for partition in node.partitions}
    return [other for other in records if other["PartitionName"] in sharing]


def _own_limits(
    fields: Fields, here: Mapping[str, int], nodes: int, are_several: bool, config: Mapping[str, str]
) -> Member:
    """Return the partition's own limits. ``here``: node type -> its nodes in the partition; ``nodes``: of all types.

    ``are_several``: the cluster has nodes of several types.
    """
    limits: Member = {}
    if are_several:
        limits["node_types"] = list(here)
    least = numbers([fields.get("MinNodes", "")])
    if least and least[0] > 1:
        limits["min_nodes"] = least[0]
    most = [number for number in numbers([fields.get("MaxNodes", "")]) if number]
    limits["max_nodes"] = min([*most, nodes])
    fewer = {name: {"max_nodes": number} for name, number in here.items() if number < limits["max_nodes"]}
    if fewer:
        limits["by_node_type"] = fewer
    longest = _walltime(fields.get("MaxTime", ""))
    if longest:
        limits["max_walltime"] = format_walltime(longest)
    shared = fields.get("OverSubscribe") or fields.get("Shared", "")
    if shared.startswith("EXCLUSIVE") or config.get("SelectType") == "select/linear":
        limits["whole_nodes"] = True
    return limits


def _reasons(fields: Fields, person: Person) -> list[str]:
    """Return why a job should use the partition only if the user names it."""
    state = fields.get("State", "UP")
    reasons = [f"its state is {state}"] if state != "UP" else []
    reasons += ["only for root"] if fields.get("RootOnly") == "YES" else []
    reasons += ["hidden"] if fields.get("Hidden") == "YES" else []
    reasons += ["needs a reservation"] if fields.get("ReqResv") == "YES" else []
    if not person.is_root:
        reasons += _membership_reasons("groups", names_in(fields.get("AllowGroups", "ALL")), person.groups)
        reasons += _membership_reasons("accounts", names_in(fields.get("AllowAccounts", "ALL")), person.accounts)
    denied = set(names_in(fields.get("DenyAccounts", "")))
    if person.accounts and person.accounts <= denied:
        reasons.append("closed to your accounts")
    if person.default_qos in names_in(fields.get("DenyQos", "")):
        reasons.append(f"closed to --qos {person.default_qos}")
    allowed = names_in(fields.get("AllowQos", "ALL"))
    if allowed and person.default_qos not in allowed:
        reasons.append(f"only with --qos {' or '.join(allowed)}")
    return reasons


def _membership_reasons(noun: str, allowed: Sequence[str], mine: frozenset[str]) -> list[str]:
    return [f"only for the {noun} {', '.join(allowed)}"] if allowed and not mine & set(allowed) else []


_PREEMPTIBLE = "jobs of other partitions can preempt its jobs"


def _preemptible(fields: Fields, rivals: Sequence[Fields], config: Mapping[str, str]) -> bool:
    """Whether a partition with some of its nodes has priority (PreemptType in the manual of slurm.conf)."""
    if config.get("PreemptType") != "preempt/partition_prio" or fields.get("PreemptMode", "OFF") == "OFF":
        return False
    tiers = [numbers([other.get("PriorityTier", "")]) for other in rivals]
    mine = numbers([fields.get("PriorityTier", "")])
    return bool(mine) and any(tier and tier[0] > mine[0] for tier in tiers)


def qos_of(rows: Sequence[Fields], person: Person, config: Mapping[str, str]) -> dict[str, Member]:
    """Return QOS -> its keys in the site file: those that the user may use, or all where that is unknown."""
    found: dict[str, Member] = {}
    preemptible = {victim for row in rows for victim in names_in(row.get("Preempt", ""))}
    for row in rows:
        name = row.get("Name", "")
        if not name or (person.qos and name not in person.qos):
            continue
        found[name] = _member_of(limits_of_qos(row))
        over = [limit for limit in _LIFTABLE if is_over_partition(row) and limit in found[name]]
        if over:
            # They count before those of a partition's QOS; the live check knows a partition's own, which do not yield.
            found[name]["lifts"] = [limit for limit in _LIFTABLE if limit in {*over, *found[name].get("lifts", ())}]
        if config.get("PreemptType") == "preempt/qos" and name in preemptible:
            # The user's default QOS applies to a job that names none.
            found[name] |= {} if name == person.default_qos else {"only_if_asked": True}
            found[name]["note"] = "jobs of other QOS can preempt its jobs"
    return found


_LIFTABLE = get_args(Liftable)
_MEMORIES = ("max_memory", "min_memory", "max_memory_per_node")


def _member_of(limits: Limits) -> Member:
    """Return limits as the site file writes them."""
    usual = Limits()
    values = {one.name: getattr(limits, one.name) for one in fields_of(Limits)}
    member = {key: value for key, value in values.items() if value != getattr(usual, key)}
    if limits.max_walltime:
        member["max_walltime"] = format_walltime(limits.max_walltime)
    member |= {key: format_memory(member[key]) for key in _MEMORIES if key in member}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in member.items()}


def _limits_of_own_qos(row: Fields) -> Member:
    """Return the limits that a partition has from its own QOS. They count in place of those of the job's QOS."""
    member = {key: value for key, value in _member_of(limits_of_qos(row)).items() if key != "lifts"}
    instead = [limit for limit in _LIFTABLE if limit in member]
    return {**member, **({"lifts": instead} if instead else {})}


def _merge_limits(own: Member, other: Member) -> Member:
    """Return a partition's limits with those of its QOS: the stricter one where both have a limit."""
    both = {**other, **own}
    for key in ("max_nodes", "max_gpus_per_node", "max_gpus"):
        if key in own and key in other:
            both[key] = min(own[key], other[key])
    if "min_nodes" in own and "min_nodes" in other:
        both["min_nodes"] = max(own["min_nodes"], other["min_nodes"])
    if "max_walltime" in own and "max_walltime" in other:
        both["max_walltime"] = min((own["max_walltime"], other["max_walltime"]), key=parse_walltime)
    if "by_node_type" in both:
        fewer = {name: limit for name, limit in both["by_node_type"].items() if limit["max_nodes"] < both["max_nodes"]}
        both = {key: value for key, value in both.items() if key != "by_node_type"}
        both |= {"by_node_type": fewer} if fewer else {}
    return both


def home_of(group: NodeGroup, partitions: Mapping[str, Member], default: str) -> str:
    """Return the partition for a node type: the cluster's default, else the one with the longest walltime.

    Partitions that the user must name come last. Empty where no partition has such nodes.
    """
    offered = [name for name in partitions if group.partitions[name]]
    if not offered:
        return ""
    return min(
        offered,
        key=lambda name: (
            "only_if_asked" in partitions[name],
            name != default,
            -_length(partitions[name]),
            -group.partitions[name],
            offered.index(name),
        ),
    )


def _length(limits: Member) -> float:
    return parse_walltime(limits["max_walltime"]) if "max_walltime" in limits else float("inf")


def _walltime(text: str) -> int:
    """Return seconds; 0 for UNLIMITED, NONE or an empty text."""
    try:
        return parse_walltime(text)
    except ValueError:
        return 0
