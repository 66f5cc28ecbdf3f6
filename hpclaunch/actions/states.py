"""Runs after their submission: their states, cancelling them, starting them again; each scheduler is asked once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpclaunch import runs
from hpclaunch.actions.start import hand_over
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.files import read_text
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.units import count
from hpclaunch.runs import Run, leases
from hpclaunch.runs.retry_policy import Ending, RetryDecision, decide, merged
from hpclaunch.schedulers import NEVER_BEGUN, Search, Status, scheduler_of

if TYPE_CHECKING:
    from hpclaunch.actions.system import System

_PATIENCE_S = 300
"""For so long after a failure accounting may still add exit codes."""
_MOST_NAMED = 5
NEVER_QUEUED = ("RENDERED", "INCOMPLETE")
"""States of runs that were never submitted, and so will never end."""


def refreshed(found: Sequence[Run]) -> list[Run]:
    """Return the runs with their present states. Each scheduler is asked once, and changes are recorded.

    The runs of a job array are updated through the array, which is one record for all of them.
    """
    # The recorded runs, each array once, with job IDs from starts that hpclaunch did not see.
    parents = {run.home: runs.whole_of(run) for run in found}
    recorded = _settle_all([_follow_chain(_find_start_by_hand(run)) for run in parents.values()])
    tasks = {run.path: _open_tasks(run, found) for run in recorded if run.tasks}
    news = _ask_schedulers(recorded, tasks)
    updated = {run.path: _apply_news(run, tasks.get(run.path, []), news.get(run.scheduler, {})) for run in recorded}
    return [runs.task_of(updated[run.home], run.index) if run.index >= 0 else updated[run.path] for run in found]


def _ask_schedulers(recorded: Sequence[Run], tasks: Mapping[Path, Sequence[Run]]) -> dict[str, dict[str, Status]]:
    """Return scheduler -> job ID -> state: one question to each scheduler, about its runs that may still change."""
    news: dict[str, dict[str, Status]] = {}
    for name in {run.scheduler for run in recorded}:
        own = [run for run in recorded if run.scheduler == name]
        candidates = [task for run in own for task in tasks.get(run.path, [run])]
        open_runs = [run for run in candidates if run.job_id and _may_change(run)]
        if open_runs:
            news[name] = scheduler_of(name).states(open_runs)
    return news


def _open_tasks(array: Run, found: Sequence[Run]) -> list[Run]:
    """Return the runs of an array to ask the scheduler about: those that were named, or all."""
    # For a while after a failure accounting may still add the exit codes of its runs.
    is_settled = array.state == "COMPLETED" or _age(array, runs.STATES) >= _PATIENCE_S
    if is_settled and not runs.is_unfinished(array):
        return []
    named = [run.index for run in found if run.home == array.path]
    return runs.tasks_of(array, None if -1 in named else named)  # -1: the whole array was named


def _apply_news(run: Run, tasks: Sequence[Run], news: Mapping[str, Status]) -> Run:
    if not run.tasks:
        now = _update(run, news.get(run.job_id))
        return _follow_chain(now) if now.final and not run.final else now  # it may just have submitted its successor
    answered = [(task, news[task.job_id]) for task in tasks if task.job_id in news]
    # An ended run changes only once more: when accounting knows its exit code.
    changed = {task.index: _set_status(task, status) for task, status in answered if status.exit_code or not task.final}
    return runs.record_tasks(run, changed) if changed else run


def _set_status(run: Run, status: Status) -> Run:
    nodes = status.nodes or run.nodes
    return replace(run, state=status.state, exit_code=status.exit_code, reason=status.reason, nodes=nodes)


def _may_change(run: Run) -> bool:
    """Whether the scheduler may know more: accounting may get the exit code only after the queue reports FAILED."""
    if run.state != "FAILED" or run.exit_code:
        return not run.final
    return _age(run, runs.HISTORY if run.index < 0 else runs.STATES) < _PATIENCE_S


def _age(run: Run, file: str) -> float:
    """Return the seconds since a file of the run, or of its array, was last changed."""
    try:
        return time.time() - (run.home / file).stat().st_mtime
    except OSError:
        return 0.0


def _update(run: Run, status: Status | None) -> Run:
    if status is None or (run.final and not status.exit_code):
        return run
    now = _set_status(run, status)
    # The reason for waiting changes often and is asked for each time, so it is shown but not recorded.
    known = run if now.final else replace(run, reason=now.reason)
    if now == known:
        return now
    return _record_news(run, state=now.state, exit_code=now.exit_code, reason=now.reason, nodes=now.nodes)


def _record_news(run: Run, **news: Any) -> Run:
    """Return the run with the changes, and record them if its directory can be written."""
    try:
        return runs.change(run, durable=False, **news)
    except OSError:
        return replace(run, **news)


def _find_start_by_hand(run: Run) -> Run:
    """Return a run with the job ID of its last start, if a person started the script without hpclaunch."""
    if run.submission == "hpclaunch" or run.state in ("SUBMITTING", "INCOMPLETE"):
        return run
    places = "*/attempts/*/started" if run.tasks else "attempts/*/started"
    markers = sorted(run.path.glob(places), key=lambda path: path.stat().st_mtime)
    if not markers:
        return run
    newest = markers[-1].parent.name.rpartition(".")[0]
    newest = newest.partition("_")[0] if run.tasks else newest  # ARRAYID_INDEX: the array has the first part
    if not runs.JOB_ID.fullmatch(newest) or newest == run.job_id:
        return run
    return _record_news(run, job_id=newest, state="UNKNOWN", exit_code="", reason="", submission="by hand")


def _follow_chain(run: Run) -> Run:
    """Return a run with the last job of its chain: a script that cannot requeue itself submits a successor."""
    starts = [name for name in run.attempts() if name.rpartition(".")[0] == run.job_id]
    if not starts or not run.job_id:
        return run
    text = read_text(run.path / "attempts" / starts[-1] / "next-job")
    successor = text.strip().partition(";")[0]  # sbatch --parsable adds the cluster after a semicolon
    if not runs.JOB_ID.fullmatch(successor) or successor in (run.job_id, *run.earlier):
        return run
    news = {"job_id": successor, "state": "PENDING", "earlier": (*run.earlier, run.job_id)}
    return _follow_chain(_record_news(run, exit_code="", reason="", nodes="", **news))


def _settle_all(found: Sequence[Run]) -> list[Run]:
    """Find out what became of unanswered submissions: from their marker files, else by asking the scheduler."""
    settled = {run.path: run for run in found}
    for name in {run.scheduler for run in found}:
        lost = [run for run in found if run.scheduler == name and run.state == "SUBMITTING"]
        if lost:
            silences = {run.path: leases.silence(run.path) for run in lost}  # first: what is found later is newer
            search = scheduler_of(name).search(lost)
            settled.update({run.path: _settle_run(run, search, silences[run.path]) for run in lost})
    return [settled[run.path] for run in found]


def _settle_run(run: Run, search: Search, silence: float) -> Run:
    """Return the run with the outcome of its submission, if that is known.

    ``silence``: the seconds since the submitting process gave a sign of life. The first recorded outcome counts, but a
    job that exists is never left out.
    """
    started = [name.rpartition(".")[0] for name in run.attempts()]
    new_ids = [job_id for job_id in (*search.jobs.get(run.path, ()), *started) if job_id not in run.earlier]
    is_lost = search.certain and silence >= leases.PATIENCE_S
    outcome = leases.settle(run.path, new_ids[0] if new_ids else leases.NOT_SUBMITTED if is_lost else "")
    job_id = outcome if runs.JOB_ID.fullmatch(outcome) else (*new_ids, "")[0]
    if job_id:
        return _record_news(run, job_id=job_id, state="PENDING", reason="", submission="hpclaunch")
    if outcome:
        reason = "the scheduler knows no job of this run, queued or ended"
        return _record_news(run, state="NOT_SUBMITTED", reason=reason)
    if not search.answered:
        return _record_news(run, reason=search.words)
    if silence < leases.PATIENCE_S:
        return replace(run, reason=run.reason or "the scheduler has not answered yet")
    return replace(run, reason="the scheduler has no job of this run in its queue, and does not know about ended jobs")


def find(system: System, names: Sequence[str]) -> list[Run]:
    """Return runs by name, directory or job ID, with their present states; without names the newest run.

    Raises NotFound with every unknown name.
    """
    if names:
        found = runs.find_all(system.index, names, system.run_folders)
    else:
        found = recorded_runs(system)[:1] or [runs.find(system.index, None, system.run_folders)]
    return refreshed(list({run.path: run for run in found}.values()))


def recorded_runs(system: System) -> list[Run]:
    """Return all runs with their last recorded states, newest first; warns of folders that the user may not read."""
    found = runs.known(system.index, system.run_folders)
    warn_not_permitted(system, found.not_permitted)
    return list(found.runs)


def warn_not_permitted(system: System, folders: Sequence[Path]) -> None:
    """Warn, in one line, of folders that were skipped because the user may not read them."""
    if folders:
        named = ", ".join(map(str, folders[:_MOST_NAMED])) + (", ..." if folders[_MOST_NAMED:] else "")
        system.warn(f"skipped {count(len(folders), 'folder')} that you may not read: {named}")


def all_runs(system: System) -> list[Run]:
    """Return all runs with their present states, newest first."""
    return refreshed(recorded_runs(system))


def explanation(run: Run) -> str:
    """Return why a run waits, in words; empty if the scheduler's reason is not a known one."""
    # An array's reason is "9 runs: 9 PENDING (Priority)": the most common reason of its waiting runs stands last.
    reason = run.reason.partition(" (")[2].removesuffix(")") if run.tasks else run.reason
    if run.final or not reason:
        return ""
    return scheduler_of(run.scheduler).explain(reason).replace("JOBID", run.job_id)


