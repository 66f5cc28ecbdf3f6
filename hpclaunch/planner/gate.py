"""The gate of a plan: what takes longer than a year, or than a site's longest chain, is no recommendation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hpclaunch.core.errors import Fault
from hpclaunch.core.units import count
from hpclaunch.guidelines.candidates import Candidate
from hpclaunch.guidelines.choice import NodeChoice
from hpclaunch.planner.amounts import shorten, time_of
from hpclaunch.planner.question import Trial

LONGEST_S = 365 * 86400
"""Seconds: nobody starts a training that ends later (hpclaunch's own)."""


def beyond(found: Candidate | None, trial: Trial, typed: bool) -> tuple[Fault, ...]:
    """Return why a run is no recommendation: it takes longer than a year, or more jobs than its chain may have.

    ``typed``: the node count, so that more nodes may be enough.
    """
    if found is None:
        return ()
    seconds, most = found.time_s.middle, trial.sizing.restart_request.most
    where = f"{count(found.nodes, 'node')}"
    more = "; more nodes shorten it" if typed else ""
    if seconds > LONGEST_S:
        needed = found.nodes * seconds / LONGEST_S
        return (
            Fault(
                what=f"{where} would take {time_of(seconds)}: longer than a year is no plan",
                next=f"it would take the speed of {shorten(needed)} such nodes to end within a year{more}",
            ),
        )
    limit = trial.bill.walltime_s
    if most and limit and seconds > (most + 1) * limit:
        chain = f"{most + 1} jobs of {time_of(limit)}"
        return (
            Fault(
                what=f"{where} would take {time_of(seconds)}, but the longest chain is {chain}",
                next=f"--restarts {math.ceil(seconds / limit)} allows a longer chain{more}",
            ),
        )
    return ()


def it_takes(found: Candidate, others: Sequence[Candidate], choice: NodeChoice) -> tuple[Fault, ...]:
    """Return why the best way to train is no recommendation, and what it would take; empty if it is one."""
    if choice.best is None:
        obstacles = next(one.obstacles for one in choice.appraised if one.candidate is found)
        return (Fault(what=f"no node count is feasible; the nearest is {found.nodes}: {'; '.join(obstacles)}"),)
    if found.time_s.middle <= LONGEST_S:
        return ()
    needed = shorten(found.nodes * found.time_s.middle / LONGEST_S)
    nearest = min(others, key=lambda one: one.time_s.middle)
    step = f"a year would take about {needed} such nodes"
    if nearest is not found and nearest.time_s.middle <= LONGEST_S:
        step = f"--nodes {nearest.nodes} would take {time_of(nearest.time_s.middle)}"
    where = count(found.nodes, "node")
    return (Fault(what=f"{where} would take {time_of(found.time_s.middle)}: longer than a year is no plan", next=step),)
