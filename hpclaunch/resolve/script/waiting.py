"""The jobs that a run waits for: those of the runs, or the other jobs, that --after and --after-any name."""

from __future__ import annotations

from hpclaunch.core.records import record
from hpclaunch.core.spec_parts import Predecessor
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions


@record
class Waits:
    """IDs of the jobs that must have completed (``success``), and of those that must have ended (``end``).

    ``same_name``: also every earlier job of the user with the new one's name.
    """

    success: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    same_name: bool = False


def waits_of(case: Case, clusters: str, decisions: Decisions) -> Waits:
    """Return what the job waits for.

    ``clusters``: the other cluster that gets the script, or several. A run that has ended as it must needs no waiting.
    One that can never end so becomes a fault.
    """
    row = case.site.scheduler_row
    if not row.has_queue:  # the flags are refused elsewhere
        return Waits()
    ok: list[str] = []
    ended: list[str] = []
    same_name = False
    for run in case.context.predecessors:
        if not (row.wait_same_name if run.is_same_name else row.wait_option):
            others = "jobs by their name" if run.is_same_name else "others"
            what = f"hpclaunch cannot let a job of {row.title} wait for {others}"
            decisions.fault(what, where=_flag(run), next=f"hpclaunch wait RUN, then submit without {_flag(run)}")
            continue
        fault = _refusal(case, run, clusters)
        if fault:
            what, next_step = fault
            decisions.fault(
                what, where=_flag(run), allowed=f"a run of {case.site.name} that can complete", next=next_step
            )
        elif run.is_same_name:
            decisions.warnings.append(_words_of_same_name(case))
            same_name = True
        elif run.jobs:
            (ok if run.must_complete else ended).extend(run.jobs)
        else:
            decisions.warnings.append(f"{run.run} has ended already ({run.state}), so this run does not wait for it")
    return Waits(
        success=tuple(dict.fromkeys(ok)),
        end=tuple(dict.fromkeys(ended)),
        same_name=same_name,
    )


def _words_of_same_name(case: Case) -> str:
    what = f"this run waits until no earlier job of yours named {case.run_name} waits or runs"
    return f"{what}; its own runs do not wait for each other" if case.request.sweep else what


def _other_cluster(case: Case, run: Predecessor, clusters: str) -> tuple[str, str] | None:
    """Return why a job cannot wait for one that is elsewhere; None if both go to one cluster, or one is not known."""
    if not run.is_run and "," in clusters:
        return f"{run.run} may be a job of any of the clusters {clusters}", "name the one that has it"
    target = (clusters or case.context.cluster or run.sent_from).lower()
    if not (run.jobs and run.cluster and target) or run.cluster.lower() == target:
        return None
    what = f"{run.run} is on the cluster {run.cluster}, and a job can wait only for jobs of its own cluster"
    is_home = run.cluster.lower() == case.context.cluster.lower()
    there = f"--sbatch={case.site.scheduler_row.clusters_option.format(run.cluster)}"
    step = "submit to this machine's own cluster" if is_home else there
    return what, f"{step}; or when it has ended (hpclaunch wait {run.run}), submit without {_flag(run)}"


def _refusal(case: Case, run: Predecessor, clusters: str) -> tuple[str, str] | None:
    """Return why the scheduler cannot start a run after this one, and the next step; None if it can."""
    if run.refusal:
        return run.refusal, run.next
    if run.is_run and run.site != case.site.name:
        after = f"when it has ended (hpclaunch wait {run.run}), submit without {_flag(run)}"
        return f"{run.run} is a run of {run.site}, and this one is for {case.site.name}", after
    if elsewhere := _other_cluster(case, run, clusters):
        return elsewhere
    if run.must_complete and run.has_failed:
        what = f"{run.run} cannot complete any more: its state is {run.state}"
        if not run.is_run:
            number = run.run.removeprefix("job ")
            return what, f"submit that job again, then this one --after its number; or --after-any {number}"
        return what, f"hpclaunch resume {run.run}, then submit again; or --after-any {run.run}"
    return None


def _flag(run: Predecessor) -> str:
    return "--after" if run.must_complete else "--after-any"
