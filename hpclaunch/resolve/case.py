"""What every decision reads: site, job, request, settings and context of one submission; it decides nothing."""

from __future__ import annotations

from dataclasses import field

from hpclaunch.config.job import Job
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import NodeType, Site
from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.core.spec import Context, Request


@record
class Advice:
    """What the planner advises where nobody says how many nodes: the node count, why (one line), and objections."""

    nodes: int | None = None
    why: str = ""
    objections: tuple[Fault, ...] = ()


@record
class Case:
    """One request at one site. Every function of ``resolve`` reads it; none changes it.

    ``needs_account``: whether a missing account is a fault where the site requires one. It is False for a plan and
    for a look at the software, which submit nothing. ``advice``: the planner's, empty where it was not asked.
    """

    site: Site
    job: Job
    request: Request
    settings: Settings
    context: Context
    needs_account: bool = True
    advice: Advice = field(default_factory=Advice)
    calibration_key: str = ""

    def node(self, node_type: str) -> NodeType:
        """Return a node type of the site by its name."""
        return self.site.node_types[node_type]
