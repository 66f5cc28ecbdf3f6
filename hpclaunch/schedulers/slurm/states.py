"""The states of runs, in three steps: squeue, then sacct, then the markers in the run directory; it never guesses.

squeue knows every job that waits or runs, and for some minutes those that have ended. sacct knows ended jobs, perhaps
with a delay. The markers that the script wrote decide the rest. One call to each program answers for all runs. A job
is a run's own only if its working folder is the run directory: a cluster that was set up again counts from 1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from itertools import islice

from hpclaunch.core.errors import Fault, SchedulerError
from hpclaunch.core.records import record
from hpclaunch.runs import FINAL, Jobs, Run
from hpclaunch.schedulers import UNOPENED_LOG, Status
from hpclaunch.schedulers.slurm.arrays import cancelled_while_waiting, ids_in, ids_to_query
from hpclaunch.schedulers.slurm.components import FurtherNodes, further_nodes, job_of
from hpclaunch.schedulers.slurm.markers import status_by_markers
from hpclaunch.schedulers.slurm.programs import NO_NODES, ask

_STATE = re.compile("[A-Z_]+")
_REPEATABLE = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REQUEUED"})
"""States in accounting of jobs that Slurm may have queued again; only squeue knows."""
_UNOPENED_CODE = "0:53"
"""The exit code of slurmd if it could not open the job's log."""
_MOST_IDS = 10_000
"""The most job IDs in one call: they are one argument, which Linux limits to 128 KiB."""


@record
class _Queue:
    """The answer of squeue: job ID -> status, and (``silence``) why it did not answer, if it did not.

    ``strangers``: job ID -> the working folder of a job that has the run's ID but is not the run's.
    """

    known: Mapping[str, Status]
    silence: str
    strangers: Mapping[str, str] = field(default_factory=dict)


def states(jobs: Jobs, leave_out: Collection[str] = ()) -> dict[str, Status]:
    """Return job ID -> status for the jobs, without those to ``leave_out``.

    For several runs of an array the query names the array; the answer has a line for each task. An array may have
    100,000 of them, so a run is looked up in ``jobs`` only where the answers leave a doubt.
    """
    wanted = [job_id for job_id in jobs if job_id not in leave_out]
    found: dict[str, Status] = {}
    for queried in portions(ids_to_query(wanted)):
        names = set(queried)
        mine = [job_id for job_id in wanted if job_id in names or job_id.partition("_")[0] in names]
        found.update(_states_of(mine, jobs, _squeue(queried, jobs)))
    return found


def portions(job_ids: Sequence[str]) -> Iterator[list[str]]:
    """Yield the job IDs in lists that fit into one argument."""
    rest = iter(job_ids)
    while portion := list(islice(rest, _MOST_IDS)):
        yield portion


def _states_of(job_ids: Sequence[str], jobs: Jobs, queue: _Queue) -> dict[str, Status]:
    """Return job ID -> status, each from the first source that knows it: queue, accounting, markers."""
    waiting = {job_id: status for job_id, status in queue.known.items() if status.state not in FINAL}
    ended = [job_id for job_id in job_ids if job_id not in waiting]
    accounted = _sacct(ended, jobs) if ended else {}
    missing = [job_id for job_id in ended if job_id not in queue.known and not queue.silence]
    settled = {job_id: _status_of_ended(job_id, jobs, queue, accounted.get(job_id)) for job_id in ended}
    return {**waiting, **settled, **cancelled_while_waiting(missing, jobs, accounted)}


def _status_of_ended(job_id: str, jobs: Jobs, queue: _Queue, accounted: Status | None) -> Status:
    """Return the status of a run that is not in the queue, or ended there."""
    queued_again = queue.silence and accounted is not None and accounted.state in _REPEATABLE
    if accounted is not None and not queued_again:
        is_complete = accounted.exit_code and accounted.state != "FAILED"
        return accounted if is_complete else _restore_exit_code(jobs[job_id], accounted)
    run = jobs[job_id]
    in_queue = queue.known.get(run.job_id)
    if in_queue:
        return _add_own_exit_code(run, in_queue)
    marked = status_by_markers(run, queue.silence)
    stranger = queue.strangers.get(run.job_id)
    if marked.state == "UNKNOWN" and stranger is not None:
        return replace(marked, reason=f"job {run.job_id} is another one by now, with the working folder {stranger}")
    return marked


# --- whose job it is


def is_own_folder(run: Run, folder: str) -> bool:
    """Whether a job with this working folder is the run's own: every script's --chdir is its run directory.

    ``folder`` is as Slurm's programs print it. Another path of the same directory counts too.
    """
    return _is_home(str(run.home), folder)


@lru_cache(maxsize=1024)  # the tasks of an array have one folder
def _is_home(home: str, folder: str) -> bool:
    own = os.fsencode(home).decode("utf-8", errors="replace")  # as ``ask`` reads what the programs print
    try:
        return folder == own or (bool(folder) and os.path.samefile(own, folder))
    except (OSError, ValueError):
        return False


