"""Starts ended runs again from their own scripts: ``retry``, ``wait --retries``, and the runs of an array."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

from hpclaunch import runs
from hpclaunch.actions.following.identity import elsewhere, require_own_site
from hpclaunch.actions.queueing.array_parts import submit_array
from hpclaunch.actions.queueing.hand_over import hand_over
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.files import read_bytes
from hpclaunch.core.folders import state_folder
from hpclaunch.core.job_script import JobScript, read_job_script
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.units import count, format_walltime
from hpclaunch.runs import Run
from hpclaunch.runs.logs import end_of_log
from hpclaunch.runs.markers import last_start
from hpclaunch.runs.node_lists import names_in
from hpclaunch.runs.recorded_layout import further_layouts, options_of, partitions_of, walltime_of
from hpclaunch.runs.retry_policy import Ending, decide, merged
from hpclaunch.schedulers import scheduler_of

Unwell = Callable[[str, "float | None"], Mapping[str, str]]


def retry(run: Run, tell: Callable[[str], None]) -> Run:
    """Start a run again from its own script if a new start can help, without the nodes that caused its failure.

    The run keeps its directory, and a job that saves checkpoints continues from its last one. ``tell`` gets a message
    for the user. Raises Refused if the program itself failed, and SchedulerError.
    """
    if run.tasks or run.index >= 0:
        return retry_in_array(run, tell)
    require_own_site(run)
    if run.allocation and run.final:
        raise _retry_refusal(
            run, f"it ran inside the allocation {run.allocation}, and has no job that could be repeated"
        )
    decision = decide(ending_of(run))
    if not decision.again:
        raise _retry_refusal(run, decision.reason)
    script = script_of(run)
    evidence, required = _divide_by_need(decision.exclude, script)
    excluded, because = _nodes_to_exclude(evidence, run)
    text = for_another_start(run, script, excluded).text
    tell(f"{run.label}: {decision.reason}; starting it again" + _exclusion_words(excluded, evidence) + required)
    earlier = (*run.earlier, run.job_id) if run.job_id else run.earlier
    return hand_over(run, text, walltime_of(run.spec()), earlier=earlier, excluded=excluded, excluded_because=because)


def _exclusion_words(excluded: str, evidence: Mapping[str, str]) -> str:
    """Return the nodes that the new start avoids, with the evidence against those that this failure added."""
    reasons = "; ".join(f"{node}: {why}" for node, why in evidence.items())
    return (f" without {excluded}" if excluded else "") + (f" ({reasons})" if reasons else "")


def _retry_refusal(run: Run, reason: str) -> Refused:
    return Refused(Fault(what=f"{run.label} is not started again: {reason}", next=_next_step(run)))


def _next_step(run: Run) -> str:
    """Return the command that helps a run which ``retry`` refuses."""
    name = run.label
    if run.state == "COMPLETED":
        return f"hpclaunch results {name}"
    if not run.final:
        return f"hpclaunch wait {name}, or hpclaunch cancel {name}"
    resume = f"hpclaunch resume {name}, which continues from its checkpoints"
    if run.state == "OUT_OF_MEMORY":
        return f"hpclaunch resume {name} with more --memory or fewer --tasks-per-node; or with a smaller batch"
    return f"correct the program, then hpclaunch submit; or {resume}" if run.state == "FAILED" else resume


def retry_in_array(run: Run, tell: Callable[[str], None]) -> Run:
    """Start one run of an array again, or all its ended runs that a new start can help, as one array.

    Raises Refused if a new start can help none of them, and SchedulerError.
    """
    require_own_site(run)
    is_single = run.index >= 0
    failed = [] if is_single else [task for task in runs.tasks_of(run) if task.final and task.state != "COMPLETED"]
    ended = [run] if is_single else failed
    ask_once = lru_cache(partial(_find_unwell, run))  # once for each list of nodes
    decisions = {task.index: decide(ending_of(task, lambda nodes, _: ask_once(nodes))) for task in ended}
    again = {index: decision for index, decision in decisions.items() if decision.again}
    if not again:
        reasons = [decision.reason for decision in decisions.values()]
        raise _retry_refusal(run, reasons[0] if reasons else "none of its runs has failed")
    evidence = {node: why for decision in again.values() for node, why in decision.exclude.items()}
    evidence, required = _divide_by_need(evidence, script_of(runs.whole_of(run)))
    excluded, because = _nodes_to_exclude(evidence, run)
    subject = run.label if is_single else f"{count(len(again), 'run')} of {run.label}"
    reason = ", ".join(dict.fromkeys(decision.reason for decision in again.values()))
    tell(f"{subject}: {reason}; starting again" + _exclusion_words(excluded, evidence) + required)
    return start_in_array(run, list(again), excluded, because)


def _divide_by_need(evidence: Mapping[str, str], script: JobScript) -> tuple[dict[str, str], str]:
    """Return the evidence against nodes that the job can do without, and words for the others.

    Slurm refuses a job that excludes a node of its own --nodelist ("Invalid node name specified", seen with 22.05).
    """
    required = [node for node in names_in(script.required_nodes) if node in evidence]
    words = f"; {', '.join(required)} cannot be avoided: --nodelist names it" if required else ""
    return {node: why for node, why in evidence.items() if node not in required}, words


def _nodes_to_exclude(evidence: Mapping[str, str], run: Run) -> tuple[str, str]:
    """Return the nodes to exclude (of earlier starts or typed, and of this failure), and the evidence against them."""
    array, excluded = runs.whole_of(run), options_of(run.spec()).get("exclude", "")
    known = names_in(array.excluded)
    fresh = [f"{node}: {why}" for node, why in evidence.items() if node not in known]
    because = "; ".join([*([array.excluded_because] if array.excluded_because else []), *fresh])
    return merged(array.excluded or excluded, [*evidence]), because


def start_in_array(run: Run, indices: Sequence[int], excluded: str, because: str) -> Run:
    """Submit some runs of an array again; return ``run``, which is the array or one of its runs.

    ``because`` is the evidence against the ``excluded`` nodes.
    """
    array = runs.whole_of(run)
    for task in runs.tasks_of(array, indices):
        runs.release(task)
    script = for_another_start(array, script_of(array), excluded)
    array = submit_array(array, script, indices, excluded=excluded, excluded_because=because)
    return runs.task_of(array, run.index) if run.index >= 0 else array


def for_another_start(run: Run, script: JobScript, excluded: str) -> JobScript:
    """Return a script for a further start: without the nodes that the run must avoid.

    After a start that was queued, it does not wait again for other runs: Slurm may have forgotten their jobs.
    """
    if (run.job_id or run.earlier) and run.spec().get("after"):
        script = script.without_waiting()
    return script.without_nodes(excluded)


_LARGEST_SCRIPT = 4 * 2**20
"""Bytes; slurmctld refuses a larger one, unless its max_script_size says otherwise (slurm.conf manual)."""


def script_of(run: Run) -> JobScript:
    """Return the run's script, to be submitted again.

    Raises Refused if it cannot be read, is for another directory, or asks for more time than a job gets now.
    """
    _refuse_other_directory(run)
    _refuse_longer_walltime(run)
    try:
        with runs.opened(state_folder(os.environ), run) as directory:
            script = f"{directory}/{run.script.name}"
            text = read_bytes(script, _LARGEST_SCRIPT).decode("utf-8", errors="surrogateescape")
        why = "" if text else "it is empty"
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        next_step = f"a new run of its code: hpclaunch submit {shell_word(str(run.home / 'code'))}"
        raise Refused(Fault(where=str(run.script), what=f"cannot be read: {why}", next=next_step))
    return read_job_script(text, scheduler_row(run.scheduler))


def _refuse_other_directory(run: Run) -> None:
    """Raise Refused for the script of a run that was moved or copied: it still names the directory where it was made.

    A job of it would work there, and would not be known as this run's.
    """
    made_in = run.spec().get("run_dir")
    with contextlib.suppress(OSError, ValueError):
        if not isinstance(made_in, str) or os.path.samefile(made_in, run.home):
            return
    what = f"this run was moved or copied from {made_in}, which its script still names"
    changed = "--walltime T" if further_layouts(run.spec()) else "--nodes N"
    anew = f"hpclaunch resume {run.label} {changed} writes it again"
    code = f"a new run of its code: hpclaunch submit {shell_word(str(run.home / 'code'))}"
    next_step = code if run.tasks or run.index >= 0 else f"{anew}; or {code}"
    raise Refused(Fault(where=str(run.script), what=what, next=next_step))


def _refuse_longer_walltime(run: Run) -> None:
    """Raise Refused if the script's walltime is above the live limit of a partition: the job would wait for ever."""
    spec, scheduler = run.spec(), scheduler_of(run.scheduler)
    walltime = walltime_of(spec)
    qos = options_of(spec).get("qos", "")
    with scheduler.asking(elsewhere(run)):
        limits = [scheduler.longest_walltime(name, qos) for name in partitions_of(spec)] if walltime else []
    longest = min((limit for limit in limits if limit is not None), default=None)
    if longest is None or walltime <= longest:
        return
    most, script = format_walltime(longest), format_walltime(walltime)
    what = f"its script asks for {script}, but {scheduler_row(run.scheduler).title} allows {most} per job now"
    is_array = run.tasks or run.index >= 0
    next_step = f"hpclaunch {'submit' if is_array else f'resume {run.label}'} --walltime {most}"
    raise Refused(Fault(where=str(run.script), what=what, next=next_step))


