"""How long each number of nodes would wait in the queue: the cluster's history, else sbatch's guess, else nobody knows.

Asked only on a machine of the site itself: another cluster's Slurm says nothing of this site's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hpclaunch.actions.submit import prepare_case
from hpclaunch.actions.system import System
from hpclaunch.core.errors import HpclaunchError
from hpclaunch.core.scheduler_rows import SchedulerRow
from hpclaunch.guidelines.queue import Past, Wait, wait_for
from hpclaunch.guidelines.reasoning import Number, Reason
from hpclaunch.planner.question import Question, Queue, Trial, trials_of
from hpclaunch.schedulers import scheduler_of

DAYS = 14
"""How far back the history of the queue is asked for."""


def queue_of(system: System, question: Question) -> Queue:
    """Return the waits of all node counts that the site takes, as far as its scheduler tells; no file is read again."""
    trials = [trial for trial in trials_of(question) if not trial.faults]
    row = question.case.site.scheduler_row
    system.tell(f"asking {row.title} how long such jobs wait")
    past = scheduler_of(question.case.site.scheduler).past_jobs(DAYS)
    found = {trial.nodes: wait for trial in trials if (wait := _wait_by_history(past, trial)) is not None}
    waits = {nodes: wait.middle_s for nodes, wait in found.items()}
    reasons = [wait.reason for wait in found.values()]
    guessed = {}
    for trial in trials:
        if trial.nodes not in waits and (guess := _guess(system, question, trial.nodes)) is not None:
            guessed[trial.nodes] = guess
    reasons += [_guess_reason(row, nodes, seconds) for nodes, seconds in guessed.items()]
    waits |= guessed
    return Queue(
        waits=waits,
        reasons=tuple(reasons),
        words=_queue_words(row, found, guessed, len(past)),
    )


def _wait_by_history(past: Sequence[Past], trial: Trial) -> Wait | None:
    place = trial.sizing.placement
    return wait_for(past, trial.nodes, place.walltime, place.partition, place.qos)


def _guess(system: System, question: Question, nodes: int) -> float | None:
    """Ask the scheduler, which queues nothing, about the script of so many nodes."""
    try:
        case = question.case
        prepared = prepare_case(system, replace(case, request=replace(case.request, nodes=nodes)))
        if prepared.faults:
            return None
        start = scheduler_of(prepared.spec.scheduler).estimate(prepared.text).start
    except HpclaunchError:
        return None
    now = system.now().astimezone().replace(tzinfo=None)  # an estimate is in local time
    return None if start is None else max(0.0, (start - now).total_seconds())


def _guess_reason(row: SchedulerRow, nodes: int, seconds: float) -> Reason:
    return Reason(
        rule="where too few jobs have run, the scheduler's own guess",
        numbers=(Number(name="nodes", value=nodes, origin="given"), Number(name="wait", value=seconds, unit="s")),
        verdict=f"{nodes} node{'s' * (nodes != 1)}: {row.title} would start it in {seconds:.0f} s",
        source=f"{row.estimate_command} (of what runs now; jobs that come later or end earlier change it)",
    )


def _queue_words(row: SchedulerRow, found: Mapping[int, Wait], guessed: Mapping[int, float], jobs: int) -> str:
    """One line for the table."""
    told = []
    if found:
        each = ", ".join(f"{nodes}: {wait.middle_s:.0f} s" for nodes, wait in sorted(found.items()))
        told.append(f"half of such jobs wait at most ({jobs} jobs of {DAYS} days; by nodes) {each}")
    if guessed:
        each = ", ".join(f"{nodes}: {seconds:.0f} s" for nodes, seconds in sorted(guessed.items()))
        told.append(f"{row.start_command}'s guess (by nodes) {each}")
    return "; ".join(told)
