"""The limits of Slurm's partitions and QOS in the fields of its answers, and which of them hold together. Pure.

Slurm's order is in its resource_limits page: a partition's own MaxTime, MinNodes and MaxNodes always hold, unless the
QOS of the job has a flag that lifts them. Of a limit that both the job's QOS and the partition's QOS have, that of
the partition counts, or with OverPartQOS that of the job.
"""

from __future__ import annotations

from dataclasses import fields as fields_of
from dataclasses import replace
from typing import Any

from hpclaunch.config.limits import Liftable, Limits
from hpclaunch.core.units import parse_walltime, whole_number
from hpclaunch.sites.slurm_text import Fields, number_in, split_list

_FLAGS: dict[str, Liftable] = {
    "PartitionTimeLimit": "max_walltime",
    "PartitionMinNodes": "min_nodes",
    "PartitionMaxNodes": "max_nodes",
}
"""The flag of a QOS -> the limit of a partition that it lifts (sacctmgr manual, QOS flags)."""
_OVER_PARTITION = "OverPartQOS"


def limits_of_partition(fields: Fields) -> Limits:
    """Return a partition's own limits in a record of ``scontrol show partition``, without those of its QOS."""
    numbers = [whole_number(fields.get(key, "")) for key in ("MaxNodes", "TotalNodes")]
    return Limits(
        max_nodes=min((number for number in numbers if number), default=None),
        min_nodes=whole_number(fields.get("MinNodes", "")) or None,
        max_walltime=_seconds(fields.get("MaxTime", "")),
    )


def limits_of_qos(row: Fields) -> Limits:
    """Return the limits of a QOS in a row of ``sacctmgr show qos``: what one job can never exceed.

    That is what it may have itself (MaxTRES, MinTRES, MaxWall), and what all jobs of a user, an account or the QOS may.
    """
    together = [row.get(key, "") for key in ("MaxTRES", "MaxTRESPU", "MaxTRESPA", "GrpTRES")]
    least = row.get("MinTRES", "")
    return Limits(
        min_nodes=_count_above_one(number_in(least, "node")),
        max_nodes=_minimum(number_in(tres, "node") for tres in together),
        min_gpus=number_in(least, "gres/gpu") or None,
        max_gpus=_minimum(number_in(tres, "gres/gpu") for tres in together),
        max_gpus_per_node=number_in(row.get("MaxTRESPerNode", ""), "gres/gpu") or None,
        max_walltime=_seconds(row.get("MaxWall", "")),
        max_jobs=whole_number(row.get("MaxSubmitPU", "")) or None,
        max_running=whole_number(row.get("MaxJobsPU", "")) or None,
        lifts=_lifted_by(split_list(row.get("Flags", ""))),
    )


def is_over_partition(row: Fields) -> bool:
    """Whether the limits of this QOS count before those of a partition's QOS."""
    return _OVER_PARTITION in split_list(row.get("Flags", ""))


def merged_qos(of_partition: Fields, of_job: Fields) -> Limits:
    """Return the limits that two QOS give together (empty: no QOS). Only the job's lifts limits of the partition."""
    first, second = limits_of_qos(of_partition), limits_of_qos(of_job)
    lifts = second.lifts
    if is_over_partition(of_job):
        first, second = second, first
    merged: dict[str, Any] = {one.name: getattr(first, one.name) for one in fields_of(Limits)}
    set_here = {name: value for name, value in merged.items() if value}
    return replace(second, **{**set_here, "lifts": lifts})


def _lifted_by(flags: list[str]) -> tuple[Liftable, ...]:
    return tuple(limit for flag, limit in _FLAGS.items() if flag in flags)


def _minimum(values: Any) -> int | None:
    return min((value for value in values if value), default=None)


def _count_above_one(number: int | None) -> int | None:
    return number if number and number > 1 else None


def _seconds(walltime: str) -> int | None:
    try:
        return parse_walltime(walltime)
    except ValueError:  # UNLIMITED, or missing
        return None
