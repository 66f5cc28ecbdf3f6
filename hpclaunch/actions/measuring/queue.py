"""The waiting time in the queue for each node count: from the cluster's history, else from sbatch's estimate.

It is asked only on a machine of the site, as another cluster's Slurm does not know this site's queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hpclaunch.actions.preparing.submit import prepare_case
from hpclaunch.actions.system import System
from hpclaunch.core.errors import HpclaunchError
from hpclaunch.core.scheduler_rows import SchedulerRow
from hpclaunch.guidelines.queue import Past, Wait, wait_for
from hpclaunch.guidelines.reasoning import Number, Reason
from hpclaunch.planner.job.question import Question, Queue, Trial, trials_of
from hpclaunch.schedulers import scheduler_of

DAYS = 14
"""Days of history that are read."""


def queue_of(system: System, question: Question) -> Queue:
    """Return the waits (seconds) of all node counts that the site accepts, where known; no file is read again."""
    trials = [trial for trial in trials_of(question) if not trial.faults]
    row = question.case.site.scheduler_row
    system.tell(f"asking {row.title} how long such jobs wait")
    past = scheduler_of(question.case.site.scheduler).past_jobs(DAYS)
    by_history = {trial.nodes: wait for trial in trials if (wait := _wait_by_history(past, trial)) is not None}
    waits = {nodes: wait.middle_s for nodes, wait in by_history.items()}
    reasons = [wait.reason for wait in by_history.values()]
    estimated = {}
    for trial in trials:
        if trial.nodes not in waits and (estimate := _estimate(system, question, trial.nodes)) is not None:
            estimated[trial.nodes] = estimate
    reasons += [_estimate_reason(row, nodes, seconds) for nodes, seconds in estimated.items()]
    waits |= estimated
    return Queue(
        waits=waits,
        reasons=tuple(reasons),
        words=_queue_words(row, by_history, estimated, len(past)),
        unknown="" if waits else f"{row.title} gives no estimate",
    )


def _wait_by_history(past: Sequence[Past], trial: Trial) -> Wait | None:
    place = trial.sizing.placement
    return wait_for(past, trial.nodes, place.walltime, place.partition, place.qos)


def _estimate(system: System, question: Question, nodes: int) -> float | None:
    """Return the scheduler's estimate for a script with ``nodes`` nodes, in seconds; it queues nothing."""
    try:
        case = question.case
        prepared = prepare_case(system, replace(case, request=replace(case.request, nodes=nodes)))
        if prepared.faults:
            return None
        scheduler = scheduler_of(prepared.spec.scheduler)
        with scheduler.asking(prepared.spec.clusters):
            start = scheduler.estimate(prepared.text).start
    except HpclaunchError:
        return None
    now = system.now().astimezone().replace(tzinfo=None)  # an estimate is in local time
    return None if start is None else max(0.0, (start - now).total_seconds())


def _estimate_reason(row: SchedulerRow, nodes: int, seconds: float) -> Reason:
    return Reason(
        rule="if too few such jobs have run: the scheduler's estimate",
        numbers=(Number(name="nodes", value=nodes, origin="given"), Number(name="wait", value=seconds, unit="s")),
        verdict=f"{nodes} node{'s' * (nodes != 1)}: {row.title} would start it in {seconds:.0f} s",
        source=f"{row.estimate_command} (from the jobs of this moment; jobs that come later or end earlier change it)",
    )


def _queue_words(row: SchedulerRow, by_history: Mapping[int, Wait], estimated: Mapping[int, float], jobs: int) -> str:
    """Return the line about the queue, for the plan's table."""
    parts = []
    if by_history:
        each = ", ".join(f"{nodes}: {wait.middle_s:.0f} s" for nodes, wait in sorted(by_history.items()))
        parts.append(f"half of such jobs wait at most ({jobs} jobs of {DAYS} days; by nodes) {each}")
    if estimated:
        each = ", ".join(f"{nodes}: {seconds:.0f} s" for nodes, seconds in sorted(estimated.items()))
        parts.append(f"{row.start_command}'s estimate (by nodes) {each}")
    return "; ".join(parts)
