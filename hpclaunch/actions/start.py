"""Starting what was prepared: create the run directory, then give its script to the scheduler."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpclaunch import runs
from hpclaunch.core.errors import Fault, Interrupted, Refused, SchedulerError, Unanswered
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.runs import Run
from hpclaunch.runs.snapshot import choose
from hpclaunch.schedulers import scheduler_of

if TYPE_CHECKING:
    from hpclaunch.actions.submit import Prepared
    from hpclaunch.actions.system import System


def start(system: System, prepared: Prepared) -> Run:
    """Check, create the run directory, submit. If the scheduler refuses, the directory stays, with the reason."""
    from hpclaunch.actions.preflight import check  # all that is resolved, which a further start does not need

    check(prepared)
    return hand_over(create_run(system, prepared), prepared.text, prepared.spec.walltime)


def create_run(system: System, prepared: Prepared) -> Run:
    """Create the run directory (state RENDERED), so that its script can be given to sbatch by hand.

    Raises Refused if the code is not there; missing data is for the caller to weigh. The list of runs is told first, so
    that no run is lost; where it cannot be written the run is still found by its folder, and the person is told.
    """
    from hpclaunch.actions.preflight import missing_code
    from hpclaunch.planner.measured.calibrations import expect

    spec = prepared.spec
    faults = [*prepared.faults, *missing_code(spec)]
    if faults:
        raise Refused(faults)
    trouble = runs.remember(system.index, Path(spec.run_dir))
    if trouble:
        system.warn(f"{trouble}; hpclaunch finds this run from {system.cwd}, or by its path")
    if spec.calibration_key:
        expect(system.environment, spec.calibration_key, spec.run_dir)
    request = {**asdict(prepared.case.request), "cwd": str(system.cwd)}
    submission = runs.Submission(host=os.uname().nodename, environment=system.environment, request=request)
    return runs.create(spec, prepared.script, choose(spec.code), submission)


def hand_over(run: Run, text: str, walltime: int, options: Sequence[str] = (), **news: Any) -> Run:
    """Give a run's script to its scheduler, so that its record is right wherever this is interrupted.

    The record says SUBMITTING before the scheduler is asked, and what came of it after. Raises SchedulerError.
    """
    started = runs.claim(run, state="SUBMITTING", job_id="", exit_code="", reason="", nodes="", **news)
    if started is None:
        raise Refused(Fault(what=f"{run.label} is being submitted by another process", next="hpclaunch status"))
    with contextlib.suppress(OSError):  # the scheduler says what is wrong with a directory that cannot be written
        (run.path / "logs").mkdir(exist_ok=True)
    runs.release(run)
    try:
        job_id = scheduler_of(run.scheduler).submit(started, text, walltime, options)
    except Unanswered as error:
        runs.change(started, reason=" ".join(error.faults[0].what.split()))
        raise
    except SchedulerError as error:
        runs.change(started, state="NOT_SUBMITTED", reason=" ".join(str(error).split()))
        raise
    except KeyboardInterrupt:
        next_step = f"hpclaunch status {run.label} tells; hpclaunch cancel {run.label} ends it"
        what = f"interrupted while {run.label} was handed over: it may be queued"
        raise Interrupted(Fault(what=what, next=next_step)) from None
    row = scheduler_row(run.scheduler)
    if row.has_queue and not run.tasks:
        runs.reserve(run, job_id)
    return runs.change(started, job_id=job_id, state=row.first_state, submission="hpclaunch")
