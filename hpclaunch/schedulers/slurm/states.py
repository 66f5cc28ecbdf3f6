"""The states of runs, in three steps: squeue, then sacct, then the markers in the run directory; it never guesses.

squeue knows every job that waits or runs, and for some minutes those that have ended. sacct knows ended jobs, perhaps
with a delay. The markers that the script wrote decide the rest. One call to each program answers for all runs of a
cluster. A line of an answer is about a run's job only if its identity is that job's: numbers are given again (decision
61).
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
from hpclaunch.core.run_states import FINAL
from hpclaunch.core.slow_files import answers
from hpclaunch.core.units import whole_number
from hpclaunch.runs import JobIdentity, Jobs, Run
from hpclaunch.schedulers import UNOPENED_LOG, Status
from hpclaunch.schedulers.slurm.addresses import jobs_by_address
from hpclaunch.schedulers.slurm.arrays import cancelled_while_waiting, ids_in, ids_to_query
from hpclaunch.schedulers.slurm.components import FurtherNodes, further_nodes
from hpclaunch.schedulers.slurm.markers import memory_kill, status_by_markers, with_proof
from hpclaunch.schedulers.slurm.programs import NO_NODES, ask, asking, room_for

_STATE = re.compile("[A-Z_]+")
_REPEATABLE = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REQUEUED"})
"""States in accounting of jobs that Slurm may have queued again; only squeue knows."""
_WAITING = frozenset({"PENDING", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
"""What squeue calls a job that waits: the last three are held (job_state_string in Slurm's slurm_protocol_defs.c)."""
_UNOPENED_CODE = "0:53"
"""The exit code of slurmd if it could not open the job's log."""
_MOST_IDS = 10_000
"""The most job IDs in one call: they are one argument, which Linux limits to 128 KiB."""


@record
class _Queue:
    """The answer of squeue: job -> status, and (``silence``) why it did not answer, if it did not.

    ``strangers``: job -> what a job with its number is, of which it is not known that it is the run's.
    """

    known: Mapping[JobIdentity, Status]
    silence: str
    strangers: Mapping[JobIdentity, str] = field(default_factory=dict)


def states(jobs: Jobs, leave_out: Collection[JobIdentity] = ()) -> dict[JobIdentity, Status]:
    """Return job -> status for the jobs, without those to ``leave_out``, and those that are out of reach from here.

    For several runs of an array the query names the array; the answer has a line for each task. An array may have
    100,000 of them, so a run is looked up in ``jobs`` only where the answers leave a doubt.
    """
    found: dict[JobIdentity, Status] = {}
    for address, there in jobs_by_address(jobs):
        with asking(address):
            found.update(_states_at_one(there, leave_out))
    return found


def _states_at_one(jobs: Jobs, leave_out: Collection[JobIdentity]) -> dict[JobIdentity, Status]:
    wanted = [job for job in jobs if job not in leave_out]
    found: dict[JobIdentity, Status] = {}
    for queried in portions(ids_to_query(job.job_id for job in wanted)):
        numbers = set(queried)
        mine = [job for job in wanted if job.job_id in numbers or job.array_id in numbers]
        found.update(_states_of(mine, jobs, _squeue(queried, jobs)))
    return found


def portions(numbers: Sequence[str]) -> Iterator[list[str]]:
    """Yield the job IDs in lists that fit into one argument."""
    rest = iter(numbers)
    while portion := list(islice(rest, _MOST_IDS)):
        yield portion


def _states_of(wanted: Sequence[JobIdentity], jobs: Jobs, queue: _Queue) -> dict[JobIdentity, Status]:
    """Return job -> status, each from the first source that knows it: queue, accounting, markers."""
    waiting = {job: status for job, status in queue.known.items() if status.state not in FINAL}
    ended = [job for job in wanted if job not in waiting]
    accounted = _sacct(ended, jobs) if ended else {}
    missing = [job for job in ended if job not in queue.known and not queue.silence]
    of_ended = answers(lambda job: _status_of_ended(job, jobs, queue, accounted.get(job)), ended)
    settled = dict(zip(ended, of_ended, strict=True))
    completed = [job for job, status in settled.items() if status.state == "COMPLETED"]
    settled |= zip(completed, answers(lambda job: with_proof(jobs[job], settled[job]), completed), strict=True)
    return {**waiting, **settled, **cancelled_while_waiting(missing, jobs, accounted)}


def _status_of_ended(job: JobIdentity, jobs: Jobs, queue: _Queue, accounted: Status | None) -> Status:
    """Return the status of a run that is not in the queue, or ended there."""
    queued_again = queue.silence and accounted is not None and accounted.state in _REPEATABLE
    if accounted is not None and not queued_again:
        is_complete = accounted.exit_code and accounted.state != "FAILED"
        return accounted if is_complete else _look_for_memory_kill(jobs[job], _restore_exit_code(jobs[job], accounted))
    run = jobs[job]
    in_queue = queue.known.get(job)
    if in_queue:
        return _look_for_memory_kill(run, _add_own_exit_code(run, in_queue))
    marked = status_by_markers(run, queue.silence)
    stranger = queue.strangers.get(job)
    if marked.state == "UNKNOWN" and stranger is not None:
        return replace(marked, reason=f"job {job.job_id} {stranger}")
    return marked


def _look_for_memory_kill(run: Run, status: Status) -> Status:
    """Return the status; OUT_OF_MEMORY for a failure after the kernel ended a process of a step for want of memory.

    Slurm calls only the step so, unless it is the script's own.
    """
    words = memory_kill(run) if status.state == "FAILED" and not status.reason else ""
    return replace(status, state="OUT_OF_MEMORY", reason=words) if words else status


# --- whose job it is


def owners(jobs: Jobs, number: str, folder: str, submitted: str) -> list[JobIdentity]:
    """Return the one of the jobs that a line of Slurm's programs is about; none if it is about another job.

    ``submitted`` is as they print it with SLURM_TIME_FORMAT=%s: in seconds of the epoch, in any time zone.
    """
    when = whole_number(submitted)
    return [job for job in jobs.numbered(number) if job.is_job(folder, when)]


def own_jobs(jobs: Jobs) -> list[JobIdentity]:
    """Return those of the jobs, all of one cluster, that squeue lists as the runs'.

    Raises SchedulerError if squeue does not answer: a job whose folder is not known may be another run's.
    """
    wanted = list(jobs)
    confirmed: set[JobIdentity] = set()
    for numbers in portions(list(dict.fromkeys(job.job_id for job in wanted))):
        command = ["squeue", "--noheader", "--states=all", "--format=%i|%V|%Z", f"--jobs={','.join(numbers)}"]
        answer = ask(command, epoch_times=True)
        if not answer.ok and "Invalid job id" not in answer.messages:
            what = f"not called, as squeue cannot confirm whose jobs these are: {answer.words}"
            raise SchedulerError(Fault(where="scancel", what=what, next="try again; until then the runs continue"))
        for line in answer.text.split("\n"):
            named, submitted, folder = [*line.split("|", 2), "", ""][:3]
            # A line of an array, such as 4711_[3,5-9], confirms the whole array 4711 and each of these tasks.
            for number in {named.partition("_")[0], *ids_in(named)}:
                confirmed.update(owners(jobs, number, folder, submitted))
    return [job for job in wanted if job in confirmed]


# --- step 1: the queue


def _squeue(numbers: Sequence[str], jobs: Jobs) -> _Queue:
    """Call squeue once. Its --json differs between versions, so it is not used."""
    options = ["--noheader", "--array", "--states=all", "--format=%i|%T|%r|%N|%V|%Z"]
    answer = ask(["squeue", *options, f"--jobs={','.join(numbers)}"], epoch_times=True, most=room_for(jobs.lines))
    found: dict[JobIdentity, Status] = {}
    further: list[tuple[JobIdentity, FurtherNodes]] = []
    strangers: dict[JobIdentity, str] = {}
    for line in answer.text.split("\n"):
        named, state, reason, nodes, submitted, folder = [*line.split("|", 5), "", "", "", "", ""][:6]
        if not _STATE.fullmatch(state):
            continue
        waiting = state in _WAITING and reason not in ("None", "")
        status = _status_in_queue(state, reason if waiting else "", nodes)
        further += _further_of(jobs, named, nodes, folder, submitted)
        for number in ids_in(named):
            own = owners(jobs, number, folder, submitted)
            found.update(dict.fromkeys(own, status))
            for job in jobs.numbered(number):
                if job not in own:
                    strangers[job] = _words_about_stranger(job, folder, submitted)
    _add_nodes(found, further)
    refused = not answer.ok and "Invalid job id" not in answer.messages
    return _Queue(known=found, silence=f"squeue: {answer.words}" if refused else "", strangers=strangers)


def _words_about_stranger(job: JobIdentity, folder: str, submitted: str) -> str:
    if not job.is_recent(whole_number(submitted)):
        return "is another one by now, which was submitted before this run was"
    if not folder:
        return "may be another one by now: Slurm does not say its working folder"
    return f"is another one by now, with the working folder {folder}"


@lru_cache(maxsize=1024)  # tasks of an array have few different ones
def _status_in_queue(state: str, reason: str, nodes: str) -> Status:
    return Status(state=state, reason=reason, nodes=nodes)


# --- step 2: accounting


def _sacct(ended: Iterable[JobIdentity], jobs: Jobs) -> dict[JobIdentity, Status]:
    """Call sacct once about these jobs; without accounting its answer is empty. Lines about other jobs are left out.

    JobIDRaw is not used: it gives the tasks of an array numbers that squeue does not use. Tasks that never began share
    one line.
    """
    fields = "JobID,State,ExitCode,NodeList,Cluster,Submit,WorkDir"
    options = ["--noheader", "--parsable2", "--allocations", f"--format={fields}", "--starttime=now-365days"]
    # The lines of an array's other tasks say that accounting knows the array.
    numbers = dict.fromkeys(job.array_id for job in ended)
    answer = ask(["sacct", *options, f"--jobs={','.join(numbers)}"], epoch_times=True, most=room_for(jobs.lines))
    found: dict[JobIdentity, Status] = {}
    further: list[tuple[JobIdentity, FurtherNodes]] = []
    for line in answer.text.split("\n"):
        named, state, code, nodes, name, submitted, folder = [*line.split("|", 6), "", "", "", "", "", ""][:7]
        word = state.split(" ")[0].rstrip("+")
        if not _STATE.fullmatch(word):
            continue
        further += _further_of(jobs, named, nodes, folder, submitted)
        for number in ids_in(named):
            for job in owners(jobs, number, folder, submitted):
                if not (job.cluster and name) or name in job.cluster.split(","):
                    found[job] = _status_of_line(word, code, nodes)
    _add_nodes(found, further)
    return found


def _further_of(
    jobs: Jobs, named: str, nodes: str, folder: str, submitted: str
) -> list[tuple[JobIdentity, FurtherNodes]]:
    """Return the job of a line about a further component (``4711+1``) with its nodes; nothing for any other line."""
    found = further_nodes(named, nodes)
    return [(job, one) for one in found for job in owners(jobs, one.job_id, folder, submitted)]


def _add_nodes(found: dict[JobIdentity, Status], further: Sequence[tuple[JobIdentity, FurtherNodes]]) -> None:
    """Add the nodes of further components to the status of their job; squeue lists components in any order."""
    for job, one in sorted(further, key=lambda pair: pair[1].number):
        if job in found:
            found[job] = replace(found[job], nodes=f"{found[job].nodes},{one.nodes}")


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
