"""The hardware of this machine as it was found, and which of its GPUs a shell's variables leave visible; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpclaunch.core.records import record

NVIDIA, AMD, INTEL = "NVIDIA", "AMD", "Intel"
VISIBILITY = {
    NVIDIA: ("CUDA_VISIBLE_DEVICES",),
    AMD: ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    INTEL: ("ZE_AFFINITY_MASK",),
}
"""Vendor -> the variables that limit which of its GPUs a program sees.

AMD: ROCR_VISIBLE_DEVICES comes first. HIP_VISIBLE_DEVICES, or CUDA_VISIBLE_DEVICES as another name of it, counts among
the GPUs that are left (ROCm documentation, "GPU isolation techniques").
"""
NO_GPU = "-1"
"""The value that hides all GPUs of NVIDIA and AMD."""


@record
class FoundGpu:
    """One GPU, or one MIG device, as programs count them.

    ``name``: how the vendor's variable names it, its number or the UUID of a MIG device. ``memory``, ``taken``: bytes
    in all, and in use when it was looked at (None: not known). ``parent``: of a MIG device the UUID of its GPU.
    """

    vendor: str
    name: str
    model: str = ""
    uuid: str = ""
    memory: int | None = None
    taken: int | None = None
    parent: str = ""

    def is_named(self, word: str) -> bool:
        """Whether a word of the vendor's variable means it: its number, or the beginning of its UUID."""
        if word.isdigit():
            return self.name == str(int(word))
        return bool(self.uuid) and len(word) > len("GPU-") and self.uuid.lower().startswith(word.lower())


@record
class Hardware:
    """What was found on this machine. None or empty: not known.

    ``cpus``: the logical CPUs that this process may use, by affinity and cgroup; ``cores``: their physical cores.
    ``memory``: bytes, of the machine or its cgroup. ``gpus``: those that the shell's variables leave, in their order;
    ``hidden``: the number of the others; ``limit``: the shell's variable that names the visible ones, with its value.
    ``is_mixed``: not all GPUs that were found are alike. ``how``: (what, how it was found). ``remarks``: what a user
    should know.
    """

    cpus: int
    cores: int
    cpu: str = ""
    sockets: int | None = None
    memory: int | None = None
    gpus: tuple[FoundGpu, ...] = ()
    hidden: int = 0
    limit: str = ""
    is_mixed: bool = False
    how: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()


def visible_gpus(gpus: Sequence[FoundGpu], environment: Mapping[str, str]) -> tuple[FoundGpu, ...]:
    """Return the GPUs that a program started with these variables sees, in its order."""
    left = list(gpus)
    for vendor in dict.fromkeys(gpu.vendor for gpu in gpus):
        for name in limits_of(vendor, environment):
            own = [gpu for gpu in left if gpu.vendor == vendor]
            numbered = [_renumber(gpu, place) for place, gpu in enumerate(own)] if vendor == AMD else own
            kept = _gpus_named(numbered, environment[name])
            left = [gpu for gpu in left if gpu.vendor != vendor] + kept
    return tuple(left)


def cuda_order(hardware: Hardware, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable by which CUDA counts GPUs as NVML does: by PCI address; none where it changes nothing.

    CUDA counts the fastest GPU first, and like ones by PCI address (CUDA C++ Programming Guide, "CUDA Environment
    Variables"). What a shell has chosen stays.
    """
    is_needed = hardware.is_mixed and any(gpu.vendor == NVIDIA for gpu in hardware.gpus)
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if is_needed and "CUDA_DEVICE_ORDER" not in environment else {}


def limits_of(vendor: str, environment: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that limit the vendor's GPUs in this environment."""
    given = [name for name in VISIBILITY[vendor] if name in environment]
    is_renamed = vendor == AMD and "HIP_VISIBLE_DEVICES" in given
    return [name for name in given if not (is_renamed and name == "CUDA_VISIBLE_DEVICES")]


def _renumber(gpu: FoundGpu, place: int) -> FoundGpu:
    """Return a GPU of AMD under the number that the next variable counts it by."""
    return FoundGpu(
        vendor=gpu.vendor, name=str(place), model=gpu.model, uuid=gpu.uuid, memory=gpu.memory, taken=gpu.taken
    )


def _gpus_named(gpus: Sequence[FoundGpu], text: str) -> list[FoundGpu]:
    """Return the GPUs that a list names. A name of no GPU ends the list (CUDA C++ Programming Guide, J.2)."""
    found: list[FoundGpu] = []
    for word in (part.strip() for part in text.split(",")):
        named = next((gpu for gpu in gpus if gpu.is_named(_device_of(word, gpu))), None)
        if named is None:
            break
        if named not in found:
            found.append(named)
    return found


def _device_of(word: str, gpu: FoundGpu) -> str:
    """Return the device of a word: Intel's ``0.1`` is tile 1 of GPU 0."""
    return word.partition(".")[0] if gpu.vendor == INTEL else word


def first_gpus(hardware: Hardware, count: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that leave a program the first ``count`` of the visible GPUs, and none of the others.

    A shell's own list is shortened, so that it stays a limit. Nothing is set where no GPU is hidden by it.
    """
    if count >= len(hardware.gpus):
        return {}
    variable, words = named_gpus(hardware, count, environment)
    if not words and hardware.gpus[0].vendor == INTEL:
        return {}  # no value of its mask hides all
    return {variable: ",".join(words) or NO_GPU}


def named_gpus(hardware: Hardware, count: int, environment: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the variable that chooses among the visible GPUs, of one vendor, and its words for the first ``count``.

    Of several variables that the environment has, the last one counts among the GPUs that the others leave.
    """
    vendor = hardware.gpus[0].vendor
    limits = limits_of(vendor, environment)
    if not limits:
        return VISIBILITY[vendor][0], tuple(gpu.name for gpu in hardware.gpus[:count])
    words = dict.fromkeys(part.strip() for part in environment[limits[-1]].split(","))
    return limits[-1], tuple(words)[: min(count, len(hardware.gpus))]
