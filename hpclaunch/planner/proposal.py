"""What to type: the command that runs a plan with walltime enough, and the nearest wishes that can be had."""

from __future__ import annotations

import math
import shlex

from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.core.units import count, format_memory, format_walltime
from hpclaunch.guidelines.choice import Candidate, NodeChoice, Objective, relaxed
from hpclaunch.planner.question import Question, Trial, trial_of

STEP = 300
"""Seconds to which a proposed walltime is rounded up."""


def command_of(
    question: Question, nodes: int, settings: tuple[tuple[str, str], ...], walltime: int | None = None
) -> str:
    """Return what to type to run the plan: what was typed, the nodes, ``walltime`` (s), and the parameters to set."""
    request = question.case.request
    words = ["hpclaunch", "submit", request.target, "--nodes", str(nodes)]
    flags = {"--site": request.site, "--node-type": request.node_type, "--tasks-per-node": request.tasks_per_node}
    flags |= {"--cpus-per-task": request.cpus_per_task, "--gpus-per-node": request.gpus_per_node}
    flags |= {"--account": request.account, "--partition": request.partition, "--qos": request.qos}
    whole = request.walltime or walltime
    flags["--walltime"] = None if whole is None else format_walltime(whole)
    flags["--memory"] = None if request.memory is None else format_memory(request.memory)
    flags["--hosts"] = request.hosts_file
    for flag, value in flags.items():
        words += [flag, str(value)] if value is not None else []
    words += ["--accept-unverified"] if request.accept_unverified else []
    for key, text in (*request.settings, *settings):
        words += ["--set", f"{key}={text}"]
    return shlex.join(words)


@record
class Length:
    """The walltime to ask for (seconds; None: as it is), jobs in a chain (1: one job is enough), a warning or none."""

    walltime: int | None = None
    jobs: int = 1
    warning: str = ""


def length_of(question: Question, trial: Trial, found: Candidate | None) -> Length:
    """Return how long to ask for, so that it is enough in nine cases of ten; a typed walltime is kept.

    What one job may not run becomes a chain of jobs, if the job can go on where it stopped; else that is said.
    """
    typed, usual = question.case.request.walltime, trial.sizing.placement.walltime
    if found is None or not usual or found.time_s.high <= (typed or usual):
        return Length()
    needed = math.ceil(found.time_s.high / STEP) * STEP
    limit = int(typed or trial.bill.walltime_s or needed)
    asked = None if typed else needed
    if needed <= limit:
        return Length(walltime=asked)
    if trial.sizing.restart_request.most:
        return Length(walltime=asked, jobs=math.ceil(needed / limit))
    takes = f"takes up to {format_walltime(needed)}, and one job may run {format_walltime(limit)}"
    why = f"{question.case.job.name} cannot go on where it stopped (restarts: docs/job-files.md)"
    return Length(walltime=None if typed else limit, warning=f"{takes}; {why}")


def infeasible(choice: NodeChoice, objective: Objective) -> Fault:
    """Return why nothing is feasible, and the nearest wishes that are, for the same request otherwise."""
    nearest = choice.nearest
    obstacles = next(one.obstacles for one in choice.appraised if one.candidate.nodes == nearest.nodes)
    enough = relaxed(nearest, objective)
    words = []
    if enough.deadline_s is not None and enough.deadline_s != objective.deadline_s:
        words.append(f"--deadline {format_walltime(math.ceil(enough.deadline_s))}")
    if enough.budget is not None and enough.budget != objective.budget:
        words.append(f"--budget {enough.budget:g}")
    return Fault(
        what=f"no node count is as wished; the nearest, {count(nearest.nodes, 'node')}: {'; '.join(obstacles)}",
        next=f"{' '.join(words)} is feasible",
    )


def enough_for(question: Question, nodes: int) -> str:
    """Return the nodes that one replica takes, as what to type; nothing where the site does not take so many."""
    return "" if trial_of(question, nodes).faults else f"--nodes {nodes} can hold one replica"


def shared_evenly(question: Question, replicas: int) -> str:
    """Return the global batch size that so many replicas can share, nearest to the typed one, as what to type."""
    typed = question.global_batch or replicas
    below = typed // replicas * replicas
    nearest = below if below and typed - below <= below + replicas - typed else below + replicas
    training = question.case.job.training
    name = training.names.get("global_batch_size", "global_batch_size") if training else ""
    flag = f"--set {name}=" if name in dict(question.case.request.settings) else "--global-batch "
    return f"{flag}{nearest} can be shared out evenly"
