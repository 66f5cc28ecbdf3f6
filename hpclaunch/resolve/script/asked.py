"""What a job asks its scheduler for beside its nodes, its place and its time; no scheduler's words yet."""

from __future__ import annotations

from hpclaunch.core.job_request import job_request_of
from hpclaunch.core.scheduler_rows import REQUESTS, SCHEDULERS
from hpclaunch.core.spec import JobSpec
from hpclaunch.core.spec_parts import Asked
from hpclaunch.core.units import format_memory
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.sizing import Sizing
from hpclaunch.resolve.script.parts import Parts
from hpclaunch.resolve.script.waiting import waits_of


def asked_of(case: Case, parts: Parts, decisions: Decisions) -> Asked:
    """Return it; of a heterogeneous job, that of its first component."""
    sizing = parts.sizing
    node, layout = case.node(sizing.node_type), sizing.layout
    memory = memory_of(case, sizing, decisions)
    waits = waits_of(case, parts.clusters, decisions)
    _, mail = case.settings.offer("mail", case.site.name)
    return Asked(
        name=case.run_name,
        memory=memory,
        gpu_type=(node.gpu_type or "") if layout.gpus_per_node else "",
        gpu_part=bool(node.gpu_shards) and layout.gpus_per_node > 0,
        features=node.constraint or "",
        after_success=waits.success,
        after_end=waits.end,
        after_same_name=waits.same_name,
        mail_to=mail.to if mail else "",
        mail_events=mail.events if mail else (),
    )


def refuse_unwritten(spec: JobSpec, decisions: Decisions) -> None:
    """Note a fault for everything that the job asks for and the scripts of its scheduler cannot."""
    row = SCHEDULERS[spec.scheduler]
    if not row.has_queue or len(row.writes) == len(REQUESTS):
        return
    request = job_request_of(spec)
    for name, (words, step) in REQUESTS.items():
        if getattr(request, name) and name not in row.writes:
            decisions.fault(f"hpclaunch cannot ask {row.title} for {words}", where=spec.site, next=step)


def memory_of(case: Case, sizing: Sizing, decisions: Decisions) -> int:
    """Return the MB to request per node: the typed ones, the job's, or the site's share for the requested GPUs.

    It is 0 where none of them names any.
    """
    node, layout, site = case.node(sizing.node_type), sizing.layout, case.site.name
    share = node.request_memory
    if share and not layout.whole_nodes and 0 < layout.gpus_per_node < node.gpus_per_node:
        share = share * layout.gpus_per_node // node.gpus_per_node
    asked = decisions.pick(
        "memory", ("--memory", case.request.memory), ("job", case.job.resources.memory), (f"site {site}", share)
    )
    most = node.request_memory or (node.memory_gb * 1024 if node.memory_gb else None)
    if asked and most and asked > most:
        decisions.fault(
            f"{format_memory(asked)} of memory per node requested",
            where=f"{site} {sizing.node_type}",
            allowed=f"at most {format_memory(most)}",
            next=f"--memory {format_memory(most)}",
        )
    return asked or 0
