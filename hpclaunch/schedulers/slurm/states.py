"""Slurm: states from squeue, then sacct, then the run directory; it never guesses, and asks once for all runs."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Sequence
from dataclasses import replace
from itertools import islice

from hpclaunch.core.errors import Fault, SchedulerError
from hpclaunch.core.spec import JobSpec
from hpclaunch.runs import FINAL, Run
from hpclaunch.schedulers import Status
from hpclaunch.schedulers.slurm.arrays import asked_by, dropped, named_by, whole_arrays
from hpclaunch.schedulers.slurm.arrays import objections as of_array
from hpclaunch.schedulers.slurm.programs import ask, leaking
from hpclaunch.schedulers.slurm.reasons import explain
from hpclaunch.schedulers.slurm.submit import search, submit

__all__ = [
    "cancel",
    "cancel_command",
    "estimate",
    "explain",
    "leaking",
    "objections",
    "search",
    "states",
    "submit",
    "unwell",
]

_STATE = re.compile("[A-Z_]+")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REPEATABLE = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REQUEUED"})
"""What accounting calls a job that Slurm may have queued again since: only squeue can tell."""
_UNOPENED = "its log could not be opened: the folder logs/ of its run directory was gone or not writable"
"""What slurmd means by exit code 0:53: nothing of the script has run."""
_MOST_IDS = 10_000
"""A list of job ids is one argument of a program, which Linux limits to 128 KiB."""


def objections(spec: JobSpec) -> list[Fault]:
    """Return why Slurm would let this job wait for ever; nothing where there is no Slurm to ask."""
    from hpclaunch.schedulers.slurm.limits import objections as found

    return [*found(spec), *of_array(spec)]


def estimate(text: str) -> str:
    """Return what ``sbatch --test-only`` says of the script; nothing is queued. Raises SchedulerError if it refuses.

    Times in it are as Slurm writes them, whatever SLURM_TIME_FORMAT says: programs read them too.
    """
    unseen = (*leaking(os.environ), "SLURM_TIME_FORMAT")
    answer = ask(["sbatch", "--test-only"], without=unseen, text=text)
    words = " ".join((answer.said + answer.text).replace("sbatch: error:", "").replace("sbatch:", "").split())
    if not answer.ok:
        raise SchedulerError(Fault(where="sbatch --test-only", what=words or "refused without a word"))
    return words


def states(runs: Sequence[Run]) -> dict[str, Status]:
    """Return job id -> status for all runs: one squeue, one sacct for those that squeue no longer knows.

    Of an array with many runs the array is asked for, and every task is told on a line of its own.
    """
    wanted = {run.job_id: run for run in runs if run.job_id}
    found: dict[str, Status] = {}
    silence = ""
    ids = iter(asked_by(wanted))
    while some := list(islice(ids, _MOST_IDS)):
        known, silence = _squeue(some, wanted)
        found.update(known)
        named = set(some)
        mine = [job_id for job_id in wanted if job_id in named or job_id.partition("_")[0] in named]
        gone = [job_id for job_id in mine if job_id not in known or known[job_id].state in FINAL]
        told = _sacct(whole_arrays(gone)) if gone else {}
        ended = {job_id: _whole(wanted[job_id], told[job_id]) for job_id in gone if job_id in told}
        if silence:
            ended = {job_id: status for job_id, status in ended.items() if status.state not in _REPEATABLE}
        unheard = {job_id: _heard(wanted[job_id], known[job_id]) for job_id in gone if job_id in known}
        silent = [] if silence else [wanted[job_id] for job_id in gone if job_id not in known]
        found.update({**dropped(silent, told), **unheard, **ended})
    for job_id, run in wanted.items():
        if job_id not in found:
            found[job_id] = _marks(run, silence)
    return found


def _squeue(job_ids: list[str], asked: Container[str]) -> tuple[dict[str, Status], str]:
    """Ask once; return the states, and why there was no answer. squeue --json differs from version to version."""
    options = ["--noheader", "--array", "--states=all", "--format=%i|%T|%r|%N"]
    answer = ask(["squeue", *options, f"--jobs={','.join(job_ids)}"])
    found = {}
    for line in answer.text.splitlines():
        named, state, reason, nodes = [*line.split("|", 3), "", "", ""][:4]
        waiting = state == "PENDING" and reason not in ("None", "")
        if _STATE.fullmatch(state):
            status = Status(state=state, reason=reason if waiting else "", nodes=nodes)
            found.update({job_id: status for job_id in named_by(named) if job_id in asked})
    refused = not answer.ok and "Invalid job id" not in answer.said
    return found, f"squeue: {answer.words}" if refused else ""


def _sacct(job_ids: list[str]) -> dict[str, Status]:
    """Ask once; without accounting sacct answers nothing, and nobody is surprised.

    JobIDRaw would give the tasks of an array numbers that nobody else uses; those that never began share one line.
    """
    options = ["--noheader", "--parsable2", "--allocations", "--format=JobID,State,ExitCode,NodeList"]
    answer = ask(["sacct", *options, f"--jobs={','.join(job_ids)}", "--starttime=now-365days"])
    found = {}
    for line in answer.text.splitlines():
        named, state, code, nodes = [*line.split("|"), "", "", ""][:4]
        word = state.split(" ")[0].rstrip("+")
        if not _STATE.fullmatch(word):
            continue
        nodes, reason = "" if nodes == "None assigned" else nodes, _UNOPENED if code == "0:53" else ""
        if (word, code) == ("FAILED", "0:0"):
            code = ""  # accounting has heard of the end, not yet of the exit code (seen when slurmdbd had been down)
        status = Status(state=word, exit_code=code, nodes=nodes, reason=reason)
        found.update(dict.fromkeys(named_by(named), status))
    return found


def _heard(run: Run, status: Status) -> Status:
    """Return how a job ended of which accounting has not heard yet: squeue tells no exit code, its own mark does."""
    code = run.last_exit_code(run.job_id)
    if code is not None:
        return replace(status, exit_code=f"{code}:0")
    unopened = status.state == "FAILED" and not (run.home / "logs").is_dir()
    return replace(status, reason=_UNOPENED) if unopened else status


def _whole(run: Run, status: Status) -> Status:
    """Return the exit code that the script ended with: sacct takes 128 from those above (seen with Slurm 22.05)."""
    if not status.exit_code:
        return _heard(run, status)
    code = run.last_exit_code(run.job_id) if status.state == "FAILED" else None
    if code is not None and code >= 128 and status.exit_code == f"{code - 128}:0":
        return replace(status, exit_code=f"{code}:0")
    return status


def _marks(run: Run, silence: str) -> Status:
    """Fall back on what the script itself left behind; ``silence`` is why Slurm said nothing.

    While squeue is silent nobody knows whether a run that requeues itself, and did not end with 0, waits to go on.
    """
    code = run.last_exit_code(run.job_id)
    if code is not None and not (code and silence and _requeues(run)):
        return Status(state="COMPLETED" if code == 0 else "FAILED", exit_code=f"{code}:0", nodes=run.nodes)
    return Status(state=run.state if run.final else "UNKNOWN", reason=silence, nodes=run.nodes)


def _requeues(run: Run) -> bool:
    restarts = run.spec().get("restarts")
    return isinstance(restarts, dict) and bool(restarts.get("most")) and restarts.get("by") == "requeue"


def cancel(runs: Sequence[Run]) -> bool:
    """Cancel the jobs with one call and return that they were asked to end. Raises SchedulerError in Slurm's words."""
    answer = ask(["scancel", *(run.job_id for run in runs)])
    if not answer.ok:
        denied = "denied" in answer.words.lower()
        next_step = "only its owner can cancel it" if denied else "try again: the run goes on meanwhile"
        raise SchedulerError(Fault(where="scancel", what=answer.words, next=next_step))
    return True


def cancel_command(run: Run) -> str:
    """Return what a person would type."""
    return f"hpclaunch cancel {run.label} (or: scancel {run.job_id})"


def unwell(nodes: str) -> tuple[str, ...]:
    """Return which of the nodes Slurm calls down, drained or failing."""
    if not nodes:
        return ()
    states_of_trouble = "down,drain,drained,draining,fail,failing,no_respond"
    answer = ask(["sinfo", "--noheader", "--Node", f"--nodes={nodes}", f"--states={states_of_trouble}", "--format=%N"])
    found = answer.text.split() if answer.ok else []
    return tuple(dict.fromkeys(name for name in found if _NODE.fullmatch(name)))
