"""Keeps the all-reduces that a probe of ``doctor`` measured, where a plan finds them; or says why it does not."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.actions.clusters.diagnosis.all_reduce import AllReduceReport
from hpclaunch.actions.clusters.diagnosis.evidence import ProbeEvidence
from hpclaunch.actions.following.identity import other_users
from hpclaunch.actions.system import System
from hpclaunch.planner.measured.all_reduce_file import AllReduceTimes, SizeRow, all_reduce_place, keep_times
from hpclaunch.runs import Run


def keep_network_times(
    system: System, run: Run, evidence: ProbeEvidence, found: Sequence[AllReduceReport | None]
) -> str:
    """Keep what was ``found``, of all ranks and in a node; return the file, or why it is not kept; empty: nothing was.

    The record of somebody else may claim anything, and be in a cloned repository: nothing of it is kept.
    """
    known = [one for one in found if one is not None]
    if not known:
        return ""
    fault = other_users(run)
    if fault is not None:
        return f"not kept for plan: {fault.what}"
    if any(choice["key"] == "launcher" and choice["origin"] == "--launcher" for choice in evidence.spec["choices"]):
        return "not kept for plan: --launcher was typed, and a plan is made for the site's own launcher"
    names = (run.site, str(evidence.spec["node_type"]))
    if any("/" in name or name in ("", ".", "..") for name in names):
        return f"not kept for plan: {names[0]!r} and {names[1]!r} cannot be names of folders"
    place = all_reduce_place(system.environment, *names)
    try:
        for one in known:
            keep_times(place, _times_of(run, evidence, one))
    except OSError as error:
        return f"not kept for plan: {place} cannot be written ({error.strerror})"
    return str(place)


def _times_of(run: Run, evidence: ProbeEvidence, found: AllReduceReport) -> AllReduceTimes:
    return AllReduceTimes(
        library=found.library,
        through=found.through,
        on_gpus=found.on_gpus,
        nodes=found.group.nodes,
        ranks_per_node=found.group.per_node,
        rows=tuple(SizeRow(bytes=timed.size, seconds=timed.seconds) for timed in found.times),
        run=run.path.name,
        when=str(evidence.spec["created"]),
    )
