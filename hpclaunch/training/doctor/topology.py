"""Reads a node's NUMA nodes, GPUs and network cards, each with its PCI address, from /sys and /proc; it judges nothing.

Every function takes the folder that stands for ``/``. What is not there, or may not be read, is left out. Of NVIDIA's
GPUs only nvidia-smi knows which of them this process may use, and their links: its answers are parsed here, and
rank_probe.py asks for them. Of AMD's GPUs both are in /sys.
"""

from __future__ import annotations

import os
import re
from typing import Any, Mapping, Sequence

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
"""A PCI address: domain, bus, device and function."""
VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
"""PCI classes of GPUs: VGA, 3D and other display controllers, and processing accelerators (MI300)."""
OWN_DISPLAY = ("0x8086", "0x0300")
"""Vendor and class of the display that is part of a processor: no GPU for ranks."""
VISIBLE = {"NVIDIA": ("CUDA_VISIBLE_DEVICES",), "AMD": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")}
LINK_TYPES = {"2": "PCIe", "11": "XGMI"}
"""Types of links between AMD's GPUs (the kernel's amdkfd driver); others lead to the processor."""
_NVIDIA_LINK = re.compile(r"NV\d+|PIX|PXB|PHB|NODE|SYS")


def numa_nodes(root: str) -> list[dict[str, Any]]:
    """The NUMA nodes: number, CPUs as the kernel lists them (``0-15,64-79``), bytes of memory (0: not known)."""
    folder = os.path.join(root, "sys/devices/system/node")
    found = []
    for number in sorted(int(name[4:]) for name in _names(folder) if re.fullmatch(r"node\d+", name)):
        own = os.path.join(folder, "node{}".format(number))
        memory = re.search(r"MemTotal:\s+(\d+) kB", _text(own, "meminfo"))
        found.append({"number": number, "cpus": _text(own, "cpulist"), "bytes": int(memory[1]) * 1024 if memory else 0})
    return found


def gpus(root: str) -> list[dict[str, Any]]:
    """The GPUs by PCI address: address, vendor, model, NUMA node (None: not known)."""
    devices = os.path.join(root, "sys/bus/pci/devices")
    found = []
    for address in _names(devices):
        own = os.path.join(devices, address)
        vendor, kind = _text(own, "vendor"), _text(own, "class")[:6]
        if vendor not in VENDORS or kind not in GPU_CLASSES or (vendor, kind) == OWN_DISPLAY:
            continue
        found.append(
            {
                "address": address,
                "vendor": VENDORS[vendor],
                "model": _model(root, address),
                "numa": numa_of(root, address),
            }
        )
    return found


def _model(root: str, address: str) -> str:
    """The name of a GPU: NVIDIA's driver and AMD's each have a file for it; else the numbers of vendor and device."""
    own = os.path.join(root, "sys/bus/pci/devices", address)
    nvidia = re.search(r"^Model:\s*(.+)$", _text(root, "proc/driver/nvidia/gpus", address, "information"), re.MULTILINE)
    if nvidia:
        return nvidia[1].strip()
    return _text(own, "product_name") or "{}:{}".format(_text(own, "vendor")[2:], _text(own, "device")[2:])


def numa_of(root: str, address: str) -> int | None:
    """The NUMA node of a PCI device, or None if the kernel does not know it."""
    text = _text(root, "sys/bus/pci/devices", address, "numa_node")
    return int(text) if text.isdigit() else None


def network_cards(root: str) -> list[dict[str, Any]]:
    """The network cards: their names, PCI address, NUMA node, Gbit/s (None: not known), whether the link is up.

    One card may have a network interface and an InfiniBand device; these are joined.
    """
    cards: dict[str, dict[str, Any]] = {}
    for name, address, rate, up in (*_interfaces(root), *_infiniband(root)):
        card = cards.setdefault(
            address, {"address": address, "names": [], "numa": numa_of(root, address), "gbits": None, "up": False}
        )
        card["names"].append(name)
        card["gbits"] = max(filter(None, (card["gbits"], rate)), default=None)
        card["up"] = card["up"] or up
    return [cards[address] for address in sorted(cards)]


def _interfaces(root: str) -> list[tuple[str, str, float | None, bool]]:
    """Name, PCI address, Gbit/s and state of every network interface that is a device."""
    found = []
    for name in _names(os.path.join(root, "sys/class/net")):
        own = os.path.join(root, "sys/class/net", name)
        address, speed = _address(own), _text(own, "speed")
        if address:
            rate = int(speed) / 1000 if speed.isdigit() and int(speed) else None
            found.append((name, address, rate, _text(own, "operstate") == "up"))
    return found


def _infiniband(root: str) -> list[tuple[str, str, float | None, bool]]:
    """Name, PCI address, Gbit/s and state of every InfiniBand device; the rates of its ports are added."""
    found = []
    for name in _names(os.path.join(root, "sys/class/infiniband")):
        own = os.path.join(root, "sys/class/infiniband", name)
        address, ports = _address(own), os.path.join(own, "ports")
        active = [port for port in _names(ports) if "ACTIVE" in _text(ports, port, "state")]
        rates = [re.match(r"[\d.]+", _text(ports, port, "rate")) for port in active]
        if address:
            found.append((name, address, sum(float(rate[0]) for rate in rates if rate) or None, bool(active)))
    return found


def _address(folder: str) -> str:
    """The PCI address of the device behind a class's folder; empty for one without: loopback, bridges, bonds."""
    link = os.path.join(folder, "device")
    if not os.path.exists(link):
        return ""
    addresses = [part for part in os.path.realpath(link).split(os.sep) if ADDRESS.fullmatch(part)]
    return addresses[-1] if addresses else ""


def amd_gpus(root: str) -> dict[str, str]:
    """The GPUs that AMD's driver lets this process use, in its order: node of the driver -> PCI address."""
    nodes = os.path.join(root, "sys/class/kfd/kfd/topology/nodes")
    found = {}
    for node in sorted(filter(str.isdigit, _names(nodes)), key=int):
        known = _properties(_text(nodes, node, "properties"))
        if int(known.get("simd_count", "0")):
            found[node] = _kfd_address(int(known.get("domain", "0")), int(known.get("location_id", "0")))
    return found


def _kfd_address(domain: int, location: int) -> str:
    """The PCI address in a location of AMD's driver: bus, device and function in 8, 5 and 3 bits."""
    return "{:04x}:{:02x}:{:02x}.{}".format(domain, location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7)


def amd_links(root: str) -> list[list[str]]:
    """The links between AMD's GPUs: two PCI addresses and the type, each pair once."""
    own, nodes = amd_gpus(root), os.path.join(root, "sys/class/kfd/kfd/topology/nodes")
    found = {}
    for node, address in own.items():
        for link in _names(os.path.join(nodes, node, "io_links")):
            known = _properties(_text(nodes, node, "io_links", link, "properties"))
            other, kind = own.get(known.get("node_to", ""), ""), LINK_TYPES.get(known.get("type", ""), "")
            if other and kind:
                found[tuple(sorted((address, other)))] = kind
    return [[one, other, kind] for (one, other), kind in sorted(found.items())]


def _properties(text: str) -> dict[str, str]:
    """The names and numbers of a file of AMD's driver, one of each per line."""
    lines = (line.split() for line in text.splitlines())
    return {words[0]: words[1] for words in lines if len(words) == 2 and words[1].isdigit()}


def nvidia_gpus(listing: str) -> list[tuple[str, str]]:
    """PCI address and UUID of the GPUs in ``nvidia-smi --query-gpu=pci.bus_id,uuid --format=csv,noheader``."""
    lines = (line.partition(",") for line in listing.splitlines())
    return [(plain_address(bus), uuid.strip()) for bus, _, uuid in lines if plain_address(bus)]


def plain_address(text: str) -> str:
    """A PCI address as /sys spells it; nvidia-smi writes capitals and a domain of eight digits."""
    found = text.strip().lower()
    return re.sub(r"^0000(?=[0-9a-f]{4}:)", "", found) if ADDRESS.fullmatch(found) else ""


def nvidia_links(matrix: str, addresses: Sequence[str]) -> list[list[str]]:
    """The links in ``nvidia-smi topo -m``: two PCI addresses and the type (NV12, PIX, SYS, …), each pair once.

    addresses: those of GPU0, GPU1, … in the order of nvidia-smi.
    """
    rows = [line.split() for line in re.sub(r"\x1b\[[\d;]*m", "", matrix).splitlines() if "GPU" in line]
    header = next((row for row in rows if row[0] == "GPU0" and row[1:2] != ["X"]), [])
    columns = [int(word[3:]) for word in header if re.fullmatch(r"GPU\d+", word)]
    found = []
    for row in rows:
        number = re.fullmatch(r"GPU(\d+)", row[0])
        if row is header or not number:
            continue
        for column, kind in zip(columns, row[1:]):
            ends = (int(number[1]), column)
            if ends[0] < ends[1] < len(addresses) and _NVIDIA_LINK.fullmatch(kind):
                found.append([addresses[ends[0]], addresses[ends[1]], kind])
    return found


def gpu_of_rank(
    usable: Sequence[tuple[str, str]], vendor: str, environ: Mapping[str, str], local_rank: int | None
) -> str | None:
    """The PCI address of the GPU that a rank computes on; None if it cannot be told.

    usable: PCI address and UUID of every GPU that this process may use. If the scheduler's variable leaves several, the
    local rank chooses, as training/rank/placement.py does.
    """
    names = [name for name in VISIBLE.get(vendor, ()) if environ.get(name)]
    left = [address for address, _ in usable]
    if names:
        chosen = [_named_gpu(usable, word.strip()) for word in environ[names[0]].split(",")]
        left = [address for address in chosen if address]
        if len(left) < len(chosen):
            return None
    if len(left) == 1:
        return left[0]
    return left[local_rank] if local_rank is not None and local_rank < len(left) else None


def _named_gpu(usable: Sequence[tuple[str, str]], word: str) -> str:
    """The PCI address of a GPU by its index or its UUID; empty if there is none."""
    if word.isdigit():
        return usable[int(word)][0] if int(word) < len(usable) else ""
    return next((address for address, uuid in usable if word and uuid.startswith(word)), "")


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _text(*parts: str) -> str:
    """The text of a small file; empty if it cannot be read, as the speed of a card whose link is down."""
    try:
        with open(os.path.join(*parts), errors="replace") as file:
            return file.read(65536).strip()
    except OSError:
        return ""
