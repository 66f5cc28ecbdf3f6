"""Nodes and all-reduce times as lines of text; it decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.actions.clusters.diagnosis.all_reduce import AllReduceReport
from hpclaunch.actions.clusters.diagnosis.topology import NetworkCard, NodeGpu, NodeTopology, NumaNode, RankPlace
from hpclaunch.core.units import count
from hpclaunch.guidelines.communication import GIGA
from hpclaunch.guidelines.measured_link import bus_bandwidth

_MOST_RANKS = 16
"""Ranks of a node that are shown."""
_SIZES = ((2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def node_lines(node: NodeTopology) -> list[str]:
    """Return a node: its NUMA nodes, GPUs, network cards and ranks, each with the NUMA node that it is in."""
    others = f" (and {count(len(node.alike), 'other node')} like it)" if node.alike else ""
    lines = [f"node {node.host}{others}"]
    lines += [f"  NUMA {one.number}  {_numa_words(one)}" for one in node.numa]
    lines += [f"  GPU {number}   {_gpu_words(gpu)}" for number, gpu in enumerate(node.gpus)]
    lines += [f"  links   {text}" for text in _link_words(node)]
    lines += [f"  NIC     {_card_words(card)}" for card in node.cards]
    lines += [f"  rank {place.rank}  {_place_words(node, place)}" for place in node.ranks[:_MOST_RANKS]]
    more = len(node.ranks) - _MOST_RANKS
    return [*lines, f"  and {count(more, 'other rank')} (--json has all)"] if more > 0 else lines


def _numa_words(one: NumaNode) -> str:
    memory = f", {one.gbytes:.0f} GB" if one.gbytes else ""
    return (f"CPUs {one.cpus}" if one.cpus else "no CPUs") + memory


def _numa_of(number: int | None) -> str:
    return "NUMA node not known" if number is None else f"NUMA {number}"


def _gpu_words(gpu: NodeGpu) -> str:
    model = gpu.model if gpu.model.startswith(gpu.vendor) else f"{gpu.vendor} {gpu.model}"
    return f"{gpu.address}  {model}, {_numa_of(gpu.numa)}"


def _link_words(node: NodeTopology) -> list[str]:
    """Return the links between GPUs: one line for each type."""
    found: dict[str, list[str]] = {}
    for one, other, kind in node.links:
        found.setdefault(kind, []).append(f"{node.gpu_number(one)}-{node.gpu_number(other)}")
    every = len(node.gpus) * (len(node.gpus) - 1) // 2
    return [
        f"{kind} between " + ("all GPUs" if len(pairs) == every > 1 else f"GPUs {', '.join(pairs)}")
        for kind, pairs in found.items()
    ]


def _card_words(card: NetworkCard) -> str:
    rate = "speed not known"
    if not card.up:
        rate = "down"
    elif card.gbits is not None:
        rate = f"{card.gbits:g} Gbit/s"
    return f"{card.address}  {', '.join(card.names)}, {rate}, {_numa_of(card.numa)}"


def _place_words(node: NodeTopology, place: RankPlace) -> str:
    numa = f" (NUMA {', '.join(map(str, place.numa))})" if place.numa else ""
    gpu = node.gpu(place.gpu)
    own = "" if gpu is None else f", GPU {node.gpu_number(gpu.address)} ({_numa_of(gpu.numa)})"
    return f"CPUs {place.cpus}{numa}{own}"


def all_reduce_lines(found: AllReduceReport) -> list[str]:
    """Return the table of the times by size."""
    where = " between GPUs" if found.on_gpus else ""
    lines = [f"all-reduce{where}: {found.ranks}, {found.library} over {found.through}"]
    lines.append(_row(("size", "time", "GB/s", "bus GB/s")))
    for timed in found.times:
        speeds = (timed.size / timed.seconds, bus_bandwidth(timed, found.group.ranks))
        cells = (_amount(timed.size, _SIZES), _amount(timed.seconds, _TIMES))
        lines.append(_row((*cells, *(f"{speed / GIGA:.3g}" for speed in speeds))))
    lines.append("  bus GB/s = size / time x 2 (p - 1) / p for p ranks: the bandwidth that a link needs for it")
    return lines


def _row(cells: Sequence[str]) -> str:
    return "  " + "".join(cell.rjust(12) for cell in cells)


def _amount(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Return a value with three digits, in the largest unit of which there is at least one."""
    size, name = next((pair for pair in units if value >= pair[0]), units[-1])
    return f"{value / size:.3g} {name}"
