"""How large a run is and where it goes: the first half of resolving, which the planner asks for many node counts."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.core.records import record
from hpclaunch.core.spec import Layout
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.layout import layout_of
from hpclaunch.resolve.placement import Placement, named_places, placement_of
from hpclaunch.resolve.restarts import RestartRequest, restart_request_of
from hpclaunch.resolve.size import node_type_of, size_of


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

    Each node type of a heterogeneous job is sized like a request of its own; all of them get the shortest walltime.
    """
    first = _sizing_of_component(case, decisions)
    further = []
    for node_type, nodes in case.request.further_nodes:
        own, request = Decisions(), replace(case.request, node_type=node_type, nodes=int(nodes), further_nodes=())
        further.append(_sizing_of_component(replace(case, request=request), own))
        decisions.add(own)
    if not further:
        return first
    decisions.choices = [replace(one, origin="--node-type") if one.key == "nodes" else one for one in decisions.choices]
    walltime = min(one.placement.walltime for one in (first, *further))
    layout = replace(first.layout, further=tuple(one.layout for one in further))
    placement = replace(first.placement, walltime=walltime)
    return replace(first, layout=layout, placement=placement, further=tuple(further))


def _sizing_of_component(case: Case, decisions: Decisions) -> Sizing:
    """Return the sizing for the nodes of one type.

    The order of the steps: the limits of partitions and QOS need the size, a chain of jobs shortens the walltime that
    they are compared with, and whether nodes are shared depends on the chosen partition.
    """
    named = named_places(case, decisions)
    node_type = node_type_of(case, named, decisions)
    size = size_of(case, node_type, decisions)
    restart_request, ask = restart_request_of(case, size.ask(node_type), named, decisions)
    placement = placement_of(case, ask, named, decisions)
    layout = layout_of(case, node_type, size, placement, decisions)
    return Sizing(node_type=node_type, layout=layout, placement=placement, restart_request=restart_request)