def own_jobs(runs: Sequence[Run]) -> list[str]:
    """Return the IDs of the runs' jobs that squeue lists with the working folder of that run.

    Raises SchedulerError if squeue does not answer: a job whose folder is not known may be another run's.
    """
    wanted: dict[str, Run] = {run.job_id: run for run in runs if run.job_id}
    confirmed: set[str] = set()
    for job_ids in portions(list(wanted)):
        answer = ask(["squeue", "--noheader", "--states=all", "--format=%i|%Z", f"--jobs={','.join(job_ids)}"])
        if not answer.ok and "Invalid job id" not in answer.messages:
            what = f"not called, as squeue cannot confirm whose jobs these are: {answer.words}"
            raise SchedulerError(Fault(where="scancel", what=what, next="try again; until then the runs continue"))
        for line in answer.text.split("\n"):
            named, _, folder = line.partition("|")
            # A line of an array, such as 4711_[3,5-9], confirms the whole array 4711 and each of these tasks.
            for job_id in {named.partition("_")[0], *ids_in(named)} & wanted.keys():
                if is_own_folder(wanted[job_id], folder):
                    confirmed.add(job_id)
    return [job_id for job_id in wanted if job_id in confirmed]


# --- step 1: the queue


def _squeue(job_ids: Sequence[str], jobs: Jobs) -> _Queue:
    """Call squeue once. Its --json differs between versions, so it is not used."""
    options = ["--noheader", "--array", "--states=all", "--format=%i|%T|%r|%N|%Z"]
    answer = ask(["squeue", *options, f"--jobs={','.join(job_ids)}"])
    found: dict[str, Status] = {}
    further: list[FurtherNodes] = []
    strangers: dict[str, str] = {}
    for line in answer.text.split("\n"):
        named, state, reason, nodes, folder = [*line.split("|", 4), "", "", "", ""][:5]
        if _STATE.fullmatch(state):
            waiting = state == "PENDING" and reason not in ("None", "")
            status = _status_in_queue(state, reason if waiting else "", nodes)
            further += further_nodes(named, nodes)
            for job_id in ids_in(named):
                home = jobs.home(job_id)
                if home is not None and _is_home(home, folder):
                    found[job_id] = status
                elif home is not None:
                    strangers[job_id] = folder or "unknown"
    _add_nodes(found, further)
    refused = not answer.ok and "Invalid job id" not in answer.messages
    return _Queue(known=found, silence=f"squeue: {answer.words}" if refused else "", strangers=strangers)


@lru_cache(maxsize=1024)  # tasks of an array have few different ones
def _status_in_queue(state: str, reason: str, nodes: str) -> Status:
    return Status(state=state, reason=reason, nodes=nodes)


# --- step 2: accounting


def _sacct(ended: Iterable[str], jobs: Jobs) -> dict[str, Status]:
    """Call sacct once about these jobs; without accounting its answer is empty. Jobs of other folders are left out.

    JobIDRaw is not used: it gives the tasks of an array numbers that squeue does not use. Tasks that never began share
    one line.
    """
    options = ["--noheader", "--parsable2", "--allocations", "--format=JobID,State,ExitCode,NodeList,WorkDir"]
    # All tasks of an array have its folder, also those that were not asked for.
    homes = {job_id.partition("_")[0]: jobs.home(job_id) for job_id in ended}
    answer = ask(["sacct", *options, f"--jobs={','.join(homes)}", "--starttime=now-365days"])
    found: dict[str, Status] = {}
    further: list[FurtherNodes] = []
    for line in answer.text.split("\n"):
        named, state, code, nodes, folder = [*line.split("|", 4), "", "", "", ""][:5]
        word = state.split(" ")[0].rstrip("+")
        home = homes.get(job_of(named).partition("_")[0])
        further += further_nodes(named, nodes)
        if _STATE.fullmatch(word) and home is not None and _is_home(home, folder):
            found.update(dict.fromkeys(ids_in(named), _status_of_line(word, code, nodes)))
    _add_nodes(found, further)
    return found


def _add_nodes(found: dict[str, Status], further: Sequence[FurtherNodes]) -> None:
    """Add the nodes of further components to the status of their job; squeue lists components in any order."""
    for one in sorted(further, key=lambda one: one.number):
        if one.job_id in found:
            found[one.job_id] = replace(found[one.job_id], nodes=f"{found[one.job_id].nodes},{one.nodes}")


@lru_cache(maxsize=1024)
def _status_of_line(state: str, code: str, nodes: str) -> Status:
    """Return a line of sacct as a status."""
    if (state, code) == ("FAILED", "0:0"):
        code = ""  # accounting knows the end, but not yet the exit code (seen after an outage of slurmdbd)
    return Status(
        state=state,
        exit_code=code,
        nodes="" if nodes in NO_NODES else nodes,
        reason=UNOPENED_LOG if code == _UNOPENED_CODE else "",
    )


def _restore_exit_code(run: Run, status: Status) -> Status:
    """Return the status with the script's exit code: sacct subtracts 128 from codes above (seen with Slurm 22.05)."""
    if not status.exit_code:
        return _add_own_exit_code(run, status)
    code = run.last_exit_code(run.job_id) if status.state == "FAILED" else None
    if code is not None and code >= 128 and status.exit_code == f"{code - 128}:0":
        return replace(status, exit_code=f"{code}:0")
    return status


# --- step 3: the markers in the run directory


def _add_own_exit_code(run: Run, status: Status) -> Status:
    """Return the status with the exit code from the marker: squeue shows none, and accounting does not know it yet."""
    code = run.last_exit_code(run.job_id)
    if code is not None:
        return replace(status, exit_code=f"{code}:0")
    unopened = status.state == "FAILED" and not os.path.isdir(run.home / "logs")
    return replace(status, reason=UNOPENED_LOG) if unopened else status
