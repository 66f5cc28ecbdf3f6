"""The present states of runs: their records, and one question to each scheduler about those that may still change."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpclaunch import runs
from hpclaunch.actions.following.identity import (
    cluster_obstacle,
    controller_differs,
    may_be_own,
    other_users,
    placed,
    require_permission,
)
from hpclaunch.actions.following.progress import ProgressOfRuns, progress_from, to_keep
from hpclaunch.core.errors import Fault, NotFound, Refused
from hpclaunch.core.folders import state_folder
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.core.run_states import FINAL, NEVER_QUEUED
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.slow_files import answers
from hpclaunch.core.units import count
from hpclaunch.runs import ArrayTasks, JobIdentity, Run, TaskState, identity_of
from hpclaunch.runs.markers import successor_of, why_not_recorded
from hpclaunch.schedulers import Search, Status, scheduler_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hpclaunch.actions.system import System
    from hpclaunch.runs import RecordChange
    from hpclaunch.runs.leases import Lease

_PATIENCE_S = 300
"""For so long after a failure accounting may still add exit codes."""
_NOT_RECORDED = "74:0"
"""The exit code of a script whose ranks ended with 0, but whose success could not be recorded (EX_IOERR)."""
_WITHOUT_REASON = ("", "NonZeroExitCode")
"""What Slurm says of a job that failed by itself."""
_MOST_NAMED = 5
MOST_ENDED = 100
"""So many of the runs that ended long ago does `status` show."""
_ONE_SEARCH = threading.Lock()
"""Runs of a slow file system are looked at many at once, but the scheduler answers one question after the other."""


def refreshed(found: Sequence[Run]) -> list[Run]:
    """Return the runs with their present states. Each scheduler is asked once, and changes are recorded.

    The runs of a job array are updated through the array, which is one record for all of them.
    """
    parents = {run.home: runs.whole_of(run) for run in found}
    theirs = answers(other_users, parents.values())
    told = dict(zip(parents, theirs, strict=True))
    told |= _list_proven([run for path, run in parents.items() if told[path]])
    obstacles = {path: fault for path, run in parents.items() if (fault := told[path] or _obstacle_to_asking(run))}
    # The recorded runs, each array once, with job IDs from starts that hpclaunch did not see.
    own = [run for path, run in parents.items() if path not in obstacles]
    recorded = _settle_all(answers(lambda run: _follow_chain(_find_start_by_hand(run)), own))
    tasks = {run.path: _open_tasks(run, found) for run in recorded if run.tasks}
    news = _ask_schedulers(recorded, tasks)
    # Each run is recorded in its own directory, so many can be at once.
    updated = answers(lambda run: _apply_news(run, tasks.get(run.path), news), recorded)
    now = {**parents, **{run.path: run for run in updated}}
    asked = [runs.task_of(now[run.home], run.index) if run.index >= 0 else now[run.path] for run in found]
    return [_show_obstacle(run, obstacles.get(run.home)) for run in asked]


def _list_proven(found: Sequence[Run]) -> dict[Path, Fault | None]:
    """Add runs to the user's own whose submission could not list them, as their scheduler proves whose they are.

    A record proves nothing, but a job of this user that works in the run directory does: no clone has one. Returns why
    each of the runs that were proven to be the user's is not known as such; None if it is now.
    """
    queued = (run for run in found if not run.final and run.state not in NEVER_QUEUED)
    doubtful = [run for run in queued if scheduler_row(run.scheduler).has_queue and may_be_own(run)]
    proven: list[Run] = []
    for name in {run.scheduler for run in doubtful}:
        scheduler = scheduler_of(name)
        asked = [run for run in doubtful if run.scheduler == name and (not run.cluster or scheduler.reaches(run))]
        jobs = scheduler.search(asked).jobs if asked else {}
        for run in asked:
            own = jobs.get(run.path, ())
            if run.job_id in own or (run.state == "SUBMITTING" and own):
                runs.list_own(state_folder(os.environ), run)
                proven.append(run)
    return {run.home: other_users(run) for run in proven}


def _obstacle_to_asking(run: Run) -> Fault | None:
    """Return the other cluster that this user's run is on. For a run whose end is known the cluster is not asked."""
    is_settled = run.final and not _may_change(run) and not (run.tasks and runs.is_unfinished(run))
    return None if is_settled else cluster_obstacle(run)


