"""Whether the nodes of a run may be of several types: what the scheduler, the site and the request allow."""

from __future__ import annotations

from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.sizing import Sizing
from hpclaunch.resolve.strategies import takes_several_gpus

_FLAG = "--node-type"
_ONE_TYPE = "--node-type NAME --nodes N"


def check_components(case: Case, sizing: Sizing, decisions: Decisions) -> None:
    """Note a fault for everything that a heterogeneous job cannot have; nothing for nodes of one type."""
    if not sizing.further:
        return
    site, request, row = case.site, case.request, case.site.scheduler_row
    if not row.component_directive:
        what = f"{site.name} has no scheduler that joins nodes of several types into one job"
        decisions.fault(what, where=_FLAG, next="name a Slurm site (hpclaunch sites list)")
    elif site.heterogeneous_jobs is False:
        what = f"{site.name} accepts no jobs with nodes of several types (heterogeneous_jobs in its site file)"
        decisions.fault(what, where=_FLAG, next=_ONE_TYPE)
    if request.sweep:
        what = f"{row.title} has no job arrays with nodes of several types"
        decisions.fault(what, where="--sweep", next=f"{_ONE_TYPE}; or submit each run with --set")
    if takes_several_gpus(request):
        what = f"the strategy {request.strategy} needs the same number of GPUs on every node"
        decisions.fault(what, where=_FLAG, next="leave --strategy out")
    typed = [request.node_type, *(name for name, _ in request.further_nodes)]
    for name in sorted({str(name) for name in typed if typed.count(name) > 1}):
        decisions.fault(f"{name} is named twice", where=_FLAG, next="name it once, with the number of all its nodes")
    _check_software(case, [one.node_type for one in sizing.components], decisions)
    _check_inherited(sizing, decisions)


def _check_software(case: Case, names: list[str], decisions: Decisions) -> None:
    """Note a fault if node types have software of their own: the script loads it once, for the ranks of all nodes."""
    first = case.node(names[0])
    for name in dict.fromkeys(names[1:]):
        node = case.node(name)
        if (node.environment, node.frameworks) != (first.environment, first.frameworks):
            what = f"{names[0]} and {name} have different software, and a script loads one for all ranks"
            decisions.fault(what, where=f"{case.site.name} node_types", next=_ONE_TYPE)


def _check_inherited(sizing: Sizing, decisions: Decisions) -> None:
    """Note a fault if a component names no QOS: Slurm gives it that of the first one (heterogeneous_jobs)."""
    given = sizing.placement.qos
    for one in sizing.further:
        if given and not one.placement.qos:
            what = f"the {one.node_type} nodes would get the QOS {given!r} of the {sizing.node_type} nodes"
            decisions.fault(what, where=_FLAG, next="name one for all with --qos, or the other node type first")
