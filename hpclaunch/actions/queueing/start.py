"""Starts a prepared run: creates the run directory, then submits its script to the scheduler."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from hpclaunch import runs
from hpclaunch.actions.queueing.hand_over import hand_over
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.folders import state_folder
from hpclaunch.core.quoting import shell_word
from hpclaunch.runs import Run
from hpclaunch.runs.create import Submission, create
from hpclaunch.runs.directories import weak_around
from hpclaunch.runs.snapshot import examine

if TYPE_CHECKING:
    from hpclaunch.actions.preparing.submit import Prepared
    from hpclaunch.actions.system import System
    from hpclaunch.config.job import Job


def start(system: System, prepared: Prepared, named: Job | None = None) -> Run:
    """Check, create the run directory, submit. If the scheduler refuses, the directory stays and records the reason.

    ``named``: the job that the user named, if the run has a copy of its code: it decides what needs trust.
    """
    from hpclaunch.actions.preparing.preflight import check  # imports the resolver, which a further start does not need
    from hpclaunch.actions.preparing.this_machine import confirm_head_node

    prepared = follow_present(system, prepared)
    for delay in check(prepared):
        system.warn(delay)
    refuse_untrusted(system, replace(prepared, case=replace(prepared.case, job=named)) if named else prepared)
    confirm_head_node(system, prepared.case)
    run = create_run(system, prepared)
    if run.tasks:
        from hpclaunch.actions.queueing.array_parts import submit_array

        return submit_array(run, prepared.job_script, range(run.tasks))
    return hand_over(run, prepared.text, prepared.spec.walltime)


def follow_present(system: System, prepared: Prepared) -> Prepared:
    """Return the submission as the scheduler's answers of this moment make it: limits, and runs that it waits for."""
    from hpclaunch.actions.preparing.submit import follow_live_limit, follow_predecessors

    return follow_predecessors(system, follow_live_limit(system, prepared))


def refuse_untrusted(system: System, prepared: Prepared) -> None:
    """Raise Refused if the run would start programs of the project here that the user neither named nor trusts."""
    case = prepared.case
    if case.site.scheduler_row.has_queue and case.context.allocation is None:
        return
    from hpclaunch.actions.preparing.trust import run_refusal

    refused = run_refusal(system, case)
    if refused:
        next_step = "hpclaunch trust, or the same command in another folder"
        raise Refused(Fault(what=f"nothing was started: {refused}", next=next_step))


def create_run(system: System, prepared: Prepared) -> Run:
    """Create the run directory (state RENDERED). Its script can then be submitted.

    It is listed as soon as it exists, so that no run is lost. If a list cannot be written, the user is warned: the run
    can still be found by its folder. Raises Refused if the code is missing; the caller checks the data.
    """
    from hpclaunch.planner.measured.calibrations import expect

    spec = prepared.spec
    snapshot, faults = examine(spec.code, prepared.case.code_folders)
    if snapshot is None or prepared.faults:
        raise Refused([*prepared.faults, *faults])
    if spec.calibration_key:
        expect(system.environment, spec.calibration_key, spec.run_dir)
    request = {**asdict(prepared.case.request), "cwd": str(system.cwd)}
    submission = Submission(
        host=os.uname().nodename,
        folder=str(system.cwd),
        git=system.git_state(snapshot),
        environment=system.environment,
        request=request,
    )
    run = create(spec, prepared.script, snapshot, submission, announce=partial(_list_run, system))
    _warn_of_others(system, run)
    return run


def _list_run(system: System, run: Run) -> None:
    """Add a run to the user's own runs and to the list of runs, and warn of what fails.

    One wait for the disk is enough for both (`runs.remember`).
    """
    not_own = runs.list_own(state_folder(system.environment), run)
    not_listed = runs.remember(system.index, run.path)
    if not_listed:
        system.warn(f"{not_listed}; hpclaunch finds this run from {system.cwd}, or by its path")
    if not_own:
        adopt = f"hpclaunch runs adopt {shell_word(str(run.path))}"
        system.warn(f"{not_own}; hpclaunch shows this run, but acts on it only after: {adopt}")


def _warn_of_others(system: System, run: Run) -> None:
    """Warn if others can exchange the run directory, unless the user has consented to that."""
    weak = system.keeper.doubtful(run.path) if weak_around(run.path) else []
    if weak:
        places = "; ".join(map(str, weak))
        consent = f"hpclaunch trust {shell_word(str(run.path.parent))} --despite-group"
        system.warn(
            f"others can exchange the run directory while the job waits or runs: {places}; "
            f"--runs-dir FOLDER chooses another place, and {consent} accepts this one"
        )
