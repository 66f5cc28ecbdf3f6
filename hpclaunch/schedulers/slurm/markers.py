"""The end of a job according to its run directory alone: for clusters without accounting, and jobs that it forgot.

The script leaves its exit code, whether it got SIGTERM, and the proof that it completed the run. ``hpclaunch cancel``
leaves a marker. slurmstepd writes into the job's log why it ends a job.
"""

from __future__ import annotations

import calendar
import os
import re
import time
from dataclasses import replace

from hpclaunch.core.files import read_text
from hpclaunch.runs import HISTORY, STATES, Run
from hpclaunch.runs.logs import end_of_log
from hpclaunch.runs.markers import (
    is_complete,
    is_of_script_alone,
    last_start,
    seconds_until_term,
    starts_of,
    was_cancelled,
)
from hpclaunch.runs.recorded_layout import walltime_of
from hpclaunch.schedulers import NEVER_BEGUN, SCRIPT_ALONE, UNPROVEN, Status

_LINE = (
    r"(?m)^slurmstepd(?:-\S+)?: error: \*\*\* (?:JOB|STEP) (?P<job>[0-9_]+)(?:[.+]\S*)? ON \S+ CANCELLED AT "
    r"(?P<time>[0-9T:-]{19})(?: DUE (?:TO|to) (?P<cause>[A-Za-z ]+?),?)?(?: SEE [A-Z ]+)? \*\*\*"
)
"""slurmstepd's line about a job that Slurm ends (slurmstepd/req.c; newer versions name the signal as the cause).

A slurmd that was started with its node's name (-N) adds that name to the program's.

It is compiled only where it is needed.
"""
_STEPD = r"(?m)^slurmstepd(?:-\S+)?: error: "
_STEP = r"(?P<job>[0-9_]+)(?:\+[0-9]+)?(?:\.[A-Za-z0-9]+)?"
_KILLED = (
    rf"{_STEPD}(?P<words>Detected [0-9]+ oom[-_]kill event(?:s|\(s\))? in (?:StepId=|step ){_STEP})",
    rf"{_STEPD}(?P<words>(?:StepId=|Step |Job ){_STEP} exceeded memory limit \([0-9]+ > [0-9]+\)), being killed",
    r"(?m)^srun: error: (?P<words>\S+: tasks? [0-9,-]+: Out Of Memory)\s*$",
)
"""What Slurm's programs write after a process was ended for want of memory.

The first by the kernel (task_cgroup_memory.c of 18.08 to 25.11), the second by Slurm (jobacct_gather.c), the third of a
task with either. Slurm's accounting calls such a job OUT_OF_MEMORY, also if its script ended with 0.
"""
_EXCEEDED = rf"{_STEPD}(?P<words>Exceeded (?:job|step) memory limit at some point)"
"""A line of versions before 18.08. It is no proof of a kill by itself, as memory may have been moved out in time."""
_STATES = {"TIME LIMIT": "TIMEOUT", "PREEMPTION": "PREEMPTED", "NODE FAILURE": "NODE_FAIL"}
_ENDED_BY_SIGNAL = (None, 137, 143)
"""Exit codes of a start that a signal may have ended; None: it left no code."""
_NOT_YET_PROVEN = "Slurm calls it COMPLETED; the proof of its script is not visible yet"
_KILLED_CODE = 137
"""The exit code of a shell whose program got SIGKILL."""
_LATE_S = 120
"""For so long a shared file system may not show what was written on another host (acdirmax of NFS is 60 s)."""
_REPEATED = ("PREEMPTED", "NODE_FAIL")
"""Ends after which Slurm may have queued the job again."""
_LAST_MINUTE_S = 60
"""A SIGTERM so shortly before the end of the walltime is its end: the job begins some seconds before its script."""
_BY_TERM = "SIGTERM ended it before its walltime: cancelled, preempted, or its node was taken away"


def status_by_markers(run: Run, silence: str) -> Status:
    """Return the status of an ended job according to its run directory; ``silence`` is why squeue did not answer.

    If squeue does not answer, a job that Slurm may have queued again is UNKNOWN.
    """
    code = run.last_exit_code(run.job_id)
    seconds = seconds_until_term(run)
    exit_code = "" if code is None else f"{code}:0"
    killed = "" if seconds is not None else memory_kill(run)
    if seconds is None and is_complete(run) and not killed:
        return _add_what_is_known(run, Status(state="COMPLETED", exit_code="0:0", nodes=run.nodes))
    if was_cancelled(run) and not (silence and code is None):
        begun = bool(last_start(run))
        return Status(state="CANCELLED", exit_code=exit_code, nodes=run.nodes) if begun else NEVER_BEGUN
    ended = _ended_by_slurm(run, code, seconds)
    if killed and not (silence and code is None) and (ended is None or ended.state == "CANCELLED"):
        ended = Status(state="OUT_OF_MEMORY", reason=killed)
    ended = ended or (_status_without_proof(code) if code is not None else None)
    if ended and not (silence and (ended.state in _REPEATED or (code != 0 and _requeues(run)))):
        return Status(state=ended.state, exit_code=exit_code, reason=ended.reason, nodes=run.nodes)
    return Status(state=run.state if run.final else "UNKNOWN", reason=silence, nodes=run.nodes)


