# ruff: noqa: N802 # the names of NVML's functions
"""Machines as plain folders, and a stand-in for NVML that is as strict about its arguments as the library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpclaunch.core.records import record

SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE = 0, 2, 3, 6, 7
H200 = 143771 * 2**20


@record
class Card:
    """A GPU of the stand-in; ``parts``: its MIG devices by place (None: no MIG mode); ``lost``: it gives no handle."""

    model: str = "NVIDIA H200"
    memory: int = H200
    taken: int = 600 * 2**20
    parts: tuple[str | None, ...] | None = None
    lost: bool = False


class Nvml:
    """Answers as libnvidia-ml.so.1: codes, values by reference, and opaque handles."""

    def __init__(self, cards: tuple[Card, ...], code: int = SUCCESS) -> None:
        self.cards, self.code, self.opened = cards, code, 0

    def nvmlInit_v2(self) -> int:
        self.opened += not self.code
        return self.code

    def nvmlShutdown(self) -> int:
        self.opened -= 1
        return SUCCESS

    def nvmlDeviceGetCount_v2(self, number: Any) -> int:
        number._obj.value = len(self.cards)
        return SUCCESS

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        if self.cards[index.value].lost:
            return 15  # NVML_ERROR_GPU_IS_LOST
        handle._obj.value = 1000 + 100 * index.value
        return SUCCESS

    def _at(self, handle: Any) -> tuple[Card, int, int]:
        number, part = divmod(handle.value - 1000, 100)
        return self.cards[number], number, part

    def nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        card, _, part = self._at(handle)
        assert ctypes.sizeof(memory._obj) == 24
        share = 7 if part else 1
        memory._obj.total, memory._obj.used = card.memory // share, card.taken // share
        memory._obj.free = memory._obj.total - memory._obj.used
        return SUCCESS

    def nvmlDeviceGetName(self, handle: Any, buffer: Any, size: Any) -> int:
        card, _, part = self._at(handle)
        return self._write(f"{card.model} MIG 1g.18gb" if part else card.model, buffer, size)

    def nvmlDeviceGetUUID(self, handle: Any, buffer: Any, size: Any) -> int:
        card, number, part = self._at(handle)
        text = str((card.parts or ())[part - 1]) if part else f"GPU-{number:08x}-aaaa-bbbb-cccc-dddddddddddd"
        return self._write(text, buffer, size)

    @staticmethod
    def _write(text: str, buffer: Any, size: Any) -> int:
        if size.value < len(text) + 1:
            return INSUFFICIENT_SIZE
        buffer.value = text.encode()
        return SUCCESS

    def nvmlDeviceGetMigMode(self, handle: Any, now: Any, later: Any) -> int:
        card, _, part = self._at(handle)
        if part:
            return INVALID_ARGUMENT
        now._obj.value = later._obj.value = int(card.parts is not None)
        return SUCCESS

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, number: Any) -> int:
        number._obj.value = 7
        return SUCCESS

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, place: Any, device: Any) -> int:
        card, number, _ = self._at(handle)
        parts = card.parts or ()
        if place.value >= len(parts) or parts[place.value] is None:
            return NOT_FOUND
        device._obj.value = 1000 + 100 * number + place.value + 1
        return SUCCESS


def loads(library: Any) -> Callable[[str], Any]:
    """What loads a shared library: this one is NVML, and there is no other. None: there is no NVML either."""

    def load(name: str) -> Any:
        assert name == "libnvidia-ml.so.1", name
        if library is None:
            raise OSError(f"{name}: cannot open shared object file: No such file or directory")
        return library

    return load


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def plain_machine(root: Path) -> Path:
    """A machine without a GPU: two sockets, 64 GB."""
    write(root, "proc/meminfo", "MemTotal:       65536000 kB\nMemFree: 1 kB\n")
    cpu = "model name\t: AMD EPYC 7763 64-Core Processor\n"
    write(root, "proc/cpuinfo", "".join(f"processor: {n}\n{cpu}physical id\t: {n // 2}\n" for n in range(4)))
    return root


def nvidia_machine(root: Path, gpus: int, openable: bool = True) -> Path:
    """A machine whose driver lists so many GPUs."""
    plain_machine(root)
    write(root, "proc/driver/nvidia/version", "NVRM version: 580.1\n")
    for number in range(gpus):
        text = f"Model: \t\t NVIDIA H200\nIRQ: 1\nGPU UUID: \t GPU-{number}\nDevice Minor: \t {number}\n"
        write(root, f"proc/driver/nvidia/gpus/0000:{number + 1:02x}:00.0/information", text)
        if openable:
            write(root, f"dev/nvidia{number}", "")
    return root


def amd_machine(root: Path, gpus: int, *, openable: bool = True, integrated: bool = False) -> Path:
    """A machine with AMD's driver: node 0 is the processor."""
    plain_machine(root)
    nodes = "sys/class/kfd/kfd/topology/nodes"
    write(root, f"{nodes}/0/properties", "cpu_cores_count 64\nsimd_count 0\n")
    for number in range(gpus):
        node, address = f"{nodes}/{number + 1}", f"0000:{number + 1:02x}:00.0"
        properties = f"simd_count 440\ndomain 0\nlocation_id {(number + 1) << 8}\nunique_id {4096 + number}\n"
        write(root, f"{node}/properties", properties)
        size = 2**29 if integrated else 64 * 2**30
        write(root, f"{node}/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {size}\n")
        write(root, f"sys/bus/pci/devices/{address}/product_name", "AMD Instinct MI250X\n")
        write(root, f"sys/bus/pci/devices/{address}/mem_info_vram_used", str(2**24))
    if openable:
        write(root, "dev/kfd", "")
    return root


def intel_machine(root: Path, tiles: int) -> Path:
    """A machine with the display of its processor, and one GPU of several tiles."""
    plain_machine(root)
    for address, kind, parts in (("0000:00:02.0", "0x030000", 0), ("0000:4d:00.0", "0x038000", tiles)):
        device = f"sys/bus/pci/devices/{address}"
        for name, text in (("vendor", "0x8086"), ("class", kind), ("device", "0x0bd5"), ("drm/renderD128/dev", "1")):
            write(root, f"{device}/{name}", text + "\n")
        for tile in range(parts):
            write(root, f"{device}/tile{tile}/gt", "")
    return root
