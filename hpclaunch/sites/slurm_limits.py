"""The limits of Slurm's partitions, QOS and associations in its answers, and which of them hold together. Pure.

Slurm's order is in its resource_limits page: a partition's own MaxTime, MinNodes and MaxNodes always hold, unless the
QOS of the job has a flag that lifts them. Of a limit that both the job's QOS and the partition's QOS have, that of
the partition counts, or with OverPartQOS that of the job. A limit of the association counts where no QOS has it.
That is so for each limit and each resource (acct_policy.c of 22.05 to 25.11, and tests/slurm/test_qos_limits.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hpclaunch.config.limits import Liftable, Limits
from hpclaunch.core.units import parse_walltime, whole_number
from hpclaunch.sites.slurm_text import Fields, amounts_in, split_list

Bounds = Mapping[tuple[str, str], int]
"""(column of ``sacctmgr show qos``, resource as in ``gres/gpu:a100``) -> the limit; walltimes (s) and jobs without one.
"""

_FLAGS: dict[str, Liftable] = {
    "PartitionTimeLimit": "max_walltime",
    "PartitionMinNodes": "min_nodes",
    "PartitionMaxNodes": "max_nodes",
}
"""The flag of a QOS -> the limit of a partition that it lifts (sacctmgr manual, QOS flags)."""
_OVER_PARTITION = "OverPartQOS"
_RESOURCES = ("MaxTRES", "MaxTRESPerNode", "MaxTRESPU", "MaxTRESPA", "GrpTRES", "MinTRES")
_MINUTES = ("MaxTRESMins", "GrpTRESMins", "GrpTRESRunMins", "MaxTRESRunMinsPU", "MaxTRESRunMinsPA")
_WALLTIMES = ("MaxWall", "GrpWall")
_JOBS = ("GrpJobs", "GrpSubmit", "MaxJobsPU", "MaxSubmitPU", "MaxJobsPA", "MaxSubmitPA")
_OF_ONE_JOB = ("MaxTRES", "MaxTRESPU", "MaxTRESPA", "GrpTRES")
"""What one job can never exceed: it may have so much itself, or its user, account or QOS may."""
_GPU = "gres/gpu"


def limits_of_partition(fields: Fields) -> Limits:
    """Return a partition's own limits in a record of ``scontrol show partition``, without those of its QOS."""
    numbers = [whole_number(fields.get(key, "")) for key in ("MaxNodes", "TotalNodes")]
    return Limits(
        max_nodes=min((number for number in numbers if number), default=None),
        min_nodes=whole_number(fields.get("MinNodes", "")) or None,
        max_walltime=_seconds(fields.get("MaxTime", "")),
    )


def bounds_of_qos(row: Fields) -> Bounds:
    """Return the limits in a row of ``sacctmgr show qos``; 0 is one. What is written in an unknown form is left out.

    With the flag Relative the amounts are shares of a cluster, and with UsageFactorSafe times are multiplied by
    UsageFactor (sacctmgr manual): neither can be compared with a request.
    """
    flags = split_list(row.get("Flags", ""))
    amounts = () if "Relative" in flags else _RESOURCES
    times = not ("UsageFactorSafe" in flags and row.get("UsageFactor", "") not in ("", "1.000000"))
    found = _amounts(row, (*amounts, *(_MINUTES if times and amounts else ())))
    for column in _WALLTIMES if times else ():
        if (seconds := _seconds(row.get(column, ""))) is not None:
            found[column, ""] = seconds
    return found | _numbers(row, _JOBS)


def _amounts(row: Fields, columns: Iterable[str]) -> dict[tuple[str, str], int]:
    return {(column, name): amount for column in columns for name, amount in amounts_in(row.get(column, "")).items()}


def _numbers(row: Fields, columns: Iterable[str]) -> dict[tuple[str, str], int]:
    return {(column, ""): number for column in columns if (number := whole_number(row.get(column, ""))) is not None}


def limits_of_qos(row: Fields) -> Limits:
    """Return the limits of a QOS in a row of ``sacctmgr show qos``: what one job can never exceed.

    That is what it may have itself (MaxTRES, MinTRES, MaxWall), and what all jobs of a user, an account or the QOS may.
    """
    return limits_in(bounds_of_qos(row), lifted_by(row))


def limits_in(bounds: Bounds, lifts: tuple[Liftable, ...] = ()) -> Limits:
    """Return the limits of one job among bounds."""
    return Limits(
        min_nodes=_number_above(bounds.get(("MinTRES", "node")), 1),
        max_nodes=_least_bound(bounds, "node"),
        min_gpus=_number_above(bounds.get(("MinTRES", _GPU)), 0),
        max_gpus=_least_bound(bounds, _GPU),
        max_gpus_per_node=bounds.get(("MaxTRESPerNode", _GPU)),
        max_gpus_of_type=_bounds_by_type(bounds, *_OF_ONE_JOB),
        min_gpus_of_type=_bounds_by_type(bounds, "MinTRES"),
        max_gpus_of_type_per_node=_bounds_by_type(bounds, "MaxTRESPerNode"),
        max_cpus=_least_bound(bounds, "cpu"),
        min_cpus=_number_above(bounds.get(("MinTRES", "cpu")), 1),
        max_cpus_per_node=bounds.get(("MaxTRESPerNode", "cpu")),
        max_memory=_number_above(_least_bound(bounds, "mem"), 0),
        min_memory=_number_above(bounds.get(("MinTRES", "mem")), 0),
        max_memory_per_node=_number_above(bounds.get(("MaxTRESPerNode", "mem")), 0),
        max_walltime=bounds.get(("MaxWall", "")),
        max_jobs=bounds.get(("MaxSubmitPU", "")),
        max_running=bounds.get(("MaxJobsPU", "")),
        lifts=lifts,
    )


def _least_bound(bounds: Bounds, name: str) -> int | None:
    return min((bounds[column, name] for column in _OF_ONE_JOB if (column, name) in bounds), default=None)


def _number_above(number: int | None, floor: int) -> int | None:
    return number if number is not None and number > floor else None


def _bounds_by_type(bounds: Bounds, *columns: str) -> dict[str, int]:
    """Return type of GPU -> the least of its bounds in these columns."""
    found: dict[str, int] = {}
    for (column, name), amount in bounds.items():
        gpu_type = name.removeprefix(f"{_GPU}:")
        if column in columns and gpu_type != name:
            found[gpu_type] = min(amount, found.get(gpu_type, amount))
    return found


def is_over_partition(row: Fields) -> bool:
    """Whether the limits of this QOS count before those of a partition's QOS."""
    return _OVER_PARTITION in split_list(row.get("Flags", ""))


def denies(row: Fields) -> bool:
    """Whether sbatch refuses a job beyond the limits of this QOS; without the flag such a job waits for ever."""
    return "DenyOnLimit" in split_list(row.get("Flags", ""))


def lifted_by(row: Fields) -> tuple[Liftable, ...]:
    """Return the limits of a partition that the QOS of a job lifts; a partition's own QOS lifts none."""
    flags = split_list(row.get("Flags", ""))
    return tuple(limit for flag, limit in _FLAGS.items() if flag in flags)


def _seconds(walltime: str) -> int | None:
    try:
        return parse_walltime(walltime)
    except ValueError:  # UNLIMITED, or missing
        return None
