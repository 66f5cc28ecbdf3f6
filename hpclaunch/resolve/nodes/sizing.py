"""How large a run is and where it goes: the first half of resolving, which the planner asks for many node counts."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.core.records import record
from hpclaunch.core.spec import Layout
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.alternatives import Wanted, longest_piece
from hpclaunch.resolve.nodes.layout import layout_of
from hpclaunch.resolve.nodes.placement import Placement, named_places, placement_of
from hpclaunch.resolve.nodes.restarts import RestartRequest, restart_request_of
from hpclaunch.resolve.nodes.size import node_type_of, size_of
from hpclaunch.resolve.strategies import takes_several_gpus

_FLAG = "--node-type"
_ONE_TYPE = "--node-type NAME --nodes N"


@record
class Sizing:
    """Node type, layout and placement of a request, and how often it may start again.

    ``further``: the same for the further node types of a heterogeneous job; the layout has theirs, too.
    """

    node_type: str
    layout: Layout
    placement: Placement
    restart_request: RestartRequest
    further: tuple[Sizing, ...] = ()

    @property
    def components(self) -> tuple[Sizing, ...]:
        """The sizing of each component; for nodes of one type this one alone."""
        return (self, *self.further)


def sizing_of(case: Case, decisions: Decisions) -> Sizing:
    """Return the sizing; every reason to refuse the request becomes a fault in the decisions.

    Each node type of a heterogeneous job is sized like a request of its own; all of them get the same walltime.
    """
    if not case.request.further_nodes:
        return _sizing_of_component(case, decisions)
    own_case, *further_cases = _cases_of_components(case)
    first = _sizing_of_component(own_case, decisions)
    further = []
    for one in further_cases:
        own = Decisions()
        further.append(_sizing_of_component(one, own))
        decisions.add(own)
    decisions.choices = [replace(one, origin="--node-type") if one.key == "nodes" else one for one in decisions.choices]
    layout = replace(first.layout, further=tuple(one.layout for one in further))
    return replace(first, layout=layout, further=tuple(further))


def one_process_on(case: Case) -> Case:
    """Return the case with one process on one node, which gets what the site gives to one."""
    return replace(case, request=replace(case.request, nodes=1, tasks_per_node=1, further_nodes=()))


def longest_job_on(case: Case, sizing: Sizing, most: int) -> int:
    """Return the longest walltime (seconds), up to ``most``, that any partition and QOS accept for a request's nodes.

    It is 0 where none accept them. A longer walltime leads to another partition than the usual one, so that a plan
    must know both.
    """
    unused = Decisions()
    named, size = named_places(case, unused), size_of(case, sizing.node_type, unused)
    ask = replace(size.ask(sizing.node_type), walltime=most)
    return longest_piece(Wanted(site=case.site, ask=ask, named=named))


def _cases_of_components(case: Case) -> list[Case]:
    """Return a case for each node type of a heterogeneous job.

    Where the run becomes a chain, no job of it is longer than the shortest that one of the node types would have.
    """
    requests = [
        case.request,
        *(replace(case.request, node_type=name, nodes=int(nodes)) for name, nodes in case.request.further_nodes),
    ]
    cases = [replace(case, request=request) for request in requests]
    walltimes = {_sizing_of_component(one, Decisions()).placement.walltime for one in cases}
    if len(walltimes) == 1:
        return cases
    context = replace(case.context, longest_job=min(walltimes))
    return [replace(one, context=context) for one in cases]


def _sizing_of_component(case: Case, decisions: Decisions) -> Sizing:
    """Return the sizing for the nodes of one type.

    The order of the steps: the limits of partitions and QOS need the size, a chain of jobs shortens the walltime that
    they are compared with, and whether nodes are shared depends on the chosen partition.
    """
    named = named_places(case, decisions)
    node_type = node_type_of(case, named, decisions)
    size = size_of(case, node_type, decisions)
    whole = replace(size.ask(node_type), of_several_types=bool(case.request.further_nodes))
    restart_request, ask = restart_request_of(case, whole, named, decisions)
    placement = placement_of(case, ask, named, decisions)
    layout = layout_of(case, node_type, size, placement, decisions)
    return Sizing(node_type=node_type, layout=layout, placement=placement, restart_request=restart_request)


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
