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
