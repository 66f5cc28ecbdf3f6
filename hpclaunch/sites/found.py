"""Looks at this machine: its CPUs, memory and GPUs. It reads files and loads NVML, and starts no program.

Every function takes the folder that stands for ``/``, and what loads a library. What is not there, or may not be read,
is not known. Of several vendors' GPUs those of the first count: NVIDIA, AMD, Intel.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hpclaunch.config.site import NodeType, Site
from hpclaunch.core.hardware import AMD, INTEL, NVIDIA, FoundGpu, Hardware, limits_of, visible_gpus
from hpclaunch.core.records import record
from hpclaunch.core.units import count

Load = Callable[[str], Any]
"""Loads a shared library by its name. Raises OSError."""
NVML = "libnvidia-ml.so.1"
SMALL = 4 * 2**30
"""Bytes; a GPU of AMD or Intel with less memory of its own is the display of a processor. hpclaunch's own number."""
BUSY = 0.1
"""A GPU of whose memory more is taken is in use by others. hpclaunch's own number: a driver reserves 1 %."""
GB = 2**30
_MOST_BYTES = 2**20


def find_hardware(environment: Mapping[str, str], root: str = "", load: Load = ctypes.CDLL) -> Hardware:
    """Return what this machine has, with the limits of the shell's variables."""
    logical, by = usable_cpus(root)
    cores = logical // _threads_per_core(root) or 1
    cpu, sockets = _processor(root)
    memory, memory_by = _memory(root)
    found = _first_gpus(root, load)
    shown = visible_gpus(found.gpus, environment)
    limit = _limit(found, environment)
    return Hardware(
        cpus=logical,
        cores=cores,
        cpu=cpu,
        sockets=sockets,
        memory=memory,
        gpus=shown,
        hidden=len(found.gpus) - len(shown),
        limit=limit,
        is_mixed=len({gpu.model for gpu in found.gpus}) > 1,
        how=(
            ("CPUs", f"{count(logical, 'CPU')}, {count(cores, 'core')}, by {by}"),
            *([("processor", f"{cpu}, by /proc/cpuinfo")] if cpu else []),
            *([("memory", f"{memory / GB:.0f} GB, by {memory_by}")] if memory else []),
            ("GPUs", f"{_gpus_in_words(found.gpus)}, by {found.by}"),
            *([("shell", f"{limit} leaves {len(shown)} of {count(len(found.gpus), 'GPU')}")] if limit else []),
        ),
        remarks=(*found.remarks, *_hidden_remarks(found, shown, limit), *_busy_remarks(shown)),
    )


def with_hardware(site: Site, hardware: Hardware) -> Site:
    """Return the site with what was found in its node types that are this machine; values of the file come first."""
    known = {name: _fill_node(node, hardware) if node.this_machine else node for name, node in site.node_types.items()}
    return replace(site, node_types=known)


def _fill_node(node: NodeType, hardware: Hardware) -> NodeType:
    sizes = [gpu.memory for gpu in hardware.gpus if gpu.memory]
    gpu_memory = int(min(sizes) / GB) if len(sizes) == len(hardware.gpus) and sizes else 0
    memory = int(hardware.memory / GB) if hardware.memory else 0
    return replace(
        node,
        cpu=node.cpu or hardware.cpu or None,
        sockets=node.sockets or hardware.sockets,
        cores_per_node=node.cores_per_node or hardware.cores,
        memory_gb=node.memory_gb or memory or None,
        gpus_per_node=node.gpus_per_node or len(hardware.gpus),
        gpu_model=node.gpu_model or next((gpu.model for gpu in hardware.gpus if gpu.model), None),
        gpu_memory_gb=node.gpu_memory_gb or gpu_memory or None,
    )


# --- CPUs and memory


def usable_cpus(root: str = "") -> tuple[int, str]:
    """Return the logical CPUs that this process may use, and what limits them: its affinity, or a quota of a cgroup."""
    cpus = len(os.sched_getaffinity(0))
    quota = min((found for found in map(_quota, _cgroups(root, "cpu")) if found), default=None)
    return (max(1, int(quota)), "cgroup") if quota is not None and quota < cpus else (cpus, "affinity")


