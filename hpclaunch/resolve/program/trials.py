"""How many trials of a search share a node, and what each of them gets of it; a trial is one rank."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.core.spec import Layout, Pairs
from hpclaunch.core.spec_parts import TrialLayout
from hpclaunch.core.units import count
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.program.sweep import is_filled, option_words_of


def trials_of(case: Case, layout: Layout, decisions: Decisions) -> TrialLayout | None:
    """Return the trials of a node; None if this is no search. Trials that cannot have CPUs of their own are a fault.

    Without ``--trials-at-once``, every GPU has a trial, or every node where no GPUs are requested.
    """
    request = case.request
    if not request.search:
        return None
    if request.sweep:  # a job of an array for each trial at a time: the scheduler divides the nodes
        per_node = 1
    else:
        at_once = request.at_once or layout.nodes * max(1, layout.gpus_per_node)
        per_node = max(1, at_once // layout.nodes)
        _check(case, layout, at_once, decisions)
    free = not case.job.parameters
    filled = tuple(name for name in request.search if free and is_filled(name, request.arguments))
    words: Pairs = ()
    if free:
        words = option_words_of([name for name in request.search if name not in filled], case, decisions)
    return TrialLayout(
        per_node=per_node,
        cpus=max(1, layout.cpus_per_task // per_node),
        gpus=layout.gpus_per_node // per_node,
        python=case.context.python,
        names=request.search,
        free=free,
        filled=filled,
        options=words,
    )


def _check(case: Case, layout: Layout, at_once: int, decisions: Decisions) -> None:
    flag, nodes, gpus, cpus = "--trials-at-once", layout.nodes, layout.gpus_per_node, layout.cpus_per_task
    if case.request.further_nodes:
        decisions.fault("a search has nodes of one type", where="--node-type", next="name one node type")
    if at_once % nodes:
        nearest = nodes * max(1, at_once // nodes)
        what = f"{at_once} trials cannot be divided evenly among {count(nodes, 'node')}"
        decisions.fault(what, where=flag, next=f"{flag} {nearest}")
        return
    per_node = at_once // nodes
    if 0 < gpus < per_node:
        what = f"{per_node} trials on a node would share {count(gpus, 'GPU')}"
        step = f"{flag} {nodes * gpus}, or --gpus-per-node 0 for trials without GPUs"
        decisions.fault(what, where=flag, allowed=f"at most {nodes * gpus} trials at once", next=step, subject="GPUs")
    elif cpus < per_node:
        what = f"{per_node} trials on a node would share {count(cpus, 'CPU')}"
        decisions.fault(
            what, where=flag, allowed=f"at most {nodes * cpus} trials at once", next=f"{flag} {nodes * cpus}"
        )
    elif gpus % per_node:
        rest = gpus % per_node
        decisions.warnings.append(
            f"{rest} of the {gpus} GPUs of every node stay idle: {per_node} trials share the others"
        )


def layout_of_trial(layout: Layout, trials: TrialLayout | None) -> Layout:
    """Return the layout that a rank has: that of the run, or of one trial, which is a run of one rank."""
    if trials is None:
        return layout
    return replace(
        layout, nodes=1, tasks_per_node=1, cpus_per_task=trials.cpus, gpus_per_node=trials.gpus, whole_nodes=False
    )
