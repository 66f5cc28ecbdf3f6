"""Network namespaces of a test cluster's nodes on its slot's bridge: makes them, finds who runs there, removes them."""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path

from cluster_config import MAX_SLOTS, ClusterError, Options, bridge, host_address, node_address

NETNS = Path("/run/netns")
PREFIX = "hpcl-"


def prefix(slot: int) -> str:
    """What the names of a slot's namespaces and cables begin with."""
    return PREFIX if slot == 1 else f"hpcl{slot}-"


def run(*command: str) -> str:
    """Run a command; its output, or ClusterError with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise ClusterError(f"'{' '.join(command)}' failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def owner(slot: int) -> str | None:
    """The root directory of the cluster that a slot's bridge belongs to, or None when there is no bridge."""
    alias = Path("/sys/class/net") / bridge(slot) / "ifalias"
    return alias.read_text(encoding="utf-8").strip() if alias.exists() else None


def slot_of(root: str) -> int | None:
    """The slot in which a cluster with this root runs, or None."""
    return next((slot for slot in range(1, MAX_SLOTS + 1) if owner(slot) == root), None)


def create(options: Options) -> None:
    """One bridge with the host's address, and for each node a namespace whose eth0 is plugged into it."""
    slot, switch = options.slot, bridge(options.slot)
    run("ip", "link", "add", switch, "type", "bridge")
    run("ip", "link", "set", switch, "alias", options.root)
    run("ip", "address", "add", f"{host_address(slot)}/24", "dev", switch)
    run("ip", "link", "set", switch, "up")
    for number, node in enumerate(options.node_names, start=1):
        namespace, cable = prefix(slot) + node, prefix(slot) + str(number)
        run("ip", "netns", "add", namespace)
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        run("ip", "link", "set", cable, "master", switch, "up")
        run("ip", "-n", namespace, "address", "add", f"{node_address(slot, number)}/24", "dev", "eth0")
        run("ip", "-n", namespace, "link", "set", "eth0", "up")
        run("ip", "-n", namespace, "link", "set", "lo", "up")


def enter(node: str, slot: int = 1) -> list[str]:
    """The command prefix that runs something in a node's network and in fresh mount and UTS namespaces.

    `ip netns exec` will not do: it mounts /sys anew, and slurmd then finds no cgroup.
    """
    return ["nsenter", f"--net={NETNS / (prefix(slot) + node)}", "unshare", "--mount", "--uts"]


def processes(slot: int = 1) -> list[int]:
    """Every process in the nodes: slurmd, slurmstepd, and all that jobs left behind."""
    wanted = {(found.st_dev, found.st_ino) for found in map(Path.stat, _namespaces(slot))}
    if not wanted:
        return []
    inside = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            net = (entry / "ns" / "net").stat()
        except OSError:
            continue
        if (net.st_dev, net.st_ino) in wanted:
            inside.append(int(entry.name))
    return inside


def remove(slot: int) -> None:
    """Delete namespaces, cables and bridge; the processes inside must be gone by now."""
    for namespace in _namespaces(slot):
        run("ip", "netns", "delete", namespace.name)
    for device in sorted(Path("/sys/class/net").iterdir()):
        if device.name == bridge(slot) or re.fullmatch(prefix(slot) + r"\d+", device.name):
            # A cable vanishes by itself, with its namespace, at any moment.
            subprocess.run(["ip", "link", "delete", device.name], capture_output=True)
    _remove_empty_netns_directory()


def _remove_empty_netns_directory() -> None:
    """`ip netns add` mounts /run/netns on itself; without any namespace left, that goes as well."""
    if NETNS.is_dir() and not any(NETNS.iterdir()):
        subprocess.run(["umount", str(NETNS)], capture_output=True)
        with contextlib.suppress(OSError):
            NETNS.rmdir()


def _namespaces(slot: int) -> list[Path]:
    return sorted(NETNS.glob(prefix(slot) + "*"))
