"""Starts a prepared run: creates the run directory, then submits its script to the scheduler."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch import runs
from hpclaunch.core.errors import Fault, Interrupted, NotFound, NotRecorded, Refused, SchedulerError, Unanswered
from hpclaunch.core.folders import state_folder
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.runs import Run, leases
from hpclaunch.runs.leases import Lease
from hpclaunch.runs.snapshot import choose
from hpclaunch.schedulers import scheduler_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hpclaunch.actions.submit import Prepared
    from hpclaunch.actions.system import System
    from hpclaunch.runs import RecordChange


def start(system: System, prepared: Prepared) -> Run:
    """Check, create the run directory, submit. If the scheduler refuses, the directory stays and records the reason."""
    from hpclaunch.actions.preflight import check  # imports the resolver, which a further start does not need
    from hpclaunch.actions.submit import follow_live_limit

    prepared = follow_live_limit(system, prepared)
    check(prepared)
    _refuse_untrusted(system, prepared)
    return hand_over(create_run(system, prepared), prepared.text, prepared.spec.walltime)


def _refuse_untrusted(system: System, prepared: Prepared) -> None:
    """Raise Refused if the run would start programs of the project here that the user neither named nor trusts."""
    if prepared.case.site.scheduler_row.has_queue:
        return
    from hpclaunch.actions.trust import run_refusal

    refused = run_refusal(system, prepared.case)
    if refused:
        next_step = "hpclaunch trust, or the same command in another folder"
        raise Refused(Fault(what=f"nothing was started: {refused}", next=next_step))


def create_run(system: System, prepared: Prepared) -> Run:
    """Create the run directory (state RENDERED). Its script can then be submitted.

    The path is first added to the list of runs, so that no run is lost. If the list cannot be written, the user is
    warned: the run can still be found by its folder. Raises Refused if the code is missing; the caller checks the data.
    """
    from hpclaunch.actions.preflight import missing_code
    from hpclaunch.planner.measured.calibrations import expect

    spec = prepared.spec
    faults = [*prepared.faults, *missing_code(spec)]
    if faults:
        raise Refused(faults)
    problem = runs.remember(system.index, Path(spec.run_dir))
    if problem:
        system.warn(f"{problem}; hpclaunch finds this run from {system.cwd}, or by its path")
    if spec.calibration_key:
        expect(system.environment, spec.calibration_key, spec.run_dir)
    request = {**asdict(prepared.case.request), "cwd": str(system.cwd)}
    snapshot = choose(spec.code)
    submission = runs.Submission(
        host=os.uname().nodename,
        folder=str(system.cwd),
        git=system.git_state(snapshot),
        environment=system.environment,
        request=request,
    )
    run = runs.create(spec, prepared.script, snapshot, submission)
    problem = runs.list_own(state_folder(system.environment), run)
    if problem:
        adopt = f"hpclaunch runs adopt {shlex.quote(spec.run_dir)}"
        system.warn(f"{problem}; hpclaunch shows this run, but acts on it only after: {adopt}")
    return run


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
    started, lease = _take_over(run, write, news)
    try:
        job_id = scheduler_of(run.scheduler).submit(started, text, walltime, options)
    except Unanswered as error:
        with contextlib.suppress(OSError, NotFound):  # the scheduler's answer counts more
            runs.change(started, reason=" ".join(error.faults[0].what.split()))
        raise
    except SchedulerError as error:
        outcome = leases.end(lease, leases.NOT_SUBMITTED)
        if outcome != leases.NOT_SUBMITTED:  # hpclaunch status has found the job meanwhile
            return _record_job(started, outcome)
        with contextlib.suppress(OSError, NotFound):
            reason = " ".join(f"{fault.where}: {fault.what}".removeprefix(": ") for fault in error.faults)
            runs.change(started, state="NOT_SUBMITTED", reason=" ".join(reason.split()))
        raise
    except KeyboardInterrupt:
        next_step = f"to see whether it is: hpclaunch status {run.label}; to end it: hpclaunch cancel {run.label}"
        what = f"interrupted while {run.label} was being submitted: it may be queued"
        raise Interrupted(Fault(what=what, next=next_step)) from None
    if _decide(lease, started, job_id) != job_id:
        _cancel_second(started, job_id)
    return _record_job(started, job_id)


def _take_over(run: Run, write: Callable[[], None] | None, news: RecordChange) -> tuple[Run, Lease]:
    """Return the run as SUBMITTING, and the lease under which this process submits it. Raises Refused."""
    try:
        lease = leases.take(run)
    except OSError as error:
        what = f"the run directory cannot be written: {error.strerror}"
        raise Refused(Fault(where=str(run.path), what=what)) from None
    if lease is None:
        raise _busy_error(run)
    cluster = scheduler_of(run.scheduler).cluster()
    claimed: RecordChange = {**news, "state": "SUBMITTING", "job_id": "", "exit_code": "", "reason": "", "nodes": ""}
    controller = next(iter(cluster.controllers), "")
    claimed.update({"host": os.uname().nodename, "cluster": cluster.name, "controller": controller})
    started = None
    try:
        if write:
            write()
        started = runs.claim(run, **claimed)
    finally:
        if started is None:
            leases.end(lease, leases.NOT_SUBMITTED)
    if started is None:
        raise _busy_error(run)
    with contextlib.suppress(OSError):  # if the folder cannot be written, the scheduler reports it
        (run.path / "logs").mkdir(exist_ok=True)
    runs.release(run)
    return started, lease


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


def _cancel_second(started: Run, job_id: str) -> None:
    """Cancel a job of a run that has another one by now. Raises Refused, SchedulerError."""
    scheduler_of(started.scheduler).cancel([replace(started, job_id=job_id)])
    what = f"{started.label} was given another job while this submission waited, so its job {job_id} was cancelled"
    raise Refused(Fault(what=what, next=f"hpclaunch status {started.label}"))


def _record_job(started: Run, job_id: str) -> Run:
    """Record the job of a submitted run, whatever became of the record meanwhile. Raises NotRecorded with the ID."""
    row = scheduler_row(started.scheduler)
    news: RecordChange = {"job_id": job_id, "state": row.first_state, "submission": "hpclaunch"}
    try:
        if row.has_queue and not started.tasks:
            runs.reserve(started, job_id)
        run = runs.change(started, **news)
        if job_id not in (run.job_id, *run.earlier):
            corrected: RecordChange = {**news, "reason": "", "earlier": started.earlier}
            run = runs.change(run, **corrected)
        return run
    except (OSError, NotFound) as error:
        raise _lost_record_error(started, job_id, error) from None


def _lost_record_error(run: Run, job_id: str, error: OSError | NotFound) -> NotRecorded:
    why = error.strerror if isinstance(error, OSError) else error.faults[0].what
    what = f"{run.label} was submitted as job {job_id}, but its record could not be written: {why}"
    fault = Fault(where=str(run.path), what=what, next=f"do not submit it again; hpclaunch status {run.path}")
    return NotRecorded(fault, job_id=job_id, run_dir=str(run.path))
