"""Hands a run's script to its scheduler, so that it is queued once: under a lease, recorded before the call."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hpclaunch import runs
from hpclaunch.actions.following.identity import destination_of, placed
from hpclaunch.core.errors import (
    Fault,
    Interrupted,
    NotFound,
    NotRecorded,
    Refused,
    SchedulerError,
    Unanswered,
    unwritable,
)
from hpclaunch.core.files import replace_text
from hpclaunch.core.folders import state_folder
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.runs import Run, leases
from hpclaunch.runs.leases import Lease
from hpclaunch.schedulers import HeldRequest, QueuedJob, scheduler_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hpclaunch.runs import RecordChange


def hand_over(
    run: Run,
    text: str,
    walltime: int,
    options: Sequence[str] = (),
    write: Callable[[], None] | None = None,
    **news: Unpack[RecordChange],
) -> Run:
    """Submit a run's script to its scheduler (``walltime`` in seconds) and return the run with its job ID.

    One process alone can do this at a time, also without file locks. It calls ``write`` before it submits. The record
    says SUBMITTING before the scheduler is asked, so that it is right wherever this is interrupted. Raises Refused,
    SchedulerError, Interrupted.
    """
    with runs.opened(state_folder(os.environ), run):  # as others may have exchanged it, nothing of theirs is submitted
        started, lease = _take_over(run, write, news)
    try:
        queued = _submit_with_new_number(started, text, walltime, options)
    except Unanswered as error:
        with contextlib.suppress(OSError, NotFound):  # the scheduler's answer counts more
            runs.change(started, reason=" ".join(error.faults[0].what.split()))
        raise
    except SchedulerError as error:
        outcome = leases.end(lease, leases.NOT_SUBMITTED)
        if outcome != leases.NOT_SUBMITTED:  # hpclaunch status has found the job meanwhile
            return _record_job(_read_place(started), QueuedJob(job_id=outcome))
        with contextlib.suppress(OSError, NotFound):
            reason = " ".join(f"{fault.where}: {fault.what}".removeprefix(": ") for fault in error.faults)
            runs.change(started, state="NOT_SUBMITTED", reason=" ".join(reason.split()))
        raise
    except KeyboardInterrupt:
        next_step = f"to see whether it is: hpclaunch status {run.label}; to end it: hpclaunch cancel {run.label}"
        what = f"interrupted while {run.label} was being submitted: it may be queued"
        raise Interrupted(Fault(what=what, next=next_step)) from None
    job_id, started = queued.job_id, placed(started, queued.cluster)
    try:
        if _decide(lease, started, job_id) != job_id and not _belongs_to_a_start(started, job_id):
            _cancel_second(started, job_id)
        return _record_job(started, queued)
    except KeyboardInterrupt:
        what = f"interrupted, but {run.label} was submitted as job {job_id}"
        raise Interrupted(Fault(where=str(run.path), what=what, next=f"hpclaunch status {run.label}")) from None


def _submit_with_new_number(started: Run, text: str, walltime: int, options: Sequence[str]) -> QueuedJob:
    """Submit the script and return its job, whose ID no earlier start of this run had. Raises SchedulerError.

    A cluster that was set up again may give the number of an earlier start, whose markers are in the run directory.
    Such a job is cancelled at once, and the script submitted again: the next number is another one.
    """
    scheduler = scheduler_of(started.scheduler)
    for _ in range(len(started.earlier) + 1):
        queued = scheduler.submit(started, text, walltime, options)
        is_repeated = scheduler_row(started.scheduler).has_queue and queued.job_id in started.earlier
        if not is_repeated:
            return queued
        scheduler.cancel([replace(placed(started, queued.cluster), job_id=queued.job_id)])
    what = f"the cluster gives {started.label} the number of an earlier start, {queued.job_id}, again and again"
    raise SchedulerError(Fault(what=what, next=f"see that this job has ended, then hpclaunch retry {started.label}"))


def _take_over(run: Run, write: Callable[[], None] | None, news: RecordChange) -> tuple[Run, Lease]:
    """Return the run as SUBMITTING, and the lease under which this process submits it. Raises Refused.

    The state of an array may have changed since this process submitted the part before this one.
    """
    any_state = run.tasks > 0 and leases.ended_here(run)
    try:
        lease = leases.take(run)
    except OSError as error:
        raise unwritable(run.path, error) from None
    if lease is None:
        raise _busy_error(run)
    place = destination_of(run)
    if run.final:
        runs.drop_ended(state_folder(os.environ), run.path)
    claimed: RecordChange = {**news, "state": "SUBMITTING", "job_id": "", "exit_code": "", "reason": "", "nodes": ""}
    claimed.update({"allocation": "", "repaired": "", "submitted": runs.utc_now()})
    claimed.update({"printed": "", "held": {}, "differs": ""})
    claimed.update({"host": os.uname().nodename, **place})
    started = None
    try:
        if write:
            write()
        started = runs.claim(run, any_state=any_state, **claimed)
    except OSError as error:
        raise unwritable(run.path, error) from None
    finally:
        if started is None:
            leases.end(lease, leases.NOT_SUBMITTED)
    if started is None:
        raise _busy_error(run)
    with contextlib.suppress(OSError):  # if the folder cannot be written, the scheduler reports it
        os.mkdir(run.path / "logs")
    runs.release(run)
    return started, lease


def _read_place(started: Run) -> Run:
    """Return a run with the place of its job that another process has recorded."""
    try:
        now = runs.load(started.path)
    except (OSError, NotFound):
        return started
    return replace(started, cluster=now.cluster, via=now.via, controller=now.controller)


def _busy_error(run: Run) -> Refused:
    """Return the refusal. If the other process ended without a word, ``status`` is left to find out what it did."""
    lease = leases.newest(run.path)
    if lease and not lease.outcome and leases.silence(run.path) >= leases.PATIENCE_S:
        with contextlib.suppress(OSError, NotFound):
            runs.change(run, state="SUBMITTING")
    holder = f" ({lease.holder})" if lease and not lease.outcome else ""
    what = f"{run.label} is being submitted by another process{holder}"
    return Refused(Fault(what=what, next=f"hpclaunch status {run.label}"))


def _decide(lease: Lease, started: Run, job_id: str) -> str:
    """Return the job that counts for the run: this one, unless a later submission has another.

    Another process may have given this submission up for lost, and even have begun a later one.
    """
    outcome = leases.end(lease, job_id)
    while outcome == leases.NOT_SUBMITTED:
        try:
            last = leases.newest(started.path)
            if last is None:
                return job_id
            taken = leases.take(started) if last.outcome == leases.NOT_SUBMITTED else last
        except OSError:
            return job_id
        if taken:  # else another process has taken the next lease at this moment
            outcome = leases.end(taken, job_id)
    return outcome


def _belongs_to_a_start(started: Run, job_id: str) -> bool:
    """Whether the record has this job: of an array that is submitted in parts, a later part may have it."""
    try:
        current = runs.load(started.path)
    except (OSError, NotFound):
        return False
    return job_id in (current.job_id, *current.earlier)


def _cancel_second(started: Run, job_id: str) -> None:
    """Cancel a job of a run that has another one by now. Raises Refused, which names the job if it may still run."""
    what = f"{started.label} was given another job while this submission waited"
    step = f"hpclaunch status {started.label}"
    try:
        second = replace(started, job_id=job_id)
        is_cancelled = runs.identity_of(second) in scheduler_of(started.scheduler).cancel([second])
        why = "the scheduler does not list it"
    except SchedulerError as error:
        is_cancelled, why = False, error.faults[0].what
    if not is_cancelled:
        what = f"{what}, and its own job {job_id} could not be cancelled: {why}"
        raise Refused(Fault(where=str(started.path), what=what, next=f"end the job {job_id}, then {step}"))
    raise Refused(Fault(what=f"{what}, so its job {job_id} was cancelled", next=step))


def _record_job(started: Run, queued: QueuedJob) -> Run:
    """Record the job of a submitted run, with what the scheduler holds of it. Raises NotRecorded with the ID.

    The lease names the job already, so nothing is lost while the scheduler is asked.
    """
    held = HeldRequest()
    try:
        held = scheduler_of(started.scheduler).held(replace(started, job_id=queued.job_id))
    finally:  # also if the user does not wait for it
        run = _write_job(started, queued, held)
    return run


def _write_job(started: Run, queued: QueuedJob, held: HeldRequest) -> Run:
    """Record the job, whatever became of the record meanwhile. Raises NotRecorded."""
    row, job_id = scheduler_row(started.scheduler), queued.job_id
    words: RecordChange = {"printed": queued.printed, "held": held.values, "differs": held.differs}
    words.update({"cluster": started.cluster, "via": started.via, "controller": started.controller})
    news: RecordChange = {"job_id": job_id, "state": row.first_state, "submission": "hpclaunch", **words}
    try:
        if row.has_queue and not started.tasks:
            runs.reserve(started, job_id)
        # The name is not waited for: the record before this one says SUBMITTING, from which the job is found again.
        run = runs.change(started, write=replace_text, **news)
        if job_id not in (run.job_id, *run.earlier):
            corrected: RecordChange = {**news, "reason": "", "earlier": started.earlier}
            run = runs.change(run, **corrected)
        elif run.job_id == job_id and (run.printed, run.held, run.place) != (
            queued.printed,
            held.values,
            started.place,
        ):
            run = runs.change(run, durable=False, **words)  # another process has found the job, but no more of it
        return run
    except (OSError, NotFound) as error:
        raise _lost_record_error(started, job_id, error) from None


def _lost_record_error(run: Run, job_id: str, error: OSError | NotFound) -> NotRecorded:
    why = error.strerror if isinstance(error, OSError) else error.faults[0].what
    what = f"{run.label} was submitted as job {job_id}, but its record could not be written: {why}"
    fault = Fault(where=str(run.path), what=what, next=f"do not submit it again; hpclaunch status {run.path}")
    return NotRecorded(fault, job_id=job_id, run_dir=str(run.path))
