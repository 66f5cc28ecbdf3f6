"""How large a run is and where it goes: the first half of resolving, which the planner asks for many node counts."""

from __future__ import annotations

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
    """Node type, layout and placement of a request, and how often it may start again."""

    node_type: str
    layout: Layout
    placement: Placement
    restart_request: RestartRequest


def sizing_of(case: Case, decisions: Decisions) -> Sizing:
    """Return the sizing; every reason to refuse the request becomes a fault in the decisions.

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
