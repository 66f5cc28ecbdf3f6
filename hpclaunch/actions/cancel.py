"""Ends runs: ``cancel``, and ``runs forget`` for a run whose state nobody can know any more."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch import runs
from hpclaunch.actions.states import refreshed, unsubmitted_fault, with_status
from hpclaunch.core.errors import Refused
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.runs import Run
from hpclaunch.schedulers import NEVER_BEGUN, scheduler_of


def cancellable(found: Sequence[Run]) -> list[Run]:
    """Return the runs whose job has not ended. Raises Refused for runs that were never submitted."""
    unsubmitted = [run for run in found if not run.final and not has_a_job(run)]
    if unsubmitted:
        raise Refused([unsubmitted_fault(run) for run in unsubmitted])
    return [run for run in found if not run.final]


def has_a_job(run: Run) -> bool:
    """Whether a job of the run may be queued. If one part of an array was refused, its earlier jobs may still run."""
    return bool(run.job_id) or (run.tasks > 0 and bool(run.earlier) and run.state != "SUBMITTING")


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
    cancelled = with_status(run, NEVER_BEGUN)
    runs.record_tasks(runs.whole_of(run), {run.index: cancelled})
    return cancelled