def cancellable(found: Sequence[Run]) -> list[Run]:
    """Return the runs whose job has not ended. Raises Refused for runs that were never submitted."""
    unsubmitted = [run for run in found if not run.final and not has_a_job(run)]
    if unsubmitted:
        raise Refused([unsubmitted_fault(run) for run in unsubmitted])
    return [run for run in found if not run.final]


def has_a_job(run: Run) -> bool:
    """Whether a job of the run may be queued. If one part of an array was refused, its earlier jobs may still run."""
    return bool(run.job_id) or (run.tasks > 0 and bool(run.earlier) and run.state != "SUBMITTING")


def awaitable(found: Sequence[Run]) -> Sequence[Run]:
    """Return the runs. Raises Refused for runs that were never submitted: waiting for them would never end."""
    unsubmitted = [run for run in found if run.state in NEVER_QUEUED]
    if unsubmitted:
        raise Refused([unsubmitted_fault(run) for run in unsubmitted])
    return found


def unsubmitted_fault(run: Run) -> Fault:
    """Return why the run has no job, and the command that starts one."""
    if run.state == "SUBMITTING":
        return Fault(what=f"{run.label} is being submitted", next=f"hpclaunch status {run.label}")
    if run.state == "INCOMPLETE":
        what = f"{run.label} is not ready: its submission is still at work or was interrupted; nothing is queued"
        return Fault(what=what, next="unless it is still at work, hpclaunch submit again")
    return Fault(what=f"{run.label} was rendered but not submitted", next=f"to start it: {run.start_command}")