def ending_of(run: Run, unwell: Unwell | None = None) -> Ending:
    """Return how a run ended, for the decision about a new start. ``unwell``: see ``schedulers.Scheduler``."""
    unwell = unwell or partial(_find_unwell, run)
    start = last_start(run)
    blamable = run.state in ("NODE_FAIL", "BOOT_FAIL", "FAILED")  # only then is a question about the nodes worth a call
    return Ending(
        state=run.state,
        exit_code=run.exit_code,
        log=end_of_log(run),
        ranks_failed=bool(start) and os.path.isfile(run.path / "attempts" / start / "first-failure"),
        nodes=names_in(run.nodes),
        tasks_per_node=_tasks_per_node(run),
        unwell=unwell(run.nodes, _start_time(run, start)) if blamable else {},
    )


def _find_unwell(run: Run, nodes: str, since: float | None = None) -> Mapping[str, str]:
    scheduler = scheduler_of(run.scheduler)
    with scheduler.asking(elsewhere(run)):
        return scheduler.unwell(nodes, since)


def _start_time(run: Run, start: str) -> float | None:
    """Return when a start began, in seconds of the epoch; None if that is not known."""
    try:
        return (run.path / "attempts" / start / "started").stat().st_mtime if start else None
    except OSError:
        return None


def _tasks_per_node(run: Run) -> int:
    """Return how many consecutive tasks each node has; 0 if that differs, is not known, or typed options decide it."""
    spec = run.spec()
    layout, launch = spec.get("layout"), spec.get("launch")
    tasks = layout.get("tasks_per_node") if isinstance(layout, dict) else None
    words = [str(word) for word in launch] if isinstance(launch, list) else []
    distributed = [word for word in words if word.startswith(("-m", "--distribution"))]
    is_known = not distributed and "distribution" not in options_of(spec) and not further_layouts(spec)
    return tasks if isinstance(tasks, int) and is_known else 0