def _quota(folder: str) -> float | None:
    """Return the CPUs of a cgroup's quota: ``cpu.max`` of version 2, ``cpu.cfs_*_us`` of version 1."""
    words = _text(folder, "cpu.max").split()
    if len(words) != 2:
        words = [_text(folder, "cpu.cfs_quota_us"), _text(folder, "cpu.cfs_period_us")]
    if not all(word.isdigit() for word in words) or not int(words[1]):
        return None
    return int(words[0]) / int(words[1]) or None


def _cgroups(root: str, controller: str) -> list[str]:
    """Return the folders of this process's cgroup and those above it, of version 2 and of a controller of version 1."""
    found: list[str] = []
    for line in _text(root, "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" or controller in controllers.split(","):
            mount = "sys/fs/cgroup" if number == "0" else f"sys/fs/cgroup/{controller}"
            parts = path.strip("/").split("/")
            found += [os.path.join(root or "/", mount, *parts[:length]) for length in range(len(parts), -1, -1)]
    return found


def _threads_per_core(root: str) -> int:
    folder = os.path.join(root or "/", "sys/devices/system/cpu")
    if _text(folder, "smt/active") != "1":
        return 1
    cpu = min(os.sched_getaffinity(0))
    spans = re.findall(r"(\d+)(?:-(\d+))?", _text(folder, f"cpu{cpu}/topology/thread_siblings_list"))
    return sum(int(last or first) - int(first) + 1 for first, last in spans) or 1


def _processor(root: str) -> tuple[str, int | None]:
    """Return the model and the number of sockets."""
    text = _text(root, "proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(\S.*)$", text, re.MULTILINE)
    sockets = set(re.findall(r"^physical id\s*:\s*(\d+)$", text, re.MULTILINE))
    return (" ".join(model[1].split()) if model else ""), len(sockets) or None


def _memory(root: str) -> tuple[int | None, str]:
    """Return the bytes that this process may use, and what limits them."""
    total = re.search(r"^MemTotal:\s+(\d+) kB", _text(root, "proc/meminfo"), re.MULTILINE)
    of_machine = int(total[1]) * 1024 if total else None
    texts = [
        _text(folder, name) for folder in _cgroups(root, "memory") for name in ("memory.max", "memory.limit_in_bytes")
    ]
    limit = min((int(text) for text in texts if text.isdigit()), default=None)
    if limit and (of_machine is None or limit < of_machine):
        return limit, "cgroup"
    return of_machine, "/proc/meminfo"


# --- GPUs


@record
class _Gpus:
    """The GPUs of one vendor, how they were counted, and remarks."""

    gpus: tuple[FoundGpu, ...] = ()
    by: str = ""
    remarks: tuple[str, ...] = ()


def _first_gpus(root: str, load: Load) -> _Gpus:
    """Return the GPUs of the first vendor that has some, with the remarks on all that were looked at."""
    remarks: list[str] = []
    for look in (_nvidia, _amd, _intel):
        found = look(root, load)
        remarks += found.remarks
        if found.gpus:
            return replace(found, remarks=tuple(remarks))
    return _Gpus(by="/proc/driver/nvidia, /sys/class/kfd and /sys/bus/pci", remarks=tuple(remarks))


def _nvidia(root: str, load: Load) -> _Gpus:
    """Count NVIDIA's GPUs by NVML; where it cannot be loaded, those of the driver that this process may open."""
    listed = _names(root, "proc/driver/nvidia/gpus")
    is_here = bool(listed) or _exists(root, "proc/driver/nvidia/version") or _exists(root, "dev/dxg")
    if not is_here:  # loading NVML takes milliseconds
        return _Gpus()
    try:
        library = load(NVML)
        code = int(library.nvmlInit_v2())
    except (OSError, AttributeError) as error:
        return _read_driver(root, listed, f"{NVML} cannot be loaded ({error})")
    if code:
        return _read_driver(root, listed, f"NVML does not start (error {code})", may_use=False)
    try:
        found, remarks = _ask_nvml(library)
    except AttributeError as error:
        return _read_driver(root, listed, f"{NVML} lacks a function ({error})")
    finally:
        _call(library, "nvmlShutdown")
    if not found:
        return _Gpus(remarks=(*remarks, *_driver_alone(listed, "NVML shows none of them")))
    return _Gpus(gpus=tuple(found), by="NVML", remarks=tuple(remarks))


def _read_driver(root: str, listed: list[str], why: str, may_use: bool = True) -> _Gpus:
    """Return the GPUs that the driver lists and this process may open."""
    found: list[FoundGpu] = []
    for place, address in enumerate(listed):
        text = _text(root, "proc/driver/nvidia/gpus", address, "information")
        values = dict(re.findall(r"^([^:\n]+):[ \t]*(\S.*?)\s*$", text, re.MULTILINE))
        minor = values.get("Device Minor", str(place))
        device = os.path.join(root or "/", "dev", f"nvidia{minor}")
        if may_use and os.access(device, os.R_OK | os.W_OK):
            model, uuid = values.get("Model", ""), values.get("GPU UUID", "")
            found.append(FoundGpu(vendor=NVIDIA, name=str(len(found)), model=model, uuid=uuid))
    if not found:
        return _Gpus(remarks=_driver_alone(listed, why))
    return _Gpus(gpus=tuple(found), by=f"/proc/driver/nvidia/gpus, as {why}")


def _driver_alone(listed: list[str], why: str) -> tuple[str, ...]:
    known = f"lists {count(len(listed), 'GPU')}" if listed else "is loaded, and lists no GPU"
    return (
        f"NVIDIA's driver {known}, but a program can use none: {why}; ranks compute on CPUs (nvidia-smi says more)",
    )


class _Memory(ctypes.Structure):
    """nvmlMemory_t, in bytes."""

    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def _ask_nvml(library: Any) -> tuple[list[FoundGpu], list[str]]:
    """Return the GPUs in NVML's order, which is that of their PCI addresses; of a divided one its MIG devices.

    CUDA counts in that order where they are alike, or CUDA_DEVICE_ORDER says so (core.hardware.cuda_order).
    """
    number = ctypes.c_uint()
    if _call(library, "nvmlDeviceGetCount_v2", ctypes.byref(number)):
        return [], []
    found: list[FoundGpu] = []
    remarks: list[str] = []
    for index in range(number.value):
        handle = ctypes.c_void_p()
        if _call(library, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle)):
            remarks.append(f"NVIDIA's GPU {index} does not answer, and is not used (nvidia-smi says more)")
            continue
        gpu = _nvml_gpu(library, handle, str(index))
        parts = _mig_devices(library, handle, gpu.uuid)
        if parts is None:
            found.append(gpu)
        elif parts:
            found += parts
        else:
            remarks.append(f"GPU {index} ({gpu.model}) is in MIG mode without a MIG device: no program can use it")
    return found, remarks


