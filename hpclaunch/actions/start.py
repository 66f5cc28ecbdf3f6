"""Starts a prepared run: creates the run directory, then submits its script to the scheduler."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch import runs
from hpclaunch.core.errors import Fault, Interrupted, NotFound, NotRecorded, Refused, SchedulerError, Unanswered
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.runs import Run
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
        git=system.git_state(snapshot),
        environment=system.environment,
        request=request,
    )
    return runs.create(spec, prepared.script, snapshot, submission)


def hand_over(run: Run, text: str, walltime: int, options: Sequence[str] = (), **news: Unpack[RecordChange]) -> Run:
    """Submit a run's script to its scheduler (``walltime`` in seconds) and return the run with its job ID.

    The record says SUBMITTING before the scheduler is asked, so that it is right wherever this is interrupted.
    Raises Refused, SchedulerError, Interrupted.
    """
    claimed: RecordChange = {**news, "state": "SUBMITTING", "job_id": "", "exit_code": "", "reason": "", "nodes": ""}
    started = runs.claim(run, **claimed)
    if started is None:
        raise Refused(Fault(what=f"{run.label} is being submitted by another process", next="hpclaunch status"))
    with contextlib.suppress(OSError):  # if the folder cannot be written, the scheduler reports it
        (run.path / "logs").mkdir(exist_ok=True)
    runs.release(run)
    try:
        job_id = scheduler_of(run.scheduler).submit(started, text, walltime, options)
    except Unanswered as error:
        with contextlib.suppress(OSError, NotFound):  # the scheduler's answer counts more
            runs.change(started, reason=" ".join(error.faults[0].what.split()))
        raise
    except SchedulerError as error:
        with contextlib.suppress(OSError, NotFound):
            runs.change(started, state="NOT_SUBMITTED", reason=" ".join(str(error).split()))
        raise
    except KeyboardInterrupt:
        next_step = f"to see whether it is: hpclaunch status {run.label}; to end it: hpclaunch cancel {run.label}"
        what = f"interrupted while {run.label} was being submitted: it may be queued"
        raise Interrupted(Fault(what=what, next=next_step)) from None
    row = scheduler_row(run.scheduler)
    if row.has_queue and not run.tasks:
        runs.reserve(run, job_id)
    try:
        return runs.change(started, job_id=job_id, state=row.first_state, submission="hpclaunch")
    except (OSError, NotFound) as error:
        raise _not_recorded(started, job_id, error) from None


def _not_recorded(run: Run, job_id: str, error: OSError | NotFound) -> NotRecorded:
    why = error.strerror if isinstance(error, OSError) else error.faults[0].what
    what = f"{run.label} was submitted as job {job_id}, but its record could not be written: {why}"
    fault = Fault(where=str(run.path), what=what, next=f"do not submit it again; hpclaunch status {run.path}")
    return NotRecorded(fault, job_id=job_id, run_dir=str(run.path))
