"""The runs that a submission waits for (--after, --after-any), from their records, or with their present states."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch import runs
from hpclaunch.actions.identity import obstacle, other_users
from hpclaunch.core.errors import Fault, NotFound
from hpclaunch.core.predecessor import Predecessor
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.core.spec import Request
from hpclaunch.runs import Run

if TYPE_CHECKING:
    from hpclaunch.actions.system import System


def recorded_predecessors(system: System, request: Request) -> tuple[Predecessor, ...]:
    """Return the runs that the request names, as they were last recorded; asks no scheduler. Raises NotFound."""
    return tuple(_predecessor_of(run, must, present=False) for run, must in _runs_of(system, request))


def present_predecessors(system: System, request: Request) -> tuple[Predecessor, ...]:
    """Return the runs that the request names, in their present states: the scheduler is asked. Raises NotFound."""
    from hpclaunch.actions.states import refreshed

    named = _runs_of(system, request)
    present = refreshed([run for run, _ in named])
    return tuple(_predecessor_of(run, must, present=True) for run, (_, must) in zip(present, named, strict=True))


def _runs_of(system: System, request: Request) -> list[tuple[Run, bool]]:
    """Return (run, whether it must have completed) for each run that the request names, once."""
    names = [*((name, True) for name in request.after), *((name, False) for name in request.after_any)]
    try:
        found = runs.find_all(system.index, [name for name, _ in names], system.run_folders)
    except NotFound as error:
        jobs = [
            (name, must) for name, must in names if name.isdigit() and any(f"'{name}'" in f.what for f in error.faults)
        ]
        raise (error.also(_other_jobs_fault(jobs)) if jobs else error) from None
    chosen: dict[Path, tuple[Run, bool]] = {}
    for run, (_, must) in zip(found, names, strict=True):
        chosen.setdefault(run.path, (run, must))  # of both flags for one run, --after counts: it comes first
    return list(chosen.values())


def _other_jobs_fault(jobs: Sequence[tuple[str, bool]]) -> Fault:
    """Return how to wait for jobs that hpclaunch has no run of; the IDs, and whether each must have completed."""
    row = next(row for row in SCHEDULERS.values() if row.wait_option)
    conditions = [(row.wait_ok if must else row.wait_any).format(job_id) for job_id, must in jobs]
    what = "--after and --after-any take jobs that hpclaunch submitted"
    return Fault(what=what, next=f"for any other: --sbatch {row.wait_option.format(','.join(conditions))}")


def _predecessor_of(run: Run, must_complete: bool, present: bool) -> Predecessor:
    refusal, next_step = _refusal_of(run, present)
    command = run.spec().get("command")
    return Predecessor(
        run=run.label,
        must_complete=must_complete,
        site=run.site,
        state=run.state,
        jobs=() if run.final else tuple(job.job_id for job in runs.jobs_of(run)),
        has_failed=runs.has_failed(run),
        refusal=refusal,
        next=next_step,
        command=tuple(map(str, command)) if isinstance(command, list) else (),
    )


def _refusal_of(run: Run, present: bool) -> tuple[str, str]:
    """Return why no run can wait for this one, and the next step; two empty texts if one can."""
    fault = obstacle(run) if present else other_users(run)
    if fault:
        return fault.what, fault.next
    if run.final:
        return "", ""
    if not run.job_id:
        return f"{run.label} has no job: its state is {run.state}", f"hpclaunch status {run.label}"
    restarts = run.spec().get("restarts")
    if isinstance(restarts, dict) and restarts.get("most") and restarts.get("by") == "resubmit":
        what = f"{run.label} may continue in another job, which the scheduler does not know yet"
        return what, f"when it has ended (hpclaunch wait {run.label}), submit again"
    return "", ""