def cancel(found: Sequence[Run]) -> list[Run]:
    """Cancel runs with one call to each scheduler, and return them with their new states; ended runs do not change.

    Raises Refused for a run that was never submitted, and SchedulerError.
    """
    active = cancellable(found)
    for name in {run.scheduler for run in active}:
        own = [run for run in active if run.scheduler == name]
        jobs = [job for run in own for job in runs.jobs_of(run)]
        ended = bool(jobs) and scheduler_of(name).cancel(jobs)
        # A later question to such a scheduler has no answer, so the end is recorded now.
        if ended and not scheduler_row(name).remembers_cancelled:
            found = [runs.change(run, state="CANCELLED") if run in jobs else run for run in found]
    waited = {run.path for run in active if run.index >= 0 and run.state == "PENDING"}
    return [_mark_cancelled(run) if run.path in waited else run for run in refreshed(found)]


def _mark_cancelled(run: Run) -> Run:
    """Return a run of an array that was cancelled while it waited.

    Slurm's queue forgets such a task at once, and accounting lists it only later.
    """
    if run.state != "UNKNOWN" or run.reason:
        return run
    cancelled = _set_status(run, NEVER_BEGUN)
    runs.record_tasks(runs.whole_of(run), {run.index: cancelled})
    return cancelled


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
    news: dict[str, Any] = {"earlier": earlier, "parts": (*parts, part), "excluded": excluded}
    array = hand_over(array, script_of(array), walltime, options, **news)
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
