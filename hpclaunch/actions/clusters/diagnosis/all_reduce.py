"""The all-reduce times that a probe job's ranks reported, and their check. Pure."""

from __future__ import annotations

from typing import Any

from hpclaunch.actions.clusters.diagnosis.evidence import Check, Facts, ProbeEvidence
from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.guidelines.communication import Group, MeasuredLink
from hpclaunch.guidelines.measured_link import TimedSize, bus_bandwidth, fitted_link

ALL_REDUCE = "all-reduce"
_STEP = "all_reduce"
FEWEST_SIZES = 2
"""Sizes that tell latency from bandwidth."""


@record
class AllReduceReport:
    """The measured all-reduces of a probe: the library, what carried its messages, the ranks, and the times by size."""

    library: str
    through: str
    on_gpus: bool
    group: Group
    times: tuple[TimedSize, ...]

    @property
    def ranks(self) -> str:
        """The ranks in words."""
        return f"{count(self.group.nodes, 'node')} x {count(self.group.per_node, 'rank')}"

    @property
    def link(self) -> MeasuredLink:
        """Latency and bandwidth, fitted to the times."""
        return fitted_link(self.times, self.group, on_gpus=self.on_gpus)

    def to_json(self) -> dict[str, Any]:
        """Return plain values: every size with its time and bandwidths, and the fit."""
        link = self.link
        return {
            "library": self.library,
            "through": self.through,
            "on_gpus": self.on_gpus,
            "nodes": self.group.nodes,
            "ranks_per_node": self.group.per_node,
            "rows": [
                {
                    "bytes": timed.size,
                    "seconds": timed.seconds,
                    "bytes_per_s": timed.size / timed.seconds,
                    "bus_bytes_per_s": bus_bandwidth(timed, self.group.ranks),
                }
                for timed in self.times
            ],
            "latency_s": link.latency_s,
            "bandwidth_bytes_per_s": link.bytes_per_s,
        }


def all_reduce_report(evidence: ProbeEvidence) -> AllReduceReport | None:
    """Return what the first rank measured; None if it measured too little, or with another world than requested.

    Raises ValueError for a size or a time that is none.
    """
    layout = evidence.spec["layout"]
    group = Group(nodes=int(layout["nodes"]), per_node=int(layout["tasks_per_node"]))
    known = next((rank[_STEP] for rank in evidence.ranks if rank.get(_STEP)), None)
    worlds = {world["size"] for world in evidence.values_of("world")}
    if known is None or worlds != {group.ranks}:
        return None
    return report_among(known, group)


def report_among(known: Facts, group: Group) -> AllReduceReport | None:
    """Return what a rank measured among the ranks of a group; None if it is too little. Raises ValueError."""
    times = [TimedSize(size=int(row["bytes"]), seconds=float(row["seconds"])) for row in known["rows"]]
    if group.ranks < 2 or len({timed.size for timed in times}) < FEWEST_SIZES:
        return None
    return AllReduceReport(
        library=str(known["library"]),
        through=str(known["through"]),
        on_gpus=bool(known["on_gpus"]),
        group=group,
        times=tuple(times),
    )


def all_reduce_check(evidence: ProbeEvidence) -> Check | None:
    """Return the check of the all-reduces; None if there is one rank, or other checks say why there is no world."""
    problem, found = evidence.problem_in(_STEP), all_reduce_report(evidence)
    if problem:
        hint = f"read its log: hpclaunch logs {evidence.spec['run_dir'].rpartition('/')[2]}"
        return Check(name=ALL_REDUCE, verdict="FAIL", what=problem, next=hint)
    if found is not None:
        what = f"{found.ranks} with {found.library} over {found.through}: {found.link.words}"
        return Check(name=ALL_REDUCE, verdict="PASS", what=what)
    if any(rank.get(_STEP) for rank in evidence.ranks):
        what = "it is too slow to be measured: two sizes took more than half a minute"
        return Check(name=ALL_REDUCE, verdict="WARN", what=what, next="check the network, and the site file's launcher")
    return None
