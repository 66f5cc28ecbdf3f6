"""How large a run is and where it goes: the first half of planning, which the choice of a node count asks for many."""

from __future__ import annotations

from hpclaunch.config.job import Job
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Site
from hpclaunch.core.records import record
from hpclaunch.core.spec import Layout, Request, Surroundings
from hpclaunch.resolve.decisions import Ledger
from hpclaunch.resolve.layout import layout_of, node_type_of, size_of
from hpclaunch.resolve.placement import Placement, asked_names, placement_of
from hpclaunch.resolve.restarts import Wish, wish_of


@record
class Sizing:
    """Node type, layout and placement of a request, and its wish to start again."""

    kind: str
    layout: Layout
    placement: Placement
    wish: Wish


def sizing_of(
    site: Site,
    job: Job,
    request: Request,
    settings: Settings,
    around: Surroundings,
    ledger: Ledger,
    planned_nodes: int | None = None,
) -> Sizing:
    """Return them; every reason against them is a fault in the ledger."""
    asked = asked_names(site, request, settings, around, ledger)
    kind = node_type_of(site, job, request, settings, asked, ledger)
    size = size_of(site, kind, job, request, settings, ledger, planned_nodes)
    wish, ask = wish_of(site, kind, size, asked, job, request, settings, ledger)
    memory = request.memory or job.resources.memory
    placement = placement_of(site, ask, asked, memory, request.accept_unverified, ledger)
    layout = layout_of(site, kind, size, job, request, around, placement, ledger)
    return Sizing(kind=kind, layout=layout, placement=placement, wish=wish)
