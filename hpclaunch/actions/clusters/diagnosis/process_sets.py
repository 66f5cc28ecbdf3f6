"""The check of Horovod's process sets, which ranks need that share a model, and their all-reduces in a node. Pure."""

from __future__ import annotations

from hpclaunch.actions.clusters.diagnosis.all_reduce import AllReduceReport, all_reduce_report, report_among
from hpclaunch.actions.clusters.diagnosis.evidence import Check, ProbeEvidence
from hpclaunch.core.units import count
from hpclaunch.guidelines.communication import Group

PROCESS_SETS = "process sets"
_STEP = "process_sets"


def inside_report(evidence: ProbeEvidence) -> AllReduceReport | None:
    """Return what the ranks of a node measured among themselves; None if that is all ranks, or a part of a node.

    Raises ValueError for a size or a time that is none.
    """
    known = next((rank[_STEP] for rank in evidence.ranks if rank.get(_STEP)), None)
    world = all_reduce_report(evidence)
    if known is None or world is None or not known.get("inside"):
        return None
    ranks = int(known["shared_by"])
    return report_among(known["inside"], Group(nodes=1, per_node=ranks)) if ranks == world.group.per_node else None


def process_sets_check(evidence: ProbeEvidence) -> Check | None:
    """Return the check of the process sets; None if there is one rank, or other checks say why there is no world."""
    problem = evidence.problem_in(_STEP)
    if problem:
        hint = "models that ranks share need them; all other jobs can run"
        return Check(name=PROCESS_SETS, verdict="FAIL", what=problem, next=hint)
    found = evidence.values_of(_STEP)
    if len(found) < len(evidence.ranks) or not found or not found[0]:
        return None
    groups = found[0]["groups"]
    if not groups:
        what = f"a model that all {count(len(evidence.ranks), 'rank')} share needs none; the sum of all is right"
        return Check(name=PROCESS_SETS, verdict="PASS", what=what)
    inside = inside_report(evidence)
    times = f"; in a node {inside.link.words}" if inside else ""
    what = f"{count(len(groups), 'group')} of {_sizes(groups)} ranks, each with its own sum{times}"
    return Check(name=PROCESS_SETS, verdict="PASS", what=what)


def _sizes(groups: list[list[int]]) -> str:
    return " and ".join(map(str, sorted({len(group) for group in groups})))
