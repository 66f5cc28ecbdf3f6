"""Divides the CPUs and GPUs of a node among the trials that run there at the same time; a slot is the share of one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from hpclaunch.core.files import read_text
from hpclaunch.core.records import record
from hpclaunch.runs.arrays import spelled

_CUDA = "CUDA_VISIBLE_DEVICES"
_GPU_VARIABLES = ("HIP_VISIBLE_DEVICES", _CUDA, "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
"""Variables that name the GPUs that a program may use. HIP and CUDA count among those that ROCm's (ROCR) leaves."""


@record
class Slot:
    """The share of one trial: the numbers of its CPUs, and its GPUs as ``gpu_variable`` names them.

    ``is_bound``: the process is bound to these CPUs. It is not where the system offers the worker fewer CPUs than the
    scheduler counts; then they are numbers of shares only.
    """

    number: int
    cpus: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()
    gpu_variable: str = _CUDA
    is_bound: bool = True

    @property
    def cpu_list(self) -> str:
        """The CPUs in Slurm's notation."""
        return spelled(self.cpus)


def slots_of(
    count: int, cpus: Sequence[int], gpus: Sequence[str], wanted_cpus: int = 0, gpu_variable: str = _CUDA
) -> list[Slot]:
    """Return ``count`` slots that share no CPU and no GPU; what cannot be divided evenly stays unused.

    ``cpus``: those that the worker may use, neighbours side by side. ``wanted_cpus``: how many the scheduler counts.
    ``gpus``, ``gpu_variable``: as usable_gpus returns them.
    """
    is_bound = len(cpus) >= max(count, wanted_cpus)
    numbers = cpus if is_bound else range(max(count, wanted_cpus))
    own, own_gpus = len(numbers) // count, len(gpus) // count
    return [
        Slot(
            number=place,
            cpus=tuple(numbers[place * own : (place + 1) * own]),
            gpus=tuple(gpus[place * own_gpus : (place + 1) * own_gpus]),
            gpu_variable=gpu_variable,
            is_bound=is_bound,
        )
        for place in range(count)
    ]


def usable_cpus() -> list[int]:
    """Return the CPUs that this process may use, those of one core side by side: so no two trials share a core."""
    return sorted(os.sched_getaffinity(0), key=_place_of)


def _place_of(cpu: int) -> tuple[int, int, int]:
    folder = f"/sys/devices/system/cpu/cpu{cpu}/topology"
    package, core = (read_text(f"{folder}/{name}").strip() for name in ("physical_package_id", "core_id"))
    is_known = package.isdigit() and core.isdigit()
    return (int(package), int(core), cpu) if is_known else (0, cpu, cpu)


def usable_gpus(environment: Mapping[str, str], count: int) -> tuple[str, list[str]]:
    """Return the variable that gives a trial its GPUs, and its words for those of the worker, ``count`` at most.

    On a machine that hpclaunch has looked at, the script says them. Elsewhere the scheduler's variable does; numbers
    where no variable names any.
    """
    variable, _, named = environment.get("HPCLAUNCH_SEARCH_GPUS", "").partition("=")
    if not variable:
        variable = next((name for name in _GPU_VARIABLES if environment.get(name)), _CUDA)
        named = environment.get(variable, "")
    found = [one.strip() for one in named.split(",") if one.strip()]
    return variable, (found or [str(number) for number in range(count)])[:count]
