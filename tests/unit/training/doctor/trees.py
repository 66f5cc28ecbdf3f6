"""Recorded and constructed trees of /sys and /proc, for the tests of the topology."""

from __future__ import annotations

from pathlib import Path

PCI = "sys/bus/pci/devices"
XGMI, PCIE = "11", "2"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def numa(root: Path, *nodes: tuple[str, int]) -> None:
    """NUMA nodes with these CPUs and this memory in GiB."""
    for number, (cpus, memory) in enumerate(nodes):
        own = f"sys/devices/system/node/node{number}"
        write(root, {f"{own}/cpulist": cpus, f"{own}/meminfo": f"Node {number} MemTotal:  {memory * 2**20} kB"})
    write(root, {"sys/devices/system/node/possible": f"0-{len(nodes) - 1}"})


def device(root: Path, address: str, ids: str, kind: str, numa_node: int) -> None:
    """A PCI device: ``ids`` are vendor and device, ``kind`` its class."""
    vendor, number = ids.split(":")
    own = f"{PCI}/{address}"
    write(root, {f"{own}/vendor": f"0x{vendor}", f"{own}/device": f"0x{number}"})
    write(root, {f"{own}/class": f"0x{kind}", f"{own}/numa_node": str(numa_node)})


def card(root: Path, address: str, interface: str = "", infiniband: str = "", **files: str) -> None:
    """The names of a network card; ``files``: of the interface, or of port 1 of the InfiniBand device."""
    own = root / "sys/devices/pci0000:00" / address
    own.mkdir(parents=True, exist_ok=True)
    for kind, name in (("net", interface), ("infiniband", infiniband)):
        if name:
            folder = root / "sys/class" / kind / name
            folder.mkdir(parents=True)
            (folder / "device").symlink_to(own)
            inner = folder if kind == "net" else folder / "ports/1"
            write(inner, files)


def nvidia_node(root: Path) -> Path:
    """Two sockets with two A100 each, as nodes of Perlmutter have four GPUs; a card per socket, and a bridge."""
    numa(root, ("0-31,64-95", 256), ("32-63,96-127", 256))
    for address, number in (("0000:03:00.0", 0), ("0000:41:00.0", 0), ("0000:82:00.0", 1), ("0000:c1:00.0", 1)):
        device(root, address, "10de:20b0", "030200", number)
        own = f"proc/driver/nvidia/gpus/{address}/information"
        write(root, {own: f"Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 255\nBus Location: \t {address}"})
    device(root, "0000:01:00.0", "1a03:2000", "030000", 0)  # the display of the board's own controller
    device(root, "0000:21:00.0", "15b3:101b", "020700", 0)
    card(root, "0000:21:00.0", infiniband="mlx5_0", rate="200 Gb/sec (4X HDR)", state="4: ACTIVE")
    card(root, "0000:21:00.0", interface="ib0", speed="200000", operstate="up")
    device(root, "0000:a1:00.0", "15b3:101b", "020000", 1)
    card(root, "0000:a1:00.0", interface="eth0", speed="-1", operstate="down")
    (root / "sys/class/net/lo").mkdir()
    return root


def amd_node(root: Path) -> Path:
    """One socket with four NUMA nodes, and an MI250X in two of them: two GPUs each, joined by xGMI."""
    numa(root, *((f"{16 * number}-{16 * number + 15}", 128) for number in range(4)))
    places = (("0000:c1:00.0", 3), ("0000:c6:00.0", 3), ("0000:d1:00.0", 1), ("0000:d6:00.0", 1))
    kfd = "sys/class/kfd/kfd/topology/nodes"
    for node in range(4):
        write(root, {f"{kfd}/{node}/properties": "cpu_cores_count 16\nsimd_count 0"})
    for number, (address, numa_node) in enumerate(places, start=4):
        device(root, address, "1002:7408", "038000", numa_node)
        location = int(address[5:7], 16) << 8
        text = f"cpu_cores_count 0\nsimd_count 440\nlocation_id {location}\ndomain 0"
        write(root, {f"{kfd}/{number}/properties": text, f"{PCI}/{address}/product_name": "AMD Instinct MI250X"})
        others = [other for other in range(4, 8) if other != number]
        links = [(0, PCIE), *((other, XGMI if other // 2 == number // 2 else PCIE) for other in others)]
        for link, (other, kind) in enumerate(links):
            own = f"{kfd}/{number}/io_links/{link}/properties"
            write(root, {own: f"type {kind}\nnode_from {number}\nnode_to {other}"})
    return root
