"""What to type: the command that runs a plan with enough walltime, or what would make a run feasible."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence

from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.core.spec import Request
from hpclaunch.core.units import count, format_memory, format_walltime
from hpclaunch.guidelines.candidates import LONGEST_S, Candidate
from hpclaunch.guidelines.choice import NodeChoice, Objective, is_dear, is_late, relaxed
from hpclaunch.planner.amounts import shorten, time_of, walltime_for
from hpclaunch.planner.job.question import Question, Trial, trial_of
from hpclaunch.planner.job.workload import Workload
from hpclaunch.resolve.program.recipes import named_settings


def command_of(
    question: Question,
    nodes: int,
    settings: tuple[tuple[str, str], ...],
    walltime: int | None = None,
) -> str:
    """Return the command that runs the plan: the typed flags, node count, ``walltime`` (s), and parameters to set."""
    request = question.case.request
    words = ["hpclaunch", "submit", request.target, "--nodes", str(nodes)]
    flags = {
        "--site": request.site,
        "--node-type": request.node_type,
        "--tasks-per-node": request.tasks_per_node,
    }
    flags |= {"--cpus-per-task": request.cpus_per_task, "--gpus-per-node": request.gpus_per_node}
    flags |= {"--account": request.account, "--partition": request.partition, "--qos": request.qos}
    whole = request.walltime or walltime
    flags["--walltime"] = None if whole is None else format_walltime(whole)
    flags["--memory"] = None if request.memory is None else format_memory(request.memory)
    flags["--restarts"] = request.restarts
    flags["--hosts"] = request.hosts_file
    for flag, value in flags.items():
        words += [flag, str(value)] if value is not None else []
    words += ["--environment", request.environment] if request.environment else []
    words += ["--recipe", request.recipe] if request.recipe else []
    words += ["--accept-unverified"] if request.accept_unverified else []
    named = named_settings(question.case)
    typed = [pair for pair in request.settings if pair not in named]  # those of the recipe come with its name
    for key, text in (*typed, *settings):
        words += ["--set", f"{key}={text}"]
    return shlex.join(words)


def measuring_command(question: Question, work: Workload) -> str:
    """Return the command that measures the job as this request would run it; empty if it cannot be shortened."""
    if not {"epochs", "batch_size_per_rank"} <= set(work.names):
        return ""
    return measuring_program(question)


def measuring_program(question: Question) -> str:
    """Return the command that measures a program as this request would run it."""
    return profile_command(question.case.request)


def profile_command(request: Request, *further: str) -> str:
    """Return the command that measures what a request names, with its flags; ``further`` words come last."""
    flags = {**_flags_of_a_node(request), "--account": request.account, "--partition": request.partition}
    flags["--qos"] = request.qos
    # A profile has no recipes: all values are typed.
    return _command("profile", request, flags, further)


def plan_command(request: Request, *further: str) -> str:
    """Return the command that plans with the measurements of a request: with the flags that they depend on."""
    return _command("plan", request, _flags_of_a_node(request), further)


def _flags_of_a_node(request: Request) -> dict[str, str | int | None]:
    """Return the typed flags that the key of a measurement depends on."""
    return {
        "--site": request.site,
        "--node-type": request.node_type,
        "--tasks-per-node": request.tasks_per_node,
        "--cpus-per-task": request.cpus_per_task,
        "--gpus-per-node": request.gpus_per_node,
    }


def _command(verb: str, request: Request, flags: Mapping[str, str | int | None], further: Sequence[str]) -> str:
    words = ["hpclaunch", verb, request.target]
    for flag, value in flags.items():
        words += [flag, str(value)] if value is not None else []
    for key, text in request.settings:
        words += ["--set", f"{key}={text}"]
    return shlex.join([*words, *further])


@record
class Length:
    """The walltime to request (seconds; None: unchanged), the jobs of a chain (1: a single job), and a warning."""

    walltime: int | None = None
    jobs: int = 1
    warning: str = ""


def length_of(question: Question, trial: Trial, found: Candidate | None) -> Length:
    """Return the walltime to request, which is enough in 90 % of all cases; a typed walltime is kept.

    If one job may not run that long, the run becomes a chain of jobs, provided that the job can continue from its
    checkpoints. If it cannot, the result has a warning.
    """
    typed, default = question.case.request.walltime, trial.sizing.placement.walltime
    if found is None or not default or found.time_s.high <= (typed or default):
        return Length()
    needed = walltime_for(found.time_s)
    limit = int(typed or trial.bill.walltime_s or needed)
    asked = None if typed else needed
    if needed <= limit:
        return Length(walltime=asked)
    if trial.sizing.restart_request.most:
        return Length(walltime=asked, jobs=math.ceil(needed / limit))
    takes = f"the run takes up to {format_walltime(needed)}, but one job may run only {format_walltime(limit)}"
    why = f"{question.case.job.name} cannot continue after a job has ended (restarts: hpclaunch docs job-files)"
    if question.case.request.restarts == 0:
        why = "--restarts 0 is typed"
    return Length(walltime=None if typed else limit, warning=f"{takes}, and {why}")


def infeasible(choice: NodeChoice, objective: Objective) -> Fault:
    """Return why nothing is feasible, and the nearest deadline and budget that are, for the same request."""
    nearest = choice.nearest
    obstacles = next(appraisal.obstacles for appraisal in choice.appraised if appraisal.candidate.size == nearest.size)
    enough = relaxed(nearest, objective)
    words = []
    if enough.deadline_s is not None and enough.deadline_s != objective.deadline_s:
        words.append(f"--deadline {format_walltime(math.ceil(enough.deadline_s))}")
    if enough.budget is not None and enough.budget != objective.budget:
        words.append(f"--budget {enough.budget:g}")
    return Fault(
        what=f"no node count is feasible; the nearest is {count(nearest.nodes, 'node')}: {'; '.join(obstacles)}",
        next=f"{' '.join(words)} is feasible",
    )


def enough_for(question: Question, nodes: int) -> str:
    """Return the flag for the nodes that one replica needs; empty if the site does not accept that many."""
    return "" if trial_of(question, nodes).faults else f"--nodes {nodes} can hold one replica"


def shared_evenly(question: Question, replicas: int) -> str:
    """Return the flag for the global batch size nearest to the typed one that divides among the replicas."""
    typed = question.global_batch or replicas
    below = typed // replicas * replicas
    nearest = below if below and typed - below <= below + replicas - typed else below + replicas
    training = question.case.job.training
    name = training.names.get("global_batch_size", "global_batch_size") if training else ""
    flag = f"--set {name}=" if name in dict(question.case.request.settings) else "--global-batch "
    return f"{flag}{nearest} divides evenly"


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