def _show_obstacle(run: Run, fault: Fault | None) -> Run:
    """Return the run in its last recorded state, with the reason why nothing was asked; the reason is not recorded."""
    if fault is None:
        return run
    words = fault.what.removeprefix(f"{run.home.name} ")
    reason = words if run.final else f"{words}; {fault.next}"
    return replace(_collapse_array(run), reason=reason, counts={}, waits_for="")


def _collapse_array(run: Run) -> Run:
    """Return an array that is not this user's as one run: a record may claim 100,000 runs, which nobody asked for."""
    return replace(run, tasks=0, parts=()) if run.tasks and other_users(run) else run


def _ask_schedulers(recorded: Sequence[Run], tasks: Mapping[Path, ArrayTasks]) -> dict[JobIdentity, Status]:
    """Return job -> state: one question to each scheduler, about its runs that may still change."""
    news: dict[JobIdentity, Status] = {}
    for name in {run.scheduler for run in recorded}:
        own = [run for run in recorded if run.scheduler == name]
        single = [run for run in own if run.job_id and run.path not in tasks and _may_change(run)]
        jobs = runs.Jobs(single, [tasks[run.path] for run in own if run.path in tasks])
        if jobs:
            news.update(scheduler_of(name).states(jobs))
    return news


def _open_tasks(array: Run, found: Sequence[Run]) -> ArrayTasks:
    """Return the runs of an array to ask the scheduler about: of those that were named, or all, what may change."""
    # For a while after a failure accounting may still add the exit codes of its runs.
    is_fresh = _age(array, runs.STATES) < _PATIENCE_S
    if not runs.is_unfinished(array) and (array.state == "COMPLETED" or not is_fresh):
        return ArrayTasks(array, {})
    named = [run.index for run in found if run.home == array.path]
    known = runs.present_states(array, None if -1 in named else named)  # -1: the whole array was named

    def is_open(task: TaskState) -> bool:
        return task.state not in FINAL or (is_fresh and task.state == "FAILED" and not task.exit_code)

    return ArrayTasks(array, {index: task for index, task in known.items() if is_open(task)})


def _apply_news(run: Run, tasks: ArrayTasks | None, news: Mapping[JobIdentity, Status]) -> Run:
    """Record what the scheduler answered about this run's own job, and return the run.

    An ended run stays as it is recorded; only its exit code may be added.
    """
    if tasks is not None:
        return _apply_to_tasks(run, tasks, news)
    status = news.get(identity_of(run))
    if status is None:
        return run
    if run.final:
        completed = _completed_code(run, status)
        return _record_news(run, exit_code=completed) if completed else run
    now = _update(run, status)
    # It may just have submitted its successor.
    return _find_successor(_follow_chain(now)) if now.final else now


def _apply_to_tasks(array: Run, tasks: ArrayTasks, news: Mapping[JobIdentity, Status]) -> Run:
    changed = {}
    for index, job in tasks.identities.items():
        task, status = tasks.states[index], news.get(job)
        if status is None:
            continue
        if task.state not in FINAL:
            nodes = status.nodes or task.nodes
            reason = status.reason
            if not reason and status.exit_code == _NOT_RECORDED:  # few of 100,000 runs, and each takes a Run
                reason = why_not_recorded(tasks.run(index))
            changed[index] = TaskState(task.job_id, status.state, status.exit_code, reason, nodes)
        elif completed := _completed_code(task, status):
            changed[index] = task._replace(exit_code=completed)
    return runs.record_tasks(array, changed) if changed else array


def _completed_code(ended: Run | TaskState, status: Status) -> str:
    """Return the exit code that accounting has by now of a run that was recorded without one; else an empty text."""
    return "" if ended.exit_code or status.state != ended.state else status.exit_code


