"""Divides the CPUs and GPUs of a node among the trials that run there at the same time; a slot is the share of one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from hpclaunch.core.files import read_text
from hpclaunch.core.records import record
from hpclaunch.runs.arrays import spelled

GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
"""Variables that name the GPUs that a program may use: of NVIDIA (CUDA), AMD (ROCm, HIP) and Intel (Level Zero)."""


@record
class Slot:
    """The share of one trial: the numbers of its CPUs, and its GPUs as the variables name them.

    ``is_bound``: the process is bound to these CPUs. It is not where the system offers the worker fewer CPUs than the
    scheduler counts; then they are numbers of shares only.
    """

    number: int
    cpus: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()
    is_bound: bool = True

    @property
    def cpu_list(self) -> str:
        """The CPUs in Slurm's notation."""
        return spelled(self.cpus)


def slots_of(count: int, cpus: Sequence[int], gpus: Sequence[str], wanted_cpus: int = 0) -> list[Slot]:
    """Return ``count`` slots that share no CPU and no GPU; what cannot be divided evenly stays unused.

    ``cpus``: those that the worker may use, neighbours side by side. ``wanted_cpus``: how many the scheduler counts.
    """
    is_bound = len(cpus) >= max(count, wanted_cpus)
    numbers = cpus if is_bound else range(max(count, wanted_cpus))
    own, own_gpus = len(numbers) // count, len(gpus) // count
    return [
        Slot(
            number=place,
            cpus=tuple(numbers[place * own : (place + 1) * own]),
            gpus=tuple(gpus[place * own_gpus : (place + 1) * own_gpus]),
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


def usable_gpus(environment: Mapping[str, str], count: int) -> list[str]:
    """Return the GPUs that the worker may use, ``count`` at most; numbers where no variable names them."""
    named = next((environment[name] for name in GPU_VARIABLES if environment.get(name)), "")
    found = [one.strip() for one in named.split(",") if one.strip()]
    return (found or [str(number) for number in range(count)])[:count]
