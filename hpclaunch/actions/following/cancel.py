"""Ends runs: ``cancel``, and ``runs forget`` for a run whose state stays unknown."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hpclaunch import runs
from hpclaunch.actions.following.identity import obstacle, other_users, require_permission
from hpclaunch.actions.following.states import is_lost, refreshed, unsubmitted_fault
from hpclaunch.core.errors import Fault, Refused, SchedulerError, unwritable
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.runs import Run, leases
from hpclaunch.runs.markers import mark_cancelled
from hpclaunch.schedulers import scheduler_of

FORGOTTEN = "FORGOTTEN"
"""The state of a run that a person has closed."""


def cancellable(found: Sequence[Run]) -> list[Run]:
    """Return the runs whose job has not ended.

    Raises Refused for runs that were never submitted, those of other users, and those of other clusters.
    """
    active = [run for run in found if not run.final]
    require_permission(active)
    unsubmitted = [run for run in active if not has_a_job(run)]
    if unsubmitted:
        raise Refused([unsubmitted_fault(run) for run in unsubmitted])
    return active


def has_a_job(run: Run) -> bool:
    """Whether a job of the run may be queued. If one part of an array was refused, its earlier jobs may still run."""
    return bool(run.job_id) or (run.tasks > 0 and bool(run.earlier) and run.state != "SUBMITTING")


def all_cancellable(found: Sequence[Run]) -> list[Run]:
    """Return the runs that ``cancel --all`` ends: those of this user, whose jobs can be ended from this machine."""
    here = os.uname().nodename
    reachable = [run for run in found if scheduler_row(run.scheduler).has_queue or run.host == here]
    return [run for run in reachable if not run.final and has_a_job(run) and obstacle(run) is None]


def cancel(found: Sequence[Run]) -> list[Run]:
    """Cancel runs with one call to each scheduler, and return them with their new states; ended runs do not change.

    Raises Refused for a run that was never submitted or of which the scheduler has no job, and SchedulerError, after
    the other schedulers have cancelled theirs.
    """
    active = cancellable(found)
    cancelled = _cancel_at_each(active)
    now = refreshed([cancelled.get(run.path, run) for run in found])
    missed = {run.path for run in active} - cancelled.keys()
    faults = [_no_job_fault(run) for run in now if run.path in missed and not run.final]
    if faults:
        raise Refused(faults)
    successors = [run for run in now if run.path in cancelled and _has_successor(run, cancelled[run.path])]
    ended = {run.path: run for run in cancel(successors)} if successors else {}
    return [ended.get(run.path, run) for run in now]


def _has_successor(run: Run, cancelled: Run) -> bool:
    """Whether the cancelled job's script had submitted its successor just before, which is the run's job now."""
    return not run.final and run.job_id != cancelled.job_id and cancelled.job_id in run.earlier


def _cancel_at_each(active: Sequence[Run]) -> dict[Path, Run]:
    """Cancel the runs of each scheduler; return those whose jobs ended, by path. Raises SchedulerError at the end."""
    cancelled: dict[Path, Run] = {}
    faults: list[Fault] = []
    for name in dict.fromkeys(run.scheduler for run in active):
        try:
            cancelled |= _cancel_jobs(name, [run for run in active if run.scheduler == name])
        except SchedulerError as error:
            faults += error.faults
    if faults:
        raise SchedulerError(faults)
    return cancelled


def _cancel_jobs(name: str, active: Sequence[Run]) -> dict[Path, Run]:
    """Cancel the jobs of runs of one scheduler with one call; return the runs whose jobs it ended, by path."""
    jobs = [job for run in active for job in runs.jobs_of(run)]
    ended = set(scheduler_of(name).cancel(jobs)) if jobs else set()
    paths = set()
    for job in jobs:
        if runs.identity_of(job) in ended:
            mark_cancelled(job, job.job_id)
            paths.add(job.path)
    cancelled = {run.path: run for run in active if run.path in paths}
    if scheduler_row(name).remembers_cancelled:
        return cancelled
    # A later question to such a scheduler has no answer, so the end is recorded now.
    return {path: runs.change(run, state="CANCELLED") for path, run in cancelled.items()}


def _no_job_fault(run: Run) -> Fault:
    what = f"nothing was cancelled for {run.label}: {scheduler_row(run.scheduler).title} lists no job of this run"
    return Fault(what=what, next=f"hpclaunch status {run.label}; to close it: hpclaunch runs forget {run.label}")


def forgettable(found: Sequence[Run]) -> list[Run]:
    """Return the runs. Raises Refused, with every reason, for those whose state is known or can still be found out."""
    faults = [fault for run in found if (fault := _known_state_fault(run))]
    if faults:
        raise Refused(faults)
    return list(found)


def _known_state_fault(run: Run) -> Fault | None:
    """Return why a run may not be closed by a person; None if it may."""
    theirs = other_users(run)
    if theirs:
        return theirs
    if run.final:
        return Fault(what=f"{run.label} has ended: it is {run.state}", next=f"hpclaunch runs clean {run.label}")
    if obstacle(run) or is_lost(run):  # about a run of another cluster no scheduler can be asked from here
        return None
    if run.state in ("RENDERED", "INCOMPLETE", "SUBMITTING"):
        return unsubmitted_fault(run)
    return Fault(what=f"{run.label} is {run.state}", next=f"hpclaunch cancel {run.label}")


def forget(found: Sequence[Run]) -> list[Run]:
    """Record the runs as FORGOTTEN, with the user, the time and the last known state, and return them.

    No job is cancelled, and no file is deleted. Raises Refused for a record that cannot be written.
    """
    forgotten = []
    for run in forgettable(found):
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        reason = f"closed by the user with uid {os.getuid()} on {when}; its last known state was {run.state}"
        try:
            forgotten.append(_close(run, reason))
        except OSError as error:
            raise unwritable(run.path, error) from None
    return forgotten


def _close(run: Run, reason: str) -> Run:
    if run.state == "SUBMITTING":  # a later start may take the lease; a late answer of the scheduler still counts
        outcome = leases.settle(leases.newest(run.home), leases.NOT_SUBMITTED)
        if runs.JOB_ID.fullmatch(outcome):
            return refreshed([run])[0]
    if run.index < 0 and not run.tasks:
        return runs.change(run, state=FORGOTTEN, reason=reason)
    array = runs.whole_of(run)
    tasks = runs.tasks_of(array, [run.index] if run.index >= 0 else None)
    closed = {task.index: replace(task, state=FORGOTTEN, reason=reason) for task in tasks if not task.final}
    array = runs.record_tasks(array, closed) if array.job_id else runs.change(array, state=FORGOTTEN, reason=reason)
    return runs.task_of(array, run.index) if run.index >= 0 else array