def _apply_status(run: Run, status: Status) -> Run:
    """Return the run with this status; nothing is recorded."""
    nodes = status.nodes or run.nodes
    reason = status.reason
    if not reason and status.exit_code == _NOT_RECORDED:
        reason = why_not_recorded(run)
    elif reason in _WITHOUT_REASON and status.state == "FAILED":
        from hpclaunch.runs.logs import last_words

        reason = last_words(run, status.exit_code)
    return replace(run, state=status.state, exit_code=status.exit_code, reason=reason, nodes=nodes)


def _may_change(run: Run) -> bool:
    """Whether the scheduler may know more: accounting may get the exit code only after the queue reports FAILED."""
    if run.state != "FAILED" or run.exit_code or run.repaired:
        return not run.final
    return _age(run, runs.HISTORY) < _PATIENCE_S


def _age(run: Run, file: str) -> float:
    """Return the seconds since a file of the run, or of its array, was last changed."""
    try:
        return time.time() - (run.home / file).stat().st_mtime
    except OSError:
        return 0.0


def _update(run: Run, status: Status) -> Run:
    now = _apply_status(run, status)
    # The reason for waiting changes often and is asked for each time, so it is shown but not recorded.
    known = run if now.final else replace(run, reason=now.reason)
    if now == known:
        return now
    return _record_news(run, state=now.state, exit_code=now.exit_code, reason=now.reason, nodes=now.nodes)


def _record_news(run: Run, **news: Unpack[RecordChange]) -> Run:
    """Return the run with the changes, and record them if its directory can be written."""
    try:
        return runs.change(run, durable=False, **news)
    except (OSError, NotFound):
        return replace(run, **news)


def _find_start_by_hand(run: Run) -> Run:
    """Return a run with the job of its last start, if a person started the script, without hpclaunch, once more."""
    if run.submission == "hpclaunch" or run.repaired or run.state in ("SUBMITTING", "INCOMPLETE"):
        return run
    later = runs.start_after(run)
    if later is None:
        return run
    if run.final:
        runs.drop_ended(state_folder(os.environ), run.path)
    job_id, claim = later
    news: RecordChange = {"job_id": job_id, "claim": claim, "submission": "by hand", "submitted": ""}
    news.update({"state": "UNKNOWN", "exit_code": "", "reason": ""})
    return _record_news(run, **news)


def _follow_chain(run: Run) -> Run:
    """Return a run with the last job of its chain: a script that cannot requeue itself submits a successor."""
    successor = None if run.repaired else successor_of(run, run.job_id)
    return _follow_chain(_record_successor(run, successor)) if successor and _is_new(run, successor) else run


def _is_new(run: Run, job_id: str) -> bool:
    return job_id not in (run.job_id, *run.earlier)


def _record_successor(run: Run, job_id: str) -> Run:
    earlier = (*run.earlier, run.job_id)
    if run.final:
        runs.drop_ended(state_folder(os.environ), run.path)
    return _record_news(run, job_id=job_id, state="PENDING", exit_code="", reason="", nodes="", earlier=earlier)


def _find_successor(run: Run) -> Run:
    """Return an ended run with the successor that its script asked for without getting a job ID, if it is queued."""
    if not run.final or successor_of(run, run.job_id) != "":
        return run
    with _ONE_SEARCH:
        found = scheduler_of(run.scheduler).search([run]).jobs.get(run.path, ())
    successor = next((job_id for job_id in found if _is_new(run, job_id)), "")
    return _record_successor(run, successor) if successor else run


def is_lost(run: Run) -> bool:
    """Whether it may be that nobody ever learns the state: it is UNKNOWN, or a submission ended without an outcome."""
    if run.state == "SUBMITTING":
        from hpclaunch.runs import leases  # only a submission without an outcome needs them

        return leases.silence(run.home) >= leases.PATIENCE_S
    return run.state == "UNKNOWN"


def _settle_all(found: Sequence[Run]) -> list[Run]:
    """Find out what became of unanswered submissions: from their marker files, else by asking the scheduler."""
    settled = {run.path: run for run in found}
    unsettled = [run for run in found if run.state == "SUBMITTING"]
    if not unsettled:
        return list(found)
    from hpclaunch.runs import leases

    for name, place in {(run.scheduler, run.place) for run in unsettled}:  # one that is silent proves nothing of others
        lost = [run for run in unsettled if (run.scheduler, run.place) == (name, place)]
        # First: what is found later is newer, and a later submission is not judged by this search.
        before = {run.path: (leases.newest(run.path), leases.silence(run.path)) for run in lost}
        search = scheduler_of(name).search(lost)
        settled.update({run.path: _settle_run(run, search, *before[run.path]) for run in lost})
    return [settled[run.path] for run in found]


