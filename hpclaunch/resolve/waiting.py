"""The jobs that a run waits for: those of the runs, or the other jobs, that --after and --after-any name."""

from __future__ import annotations

from hpclaunch.core.predecessor import Predecessor
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions


def wait_option_of(case: Case, decisions: Decisions) -> str:
    """Return the option with which the scheduler starts the run after others; empty if it waits for none.

    A run that has ended as it must needs no waiting. One that can never end so becomes a fault.
    """
    row = case.site.scheduler_row
    if not row.wait_option:  # flags of a queue are refused elsewhere where there is none
        return ""
    ok: list[str] = []
    ended: list[str] = []
    for run in case.context.predecessors:
        fault = _refusal(case, run)
        if fault:
            what, next_step = fault
            decisions.fault(
                what, where=_flag(run), allowed=f"a run of {case.site.name} that can complete", next=next_step
            )
        elif run.jobs:
            (ok if run.must_complete else ended).extend(run.jobs)
        else:
            decisions.warnings.append(f"{run.run} has ended already ({run.state}), so this run does not wait for it")
    conditions = [(row.wait_ok, ok), (row.wait_any, ended)]
    words = [words.format(":".join(dict.fromkeys(jobs))) for words, jobs in conditions if jobs]
    return row.wait_option.format(",".join(words)) if words else ""


def _refusal(case: Case, run: Predecessor) -> tuple[str, str] | None:
    """Return why the scheduler cannot start a run after this one, and the next step; None if it can."""
    if run.refusal:
        return run.refusal, run.next
    if run.is_run and run.site != case.site.name:
        after = f"when it has ended (hpclaunch wait {run.run}), submit without {_flag(run)}"
        return f"{run.run} is a run of {run.site}, and this one is for {case.site.name}", after
    if run.must_complete and run.has_failed:
        what = f"{run.run} cannot complete any more: its state is {run.state}"
        if not run.is_run:
            number = run.run.removeprefix("job ")
            return what, f"submit that job again, then this one --after its number; or --after-any {number}"
        return what, f"hpclaunch resume {run.run}, then submit again; or --after-any {run.run}"
    return None


def _flag(run: Predecessor) -> str:
    return "--after" if run.must_complete else "--after-any"
