"""The gate of a plan: what takes longer than a year, or than its chain may be, gets what it would take instead."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.core.errors import Fault
from hpclaunch.core.units import count
from hpclaunch.guidelines.candidates import LONGEST_S, Candidate
from hpclaunch.guidelines.choice import NodeChoice, Objective, is_dear, is_late
from hpclaunch.planner.amounts import shorten, time_of
from hpclaunch.planner.choice.proposal import infeasible


def what_it_takes(choice: NodeChoice, objective: Objective, others: Sequence[Candidate]) -> tuple[Fault, ...]:
    """Return why the nearest run is no recommendation, and what it would take; empty if there is a best one.

    ``others``: runs on further nodes, of which the one on the fewest that is a recommendation is named.
    """
    if choice.best is not None:
        return ()
    nearest = choice.nearest
    enough = [run for run in others if not is_late(run, objective) and not is_dear(run, objective)]
    if not nearest.beyond and not enough:
        return (infeasible(choice, objective),)
    obstacles = next(one.obstacles for one in choice.appraised if one.candidate is nearest)
    what = f"{count(nearest.nodes, 'node')} cannot be recommended: {'; '.join(obstacles)}"
    if enough:
        found = min(enough, key=lambda run: run.nodes)
        jobs = f" in a chain of {found.jobs} jobs" if found.jobs > 1 else ""
        return (Fault(what=what, next=f"--nodes {found.nodes} would take {time_of(found.time_s.middle)}{jobs}"),)
    return (Fault(what=what, next=_name_other_ways(nearest)),)


def _name_other_ways(run: Candidate) -> str:
    """Return what a run would take that no node count of the site makes a recommendation."""
    if run.time_s.middle > LONGEST_S:
        needed = shorten(run.nodes * run.time_s.middle / LONGEST_S)
        return f"a year would take the speed of {needed} such nodes: fewer samples or epochs, or a faster --node-type"
    chain = f"--restarts {run.jobs - 1} allows such a chain, if the program continues from its checkpoints"
    return f"{chain}; a --partition or --qos with longer jobs"