def _settle_run(run: Run, search: Search, lease: Lease | None, silence: float) -> Run:
    """Return the run with the outcome of its submission, if that is known.

    ``lease``: that of the submission before the search. ``silence``: the seconds since its process gave a sign of life.
    The first recorded outcome counts, but a job that exists is never left out.
    """
    from hpclaunch.runs import leases

    started = [name.rpartition(".")[0] for name in run.attempts()]
    # A search elsewhere proves a job that it finds, by its working folder, but never that there is none.
    is_elsewhere = controller_differs(run)
    new_ids = [job_id for job_id in (*search.jobs.get(run.path, ()), *started) if job_id not in run.earlier]
    is_lost = search.certain and not is_elsewhere and silence >= leases.PATIENCE_S
    now = leases.newest(run.path)
    if lease and now and now.number != lease.number:
        return runs.load(run.path)  # it has been submitted again since the search
    found = ""
    if new_ids:
        found = new_ids[0]
    elif is_lost:
        found = leases.NOT_SUBMITTED
    outcome = leases.settle(lease, found)
    job_id = outcome if runs.JOB_ID.fullmatch(outcome) else (*new_ids, "")[0]
    if job_id:
        there = placed(run, search.clusters.get((run.path, job_id), ""))
        news: RecordChange = {"job_id": job_id, "state": "PENDING", "reason": "", "submission": "hpclaunch"}
        news.update({"cluster": there.cluster, "via": there.via, "controller": there.controller})
        return _record_news(run, **news)
    if outcome:
        reason = "the scheduler knows no job of this run, queued or ended"
        return _record_news(run, state="NOT_SUBMITTED", reason=reason)
    if not search.answered:
        return _record_news(run, reason=search.words)
    if silence < leases.PATIENCE_S:
        return replace(run, reason=run.reason or "the scheduler has not answered yet")
    return replace(run, reason="the scheduler has no job of this run in its queue, and does not know about ended jobs")


def find(system: System, names: Sequence[str]) -> list[Run]:
    """Return runs by name, directory or job ID, with their present states; without names the newest run of the user.

    Raises NotFound with every unknown name.
    """
    if names:
        found = runs.find_all(system.index, names, system.run_folders)
    else:
        found = [runs.find(system.index, None, system.run_folders)]
    return refreshed(list({run.path: run for run in found}.values()))


def recorded_runs(system: System) -> list[Run]:
    """Return all runs with their last recorded states, newest first; warns of those that cannot be read."""
    return [_collapse_array(run) for run in _known_runs(system).runs]


def _known_runs(system: System, most_ended: int | None = None) -> runs.Known:
    found = runs.known(system.index, system.run_folders, most_ended)
    warn_not_permitted(system, found.not_permitted)
    if found.unreadable:
        system.warn(f"skipped what cannot be read: {_list_some(found.unreadable)}; hpclaunch status PATH says why")
    if found.newer:
        system.warn(f"skipped {count(len(found.newer), 'run')} that a newer hpclaunch wrote: {_list_some(found.newer)}")
    return found


def warn_not_permitted(system: System, folders: Sequence[Path]) -> None:
    """Warn, in one line, of folders that were skipped because the user may not read them."""
    if folders:
        system.warn(f"skipped {count(len(folders), 'folder')} that you may not read: {_list_some(folders)}")


def _list_some(folders: Sequence[Path]) -> str:
    named = [shell_word(str(folder)) for folder in folders[:_MOST_NAMED]]
    return ", ".join(named) + (", ..." if folders[_MOST_NAMED:] else "")


@record
class ListedRuns:
    """Runs with their present states, newest first, and how far they are. ``left_out``: how many ended ones are not."""

    runs: list[Run]
    progress: ProgressOfRuns
    left_out: int = 0