def _nvml_gpu(library: Any, handle: Any, name: str, parent: str = "") -> FoundGpu:
    """Return a GPU, or with a ``parent`` a MIG device, which CUDA knows by its UUID alone."""
    memory = _Memory()
    is_known = not _call(library, "nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
    uuid = _nvml_text(library, "nvmlDeviceGetUUID", handle)
    return FoundGpu(
        vendor=NVIDIA,
        name=uuid if parent else name,
        model=_nvml_text(library, "nvmlDeviceGetName", handle),
        uuid=uuid,
        memory=memory.total if is_known else None,
        taken=memory.used if is_known else None,
        parent=parent,
    )


def _mig_devices(library: Any, handle: Any, parent: str) -> list[FoundGpu] | None:
    """Return the MIG devices of a GPU; None if it is not divided."""
    now, later, most = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
    refused = _call(library, "nvmlDeviceGetMigMode", handle, ctypes.byref(now), ctypes.byref(later))
    if refused or now.value != 1:
        return None
    if _call(library, "nvmlDeviceGetMaxMigDeviceCount", handle, ctypes.byref(most)):
        return []
    found: list[FoundGpu] = []
    for place in range(most.value):  # places without a device answer NVML_ERROR_NOT_FOUND
        device = ctypes.c_void_p()
        place_ = ctypes.c_uint(place)
        if not _call(library, "nvmlDeviceGetMigDeviceHandleByIndex", handle, place_, ctypes.byref(device)):
            found.append(_nvml_gpu(library, device, "", parent or "a divided GPU"))
    return found


def _call(library: Any, name: str, *arguments: Any) -> int:
    """Return the code of a function; 0 is success. A library that lacks it refuses."""
    function = getattr(library, name, None)
    return 1 if function is None else int(function(*arguments))


def _nvml_text(library: Any, name: str, handle: Any) -> str:
    buffer = ctypes.create_string_buffer(96)  # NVML_DEVICE_NAME_V2_BUFFER_SIZE and ..._UUID_V2_BUFFER_SIZE
    refused = _call(library, name, handle, buffer, ctypes.c_uint(len(buffer)))
    return "" if refused else buffer.value.decode("utf-8", "replace").strip()


def _amd(root: str, load: Load) -> _Gpus:
    """Count AMD's GPUs in the topology of its driver, which hides those that a cgroup forbids."""
    nodes = "sys/class/kfd/kfd/topology/nodes"
    found: list[FoundGpu] = []
    for node in sorted(filter(str.isdigit, _names(root, nodes)), key=int):
        known = _properties(_text(root, nodes, node, "properties"))
        memory = _amd_memory(root, f"{nodes}/{node}")
        if not known.get("simd_count") or memory < SMALL:
            continue
        device = f"sys/bus/pci/devices/{_kfd_address(known.get('domain', 0), known.get('location_id', 0))}"
        taken = _text(root, device, "mem_info_vram_used")
        model = _text(root, device, "product_name") or _text(root, nodes, node, "name")
        found.append(
            FoundGpu(
                vendor=AMD,
                name=str(len(found)),
                model=model if model.startswith(AMD) or not model else f"{AMD} {model}",
                uuid=f"GPU-{known['unique_id']:016x}" if known.get("unique_id") else "",
                memory=memory,
                taken=int(taken) if taken.isdigit() else None,
            )
        )
    if found and not os.access(os.path.join(root or "/", "dev/kfd"), os.R_OK | os.W_OK):
        what = f"AMD's driver lists {count(len(found), 'GPU')}, but you may not open /dev/kfd: ranks compute on CPUs"
        return _Gpus(remarks=(f"{what} (on most systems the group render may)",))
    return _Gpus(gpus=tuple(found), by="/sys/class/kfd")


def _amd_memory(root: str, node: str) -> int:
    """Return the bytes of a GPU's own memory: its banks of the types 1 and 2 (frame buffer, public and private)."""
    banks = [
        _properties(_text(root, node, "mem_banks", bank, "properties")) for bank in _names(root, f"{node}/mem_banks")
    ]
    return sum(bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in (1, 2))


def _properties(text: str) -> dict[str, int]:
    """Return the names and numbers of a file of AMD's driver, one of each per line."""
    lines = (line.split() for line in text.splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdigit()}


def _kfd_address(domain: int, location: int) -> str:
    """Return the PCI address in a location of AMD's driver: bus, device and function in 8, 5 and 3 bits."""
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


_INTEL_CLASSES = ("0x0300", "0x0380")
"""PCI classes of Intel's GPUs: VGA (Arc) and other display controllers (Data Center GPU)."""
_INTEGRATED = "0000:00:02.0"
"""The PCI address of the display in Intel's processors."""


def _intel(root: str, load: Load) -> _Gpus:
    """Count Intel's GPUs among the PCI devices; Level Zero counts their tiles as devices (xe driver)."""
    found: list[FoundGpu] = []
    for address in _names(root, "sys/bus/pci/devices"):
        device = f"sys/bus/pci/devices/{address}"
        if address == _INTEGRATED or _text(root, device, "vendor") != "0x8086":
            continue
        renders = any(name.startswith("renderD") for name in _names(root, f"{device}/drm"))
        if _text(root, device, "class")[:6] not in _INTEL_CLASSES or not renders:
            continue
        tiles = sum(bool(re.fullmatch(r"tile\d+", name)) for name in _names(root, device)) or 1
        model = f"Intel GPU {_text(root, device, 'device')[2:]}"
        found += [FoundGpu(vendor=INTEL, name=str(len(found) + tile), model=model) for tile in range(tiles)]
    return _Gpus(gpus=tuple(found), by="/sys/bus/pci")


# --- words


def _gpus_in_words(gpus: tuple[FoundGpu, ...]) -> str:
    if not gpus:
        return "none"
    models = list(dict.fromkeys(gpu.model or gpu.vendor for gpu in gpus))
    sizes = list(dict.fromkeys(f"{gpu.memory / GB:.0f} GB" for gpu in gpus if gpu.memory))
    return f"{len(gpus)} x {' and '.join(models)}" + (f", {' and '.join(sizes)} each" if sizes else "")


def _limit(found: _Gpus, environment: Mapping[str, str]) -> str:
    """Return the last of the shell's variables that limit these GPUs, with its value; empty if there is none."""
    names = [name for gpu in found.gpus[:1] for name in limits_of(gpu.vendor, environment)]
    return f"{names[-1]}={environment[names[-1]]}" if names else ""


def _hidden_remarks(found: _Gpus, shown: tuple[FoundGpu, ...], limit: str) -> list[str]:
    """Return a remark if the shell hides all GPUs: ranks then compute on CPUs."""
    if shown or not found.gpus:
        return []
    name, _, value = limit.partition("=")
    all_of_them = "the GPU" if len(found.gpus) == 1 else f"all {len(found.gpus)} GPUs"
    if any(gpu.parent for gpu in found.gpus) and value.split(",")[0].strip().isdigit():
        advice = "a MIG device is named by its UUID (nvidia-smi -L)"
        return [f"{name}={value!r} of this shell may hide {all_of_them}, and none is counted: {advice}"]
    return [f"{name}={value!r} of this shell hides {all_of_them}: ranks compute on CPUs"]


def _busy_remarks(shown: tuple[FoundGpu, ...]) -> list[str]:
    """Return one remark on the GPUs whose memory others have taken."""
    busy = [gpu for gpu in shown if gpu.memory and gpu.taken is not None and gpu.taken > BUSY * gpu.memory]
    if not busy:
        return []
    words = [
        f"GPU {gpu.name}: {gpu.taken / GB:.0f} of {gpu.memory / GB:.0f} GB" for gpu in busy if gpu.taken and gpu.memory
    ]
    verb = "is" if len(busy) == 1 else "are"
    limit = limits_hint(busy[0].vendor)
    return [f"{count(len(busy), 'GPU')} {verb} in use by other programs ({', '.join(words)}); {limit} leaves it out"]


def limits_hint(vendor: str) -> str:
    """Return the variable with which a person chooses GPUs."""
    return {NVIDIA: "CUDA_VISIBLE_DEVICES", AMD: "ROCR_VISIBLE_DEVICES"}.get(vendor, "ZE_AFFINITY_MASK")


# --- files


def _names(root: str, folder: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(root or "/", folder)))
    except OSError:
        return []


def _exists(root: str, path: str) -> bool:
    return os.path.exists(os.path.join(root or "/", path))


def _text(root: str, *parts: str) -> str:
    """Return the text of a small file; empty if it cannot be read."""
    try:
        with open(os.path.join(root or "/", *parts), "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""
