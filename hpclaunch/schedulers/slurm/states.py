"""The states of runs, in three steps: squeue, then sacct, then what the script left; it never guesses.

squeue knows every job that waits or runs, and for some minutes those that have ended. sacct knows those that have
ended, and may hear of an end later. What the script left in the run directory tells the rest. One call to each program
answers for all runs.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from hpclaunch.core.records import record
from hpclaunch.runs import FINAL, Run
from hpclaunch.schedulers import Status
from hpclaunch.schedulers.slurm.arrays import asked_by, cancelled_while_waiting, named_by, whole_arrays
from hpclaunch.schedulers.slurm.programs import ask

_STATE = re.compile("[A-Z_]+")
_REPEATABLE = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REQUEUED"})
"""What accounting calls a job that Slurm may have queued again since: only squeue can tell."""
_UNOPENED = "its log could not be opened: the folder logs/ of its run directory was gone or not writable"
"""What slurmd means by exit code 0:53: nothing of the script has run."""
_MOST_IDS = 10_000
"""A list of job ids is one argument of a program, which Linux limits to 128 KiB."""


@record
class _Queue:
    """What squeue told: job id -> status, and why it did not answer, if so."""

    known: Mapping[str, Status]
    silence: str


def states(runs: Sequence[Run]) -> dict[str, Status]:
    """Return job id -> status for all runs that have a job id.

    Of an array with many runs the array is asked for, and every task is told on a line of its own.
    """
    wanted = {run.job_id: run for run in runs if run.job_id}
    found: dict[str, Status] = {}
    for job_ids in _portions(asked_by(wanted)):
        names = set(job_ids)
        mine = [run for run in wanted.values() if run.job_id in names or run.job_id.partition("_")[0] in names]
        found.update(_states_of(mine, _squeue(job_ids, wanted)))
    return found


def _portions(job_ids: Sequence[str]) -> Iterator[list[str]]:
    """Yield the ids in lists that fit into one argument."""
    rest = iter(job_ids)
    while portion := list(islice(rest, _MOST_IDS)):
        yield portion


def _states_of(runs: Sequence[Run], queue: _Queue) -> dict[str, Status]:
    """Return job id -> status, each from the first of the three that knows it: the queue, accounting, the marks."""
    waiting = {job_id: status for job_id, status in queue.known.items() if status.state not in FINAL}
    ended = [run for run in runs if run.job_id not in waiting]
    accounted = _sacct(whole_arrays(run.job_id for run in ended)) if ended else {}
    missing = [run for run in ended if run.job_id not in queue.known and not queue.silence]
    told = {run.job_id: _status_of_ended(run, queue, accounted.get(run.job_id)) for run in ended}
    return {**waiting, **told, **cancelled_while_waiting(missing, accounted)}


def _status_of_ended(run: Run, queue: _Queue, accounted: Status | None) -> Status:
    """Return the status of a run that the queue does not hold, or not any more."""
    queued_again = queue.silence and accounted is not None and accounted.state in _REPEATABLE
    if accounted is not None and not queued_again:
        return _restore_exit_code(run, accounted)
    in_queue = queue.known.get(run.job_id)
    return _add_own_exit_code(run, in_queue) if in_queue else _read_marks(run, queue.silence)


# --- step 1: the queue


def _squeue(job_ids: list[str], asked: Container[str]) -> _Queue:
    """Ask once. squeue --json differs from version to version."""
    options = ["--noheader", "--array", "--states=all", "--format=%i|%T|%r|%N"]
    answer = ask(["squeue", *options, f"--jobs={','.join(job_ids)}"])
    found: dict[str, Status] = {}
    for line in answer.text.splitlines():
        named, state, reason, nodes = [*line.split("|", 3), "", "", ""][:4]
        waiting = state == "PENDING" and reason not in ("None", "")
        if _STATE.fullmatch(state):
            status = Status(state=state, reason=reason if waiting else "", nodes=nodes)
            found.update({job_id: status for job_id in named_by(named) if job_id in asked})
    refused = not answer.ok and "Invalid job id" not in answer.said
    return _Queue(known=found, silence=f"squeue: {answer.words}" if refused else "")


# --- step 2: accounting


def _sacct(job_ids: list[str]) -> dict[str, Status]:
    """Ask once; without accounting sacct answers nothing, and nobody is surprised.

    JobIDRaw would give the tasks of an array numbers that nobody else uses; those that never began share one line.
    """
    options = ["--noheader", "--parsable2", "--allocations", "--format=JobID,State,ExitCode,NodeList"]
    answer = ask(["sacct", *options, f"--jobs={','.join(job_ids)}", "--starttime=now-365days"])
    found: dict[str, Status] = {}
    for line in answer.text.splitlines():
        named, state, code, nodes = [*line.split("|"), "", "", ""][:4]
        word = state.split(" ")[0].rstrip("+")
        if _STATE.fullmatch(word):
            found.update(dict.fromkeys(named_by(named), _status_of_line(word, code, nodes)))
    return found


def _status_of_line(state: str, code: str, nodes: str) -> Status:
    """Return a line of sacct as a status."""
    if (state, code) == ("FAILED", "0:0"):
        code = ""  # accounting has heard of the end, not yet of the exit code (seen when slurmdbd had been down)
    return Status(
        state=state,
        exit_code=code,
        nodes="" if nodes == "None assigned" else nodes,
        reason=_UNOPENED if code == "0:53" else "",
    )


def _restore_exit_code(run: Run, status: Status) -> Status:
    """Return the exit code that the script ended with: sacct takes 128 from those above (seen with Slurm 22.05)."""
    if not status.exit_code:
        return _add_own_exit_code(run, status)
    code = run.last_exit_code(run.job_id) if status.state == "FAILED" else None
    if code is not None and code >= 128 and status.exit_code == f"{code - 128}:0":
        return replace(status, exit_code=f"{code}:0")
    return status


# --- step 3: what the script left in the run directory


def _add_own_exit_code(run: Run, status: Status) -> Status:
    """Return how a job ended of which accounting has not heard yet: squeue tells no exit code, its own mark does."""
    code = run.last_exit_code(run.job_id)
    if code is not None:
        return replace(status, exit_code=f"{code}:0")
    unopened = status.state == "FAILED" and not (run.home / "logs").is_dir()
    return replace(status, reason=_UNOPENED) if unopened else status


def _read_marks(run: Run, silence: str) -> Status:
    """Return the status that the run directory tells alone; ``silence`` is why Slurm said nothing.

    While squeue is silent it is unknown whether a run that requeues itself, and did not end with 0, waits to continue.
    """
    code = run.last_exit_code(run.job_id)
    if code is not None and not (code and silence and _requeues(run)):
        return Status(state="COMPLETED" if code == 0 else "FAILED", exit_code=f"{code}:0", nodes=run.nodes)
    return Status(state=run.state if run.final else "UNKNOWN", reason=silence, nodes=run.nodes)


def _requeues(run: Run) -> bool:
    restarts = run.spec().get("restarts")
    return isinstance(restarts, dict) and bool(restarts.get("most")) and restarts.get("by") == "requeue"