def all_runs(system: System, since: str = "") -> list[Run]:
    """Return all runs with their present states, newest first; with ``since`` those made then or later (UTC)."""
    return list_runs(system, since).runs


def list_runs(system: System, since: str = "", most_ended: int | None = None) -> ListedRuns:
    """Return all runs with their present states; with ``since`` those made then or later (UTC).

    Of the runs that have ended long enough ago to be in the index of ended runs, only the newest ``most_ended``.
    """
    known = _known_runs(system, most_ended)
    found = [_collapse_array(run) for run in known.runs if run.created >= since]
    unknown = [run.path for run in found if run.path not in known.ended]
    stamps = dict(zip(unknown, answers(runs.stamp_of, unknown), strict=True))
    now = {run.path: run for run in refreshed([run for run in found if run.path in stamps])}
    progress = ProgressOfRuns()
    for run in found:
        if run.path in known.ended:
            progress.remember(run, progress_from(known.ended[run.path]))
    _keep_ended(system, [(stamps[path], run) for path, run in now.items()], progress)
    return ListedRuns(runs=[now.get(run.path, run) for run in found], progress=progress, left_out=known.left_out)


def _keep_ended(system: System, found: Sequence[tuple[list[int] | None, Run]], progress: ProgressOfRuns) -> None:
    """Add runs to the index of ended runs that no answer and no late exit code can change any more."""

    def entry_of(one: tuple[list[int] | None, Run]) -> tuple[list[int], Run, Mapping[str, Any]] | None:
        stamp, run = one
        if stamp is None or not _is_settled(run) or stamp != runs.stamp_of(run.path):
            return None
        return stamp, run, to_keep(progress.of(run, time.time()))

    entries = {entry[1].path: entry for entry in answers(entry_of, found) if entry}
    if entries:
        runs.keep_ended(system.index.parent, entries, runs.indexed(system.index))


def _is_settled(run: Run) -> bool:
    """Whether this user's run has ended, and has not changed for so long that accounting adds nothing any more."""
    if not run.final or (run.tasks and runs.is_unfinished(run)):
        return False
    files = (runs.HISTORY, runs.STATES) if run.tasks else (runs.HISTORY,)
    return all(_age(run, file) >= _PATIENCE_S for file in files) and other_users(run) is None


def in_states(found: Sequence[Run], names: Sequence[str], every: bool) -> list[Run]:
    """Return the runs in one of these states, in any case of letters; all of them without a name.

    An array has the state of its most active run; with ``every`` each of its runs has its own.
    """
    wanted = {name.strip().upper() for text in names for name in text.split(",")}
    if not wanted:
        return list(found)
    return [run for run in (runs.each(found) if every else found) if run.state in wanted]


def explanation(run: Run) -> str:
    """Return why a run waits, in words, and what to do about an array that is not queued completely; else nothing."""
    reason = run.waits_for if run.tasks else run.reason
    words = scheduler_of(run.scheduler).explain(reason).replace("JOBID", run.job_id) if reason and not run.final else ""
    is_incomplete = run.tasks > 0 and "NOT_SUBMITTED" in run.counts and bool(run.job_id or run.earlier)
    rest = f"hpclaunch retry {run.label} submits the runs that are not queued" if is_incomplete else ""
    return "; ".join(filter(None, (words, rest)))


def awaitable(found: Sequence[Run]) -> Sequence[Run]:
    """Return the runs. Raises Refused for those whose end would never be seen: never submitted, or not asked about."""
    require_permission([run for run in found if not run.final])
    unsubmitted = [run for run in found if run.state in NEVER_QUEUED]
    if unsubmitted:
        raise Refused([unsubmitted_fault(run) for run in unsubmitted])
    return found


def unsubmitted_fault(run: Run) -> Fault:
    """Return why the run has no job, and the command that starts one."""
    if run.state == "SUBMITTING":
        return Fault(what=f"{run.label} is being submitted", next=f"hpclaunch status {run.label}")
    if run.state == "INCOMPLETE":
        what = f"{run.label} is not ready: its submission is still at work or was interrupted; nothing is queued"
        return Fault(what=what, next="if no submission is still running, submit again")
    return Fault(what=f"{run.label} was rendered but not submitted", next=f"to start it: {run.start_command}")
