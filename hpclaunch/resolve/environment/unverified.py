"""Which site values in a script are not confirmed by the centre's own pages, and which essential ones are missing."""

from __future__ import annotations

from dataclasses import fields

from hpclaunch.config.provenance import longest
from hpclaunch.config.site import ALWAYS_USED, Site
from hpclaunch.core.errors import Subject
from hpclaunch.core.records import record
from hpclaunch.core.spec import Layout
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.software import Software
from hpclaunch.resolve.nodes.sizing import Sizing


@record
class _Gap:
    """An essential key that a site file lacks: what it describes, and the scheduler's usual value."""

    key: str
    what: str
    usual: str
    subject: Subject


def unverified_of(case: Case, layout: Layout, decisions: Decisions) -> list[str]:
    """Return remarks on the essential keys that the site file lacks and that usual values replace.

    Without ``--accept-unverified`` each missing key becomes a fault (decision 7).
    """
    site, scheduler = case.site, case.site.scheduler_row
    gaps: list[_Gap] = []
    if scheduler.has_queue and site.launchers is None:
        gaps.append(_Gap(key="launchers", what="the launcher", usual=scheduler.usual_launcher, subject="MPI"))
    if scheduler.directive and site.gpus is None and layout.gpus_per_node:
        gaps.append(_Gap(key="gpus", what="the GPU option", usual="--gpus-per-node", subject="GPUs"))
    default = f"{scheduler.title}'s default"
    if case.request.accept_unverified:
        return [f"Not verified for this site: {gap.what}; {default} is used ({gap.usual})." for gap in gaps]
    for gap in gaps:
        why = f" ({site.unverified[gap.key]})" if site.unverified.get(gap.key) else ""
        decisions.fault(
            f"{gap.what} is not verified for {site.name}{why}",
            next=f"pass --accept-unverified to use {default} ({gap.usual}), or write '{gap.key}: …' in a site file of "
            "your own",
            subject=gap.subject,
        )
    return []


def third_party_of(site: Site, sizing: Sizing, launcher: str, software: Software) -> list[str]:
    """Return a remark that names the values of this script that come from third parties; empty without any."""
    used = [one.name for one in fields(Site) if ALWAYS_USED.items() <= one.metadata.items()]
    used += ["launchers.default", f"launchers.options.{launcher}"]
    used += [f"launchers.options.{starter}"] if (starter := LAUNCHERS[launcher].started_by.get(site.scheduler)) else []
    for one in sizing.components:
        used += [f"node_types.{one.node_type}"]
        used += [f"partitions.{one.placement.partition}"] if one.placement.partition else []
        used += [f"qos.{one.placement.qos}"] if one.placement.qos else []
    used += ["container"] if software.image else []
    used += [f"frameworks.{software.framework}", f"node_types.{sizing.node_type}.frameworks.{software.framework}"]
    relevant = [key for key in site.third_party if longest(key, used) or any(longest(one, [key]) for one in used)]
    return ["Found only in users' files, not on the centre's own pages: " + ", ".join(relevant)] if relevant else []
