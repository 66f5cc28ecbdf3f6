"""Starts ended runs again from their own scripts: ``retry``, ``wait --retries``, and the runs of an array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from hpclaunch import runs
from hpclaunch.actions.start import hand_over
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.units import count
from hpclaunch.runs import Run
from hpclaunch.runs.retry_policy import Ending, RetryDecision, decide, merged
from hpclaunch.schedulers import scheduler_of


def retry(run: Run, tell: Callable[[str], None]) -> Run:
    """Start a run again from its own script if a new start can help, without the nodes that caused its failure.

    The run keeps its directory, and a job that saves checkpoints continues from its last one. ``tell`` gets a message
    for the user. Raises Refused if the program itself failed, and SchedulerError.
    """
    if run.tasks or run.index >= 0:
        return retry_in_array(run, tell)
    decision = decide(ending_of(run))
    if not decision.again:
        raise _retry_refusal(run, decision.reason)
    text = script_of(run)
    directives, walltime = submission_options(run)
    excluded = merged(run.excluded or directives.get("exclude", ""), decision.exclude)
    options = scheduler_row(run.scheduler).excluding(excluded)
    tell(f"{run.label}: {decision.reason}; starting it again" + (f" without {excluded}" if excluded else ""))
    earlier = (*run.earlier, run.job_id) if run.job_id else run.earlier
    return hand_over(run, text, walltime, options, earlier=earlier, excluded=excluded)


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
    fixable = run.state in ("FAILED", "OUT_OF_MEMORY")
    return f"correct the program, then hpclaunch submit; or {resume}" if fixable else resume


def retry_in_array(run: Run, tell: Callable[[str], None]) -> Run:
    """Start one run of an array again, or all its ended runs that a new start can help, as one array.

    Raises Refused if a new start can help none of them, and SchedulerError.
    """
    is_single = run.index >= 0
    failed = [] if is_single else [task for task in runs.tasks_of(run) if task.final and task.state != "COMPLETED"]
    ended = [run] if is_single else failed
    unwell = lru_cache(scheduler_of(run.scheduler).unwell)  # asked once for each list of nodes
    decisions = {task.index: decide(ending_of(task, unwell)) for task in ended}
    again = {index: decision for index, decision in decisions.items() if decision.again}
    if not again:
        reasons = [decision.reason for decision in decisions.values()]
        raise _retry_refusal(run, reasons[0] if reasons else "none of its runs has failed")
    excluded = _nodes_to_exclude(again.values(), run)
    subject = run.label if is_single else f"{count(len(again), 'run')} of {run.label}"
    reason = ", ".join(dict.fromkeys(decision.reason for decision in again.values()))
    tell(f"{subject}: {reason}; starting again" + (f" without {excluded}" if excluded else ""))
    return start_in_array(run, list(again), excluded)


def _nodes_to_exclude(decisions: Iterable[RetryDecision], run: Run) -> str:
    """Return the nodes for --exclude: of earlier starts (or typed), and of these failures."""
    directives, _ = submission_options(run)
    bad_nodes = dict.fromkeys(node for decision in decisions for node in decision.exclude)
    return merged(runs.whole_of(run).excluded or directives.get("exclude", ""), tuple(bad_nodes))


def start_in_array(run: Run, indices: Sequence[int], excluded: str) -> Run:
    """Submit some runs of an array again with one sbatch; return ``run``, which is the array or one of its runs."""
    array = runs.whole_of(run)
    for task in runs.tasks_of(array, indices):
        runs.release(task)
    directives, walltime = submission_options(run)
    part = "" if len(indices) == array.tasks else runs.spelled(indices)
    row = scheduler_row(run.scheduler)
    options = row.excluding(excluded)
    at_once = directives.get("array", "").partition("%")[2]
    if part:
        options.append(row.array_option.format(part + (f"%{at_once}" if at_once else "")))
    # ``parts`` needs an entry for each earlier start. A start of all runs may have none: it gets an empty one.
    before = len(array.earlier) + bool(array.job_id)
    parts = (*array.parts, *[""] * before)[:before]
    earlier = (*array.earlier, array.job_id) if array.job_id else array.earlier
    parts = (*parts, part)
    array = hand_over(array, script_of(array), walltime, options, earlier=earlier, parts=parts, excluded=excluded)
    return runs.task_of(array, run.index) if run.index >= 0 else array


def script_of(run: Run) -> str:
    """Return the text of the submitted script. Raises Refused if it cannot be read."""
    try:
        return run.script.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise Refused(Fault(where=str(run.script), what=f"cannot be read: {error.strerror}")) from None


def submission_options(run: Run) -> tuple[dict[str, str], int]:
    """Return the sbatch options of the run's script, and its walltime in seconds, from the run's spec."""
    spec = run.spec()
    pairs, walltime = spec.get("directives", []), spec.get("walltime", 0)
    valid = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2] if isinstance(pairs, list) else []
    return {str(name): str(value) for name, value in valid}, walltime if isinstance(walltime, int) else 0


def ending_of(run: Run, unwell: Callable[[str], tuple[str, ...]] | None = None) -> Ending:
    """Return how a run ended, for the decision about a new start. ``unwell`` returns the broken ones of some nodes."""
    unwell = unwell or scheduler_of(run.scheduler).unwell
    attempts = [name for name in run.attempts() if name.rpartition(".")[0] == run.job_id]
    marker = run.path / "attempts" / attempts[-1] / "first-failure" if attempts else Path("/nonexistent")
    blamable = run.state in ("NODE_FAIL", "BOOT_FAIL", "FAILED")  # only then is a question about the nodes worth a call
    single = bool(run.nodes) and not any(sign in run.nodes for sign in ",[")  # Slurm writes several as n1,n2 or n[1-2]
    return Ending(
        state=run.state,
        exit_code=run.exit_code,
        log=_end_of_log(run),
        ranks_failed=marker.is_file(),
        nodes=1 if single else 0,
        only_node=run.nodes if single else "",
        unwell=unwell(run.nodes) if blamable else (),
    )


def _end_of_log(run: Run, most: int = 64 * 2**10) -> str:
    logs = run.logs()
    if not logs:
        return ""
    try:
        with logs[-1].open("rb") as file:
            file.seek(max(0, logs[-1].stat().st_size - most))
            return file.read(most).decode("utf-8", errors="replace")
    except OSError:
        return ""