def memory_kill(run: Run) -> str:
    """Return what slurmstepd wrote about a process of this job that got too much memory; empty without such a line.

    The log holds the lines of all starts of the job, which this line does not tell apart: after a requeue it tells
    nothing.
    """
    if len(starts_of(run)) != 1:
        return ""
    log = end_of_log(run)
    for form in (*_KILLED, *([_EXCEEDED] if run.last_exit_code(run.job_id) == _KILLED_CODE else [])):
        for line in re.finditer(form, log):
            if _is_of(line.groupdict().get("job", run.job_id), run):
                return line["words"]
    return ""


def _status_without_proof(code: int) -> Status:
    return Status(state="FAILED", reason=UNPROVEN if code == 0 else "")


def with_proof(run: Run, status: Status) -> Status:
    """Return the status of an ended job: Slurm's COMPLETED counts only with the proof of the job's script.

    Slurm knows no more than the script's exit code, and the script may be another one. While the proof may only be
    late, the run is COMPLETING; that state is recorded, and its age is how long the proof has been missing.
    """
    if status.state != "COMPLETED":
        return status
    if is_complete(run):
        return _add_what_is_known(run, status)
    if run.last_exit_code(run.job_id) == 0 or (run.state == "COMPLETING" and _seconds_in_state(run) >= _LATE_S):
        return replace(status, state="FAILED", reason=UNPROVEN)
    return replace(status, state="COMPLETING", exit_code="", reason=_NOT_YET_PROVEN)


def _add_what_is_known(run: Run, status: Status) -> Status:
    """Return a completed status; that of a foreign batch script says that its ranks are not known."""
    return replace(status, reason=SCRIPT_ALONE) if is_of_script_alone(run) else status


def _seconds_in_state(run: Run) -> float:
    """Return how long ago the recorded state of the run, or a state of its array, has changed."""
    try:
        return time.time() - os.stat(run.home / (HISTORY if run.index < 0 else STATES)).st_mtime
    except OSError:
        return 0.0


def _ended_by_slurm(run: Run, code: int | None, seconds: int | None) -> Status | None:
    """Return how Slurm itself ended the job, from slurmstepd's line in the log, or from a SIGTERM to the script.

    Returns None if nothing says that Slurm ended it.
    """
    if seconds is None and code not in _ENDED_BY_SIGNAL:
        return None
    state = _state_in_log(run)
    if state:
        return Status(state=state)
    if seconds is None:
        return None
    walltime = walltime_of(run.spec())
    if 0 < walltime <= seconds + min(_LAST_MINUTE_S, walltime // 10):
        return Status(state="TIMEOUT")
    return Status(state="CANCELLED", reason=_BY_TERM)


def _state_in_log(run: Run) -> str:
    """Return the state that slurmstepd's last line about this job means; empty without such a line."""
    starts = starts_of(run)
    if not starts:
        return ""
    lines = [line for line in re.finditer(_LINE, end_of_log(run)) if _is_of(line["job"], run)]
    # The log holds the lines of all starts of the job: one that was requeued is not ended by an earlier line.
    if not lines or (len(starts) > 1 and _epoch_of(lines[-1]["time"]) < _start_time(run, starts[-1])):
        return ""
    cause = lines[-1]["cause"] or ""
    return "" if cause == "JOB REQUEUE" else _STATES.get(cause, "CANCELLED")


def _is_of(job: str, run: Run) -> bool:
    # A task of an array has a number of its own in this line, which its log's name does not contain.
    return "_" in run.job_id or job == run.job_id


def _epoch_of(text: str) -> float:
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return 0.0


def _start_time(run: Run, start: str) -> float:
    text = read_text(run.path / "attempts" / start / "started").strip()
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    except (ValueError, OverflowError):
        return 0.0


def _requeues(run: Run) -> bool:
    restarts = run.spec().get("restarts")
    return isinstance(restarts, dict) and bool(restarts.get("most")) and restarts.get("by") == "requeue"
