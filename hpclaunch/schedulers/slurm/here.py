"""Runs that began inside an allocation (``submit --here``): their states, and their end.

Such a run has no job of its own. It is known by the process of its script, on the host where that began, and by the
markers in its directory; elsewhere Slurm says whether the allocation still runs. The allocation itself is never
cancelled: other work may run in it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

from hpclaunch.core.errors import Fault, SchedulerError
from hpclaunch.runs import FINAL, Run
from hpclaunch.runs.markers import ask_to_end, mark_cancelled, was_cancelled
from hpclaunch.runs.processes import processes_by_hand, script_by_hand, send
from hpclaunch.schedulers import Status
from hpclaunch.schedulers.slurm.programs import ask

_GRACE_S = 30
"""As long as Slurm's KillWait by default: so long the ranks have to end after SIGTERM."""
_PATIENCE_S = 120
"""How long to wait for the end of a run on another host, whose ``submit --here`` has to see the request."""
_LIVE = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "SIGNALING", "STAGE_OUT")
_OWN_ENDS = ("TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "DEADLINE")
"""Ends of an allocation that are also those of a run which it took with it."""
_KILLED = "its script was killed before it could write its exit code"


def states(runs: Sequence[Run]) -> dict[str, Status]:
    """Return job ID -> status of runs that began in an allocation; squeue is called once, if at all."""
    found, doubtful = {}, []
    for run in runs:
        code = run.last_exit_code(run.job_id)
        if code is not None:
            found[run.job_id] = _status_of_code(run, code)
        elif _is_here(run) and processes_by_hand(run):
            found[run.job_id] = Status(state="RUNNING", nodes=run.nodes)
        else:
            doubtful.append(run)
    return {**found, **_states_by_allocation(doubtful)} if doubtful else found


def _is_here(run: Run) -> bool:
    return run.host == os.uname().nodename


def _status_of_code(run: Run, code: int) -> Status:
    ended = "CANCELLED" if was_cancelled(run) else "FAILED"
    return Status(state="COMPLETED" if code == 0 else ended, exit_code=f"{code}:0", nodes=run.nodes)


def _states_by_allocation(runs: Sequence[Run]) -> dict[str, Status]:
    """Return the states of runs without an exit code, of which no process lives on this host.

    On another host they may run as long as their allocation does. One that ended with the allocation did not fail.
    """
    wanted = ",".join(dict.fromkeys(run.allocation for run in runs))
    answer = ask(["squeue", "--noheader", "--states=all", f"--jobs={wanted}", "--format=%A|%T|%U"])
    if not answer.ok and "Invalid job id" not in answer.messages:
        return {run.job_id: Status(state="UNKNOWN", reason=f"squeue: {answer.words}") for run in runs}
    rows = [line.split("|") for line in answer.text.split("\n") if line.count("|") == 2]
    known = {job_id: state for job_id, state, uid in rows if uid == str(os.getuid())}
    return {run.job_id: _status_without_code(run, known.get(run.allocation, "")) for run in runs}


def _status_without_code(run: Run, allocation: str) -> Status:
    """Return the status of a run whose script has left no exit code; ``allocation``: the state of its allocation."""
    code = run.last_exit_code(run.job_id)
    if code is not None:  # by now
        return _status_of_code(run, code)
    if allocation in _LIVE and not _is_here(run):
        return Status(state="RUNNING", nodes=run.nodes)
    if allocation == "RUNNING" and not was_cancelled(run):
        return Status(state="FAILED", reason=_KILLED, nodes=run.nodes)
    state = allocation if allocation in _OWN_ENDS else "CANCELLED"
    return Status(state=state, reason=f"it ended with the allocation {run.allocation}", nodes=run.nodes)


def cancel(runs: Sequence[Run]) -> list[str]:
    """End the runs, and return the IDs of those that were running.

    On the same host their processes get SIGTERM, after a while once more, and are killed in the end. On another host
    the process of ``submit --here`` sees the request. Raises SchedulerError for a run that has not ended.
    """
    running = [run for run in runs if states([run])[run.job_id].state not in FINAL]
    for run in running:
        mark_cancelled(run, run.job_id)
        if not _is_here(run):
            ask_to_end(run, run.job_id)
    for run in running:
        if _is_here(run):
            _end(run)
    faults = [fault for run in running if not _is_here(run) and (fault := _await_end(run))]
    if faults:
        raise SchedulerError(faults)
    return [run.job_id for run in running]


def _end(run: Run) -> None:
    """End a run of this host: SIGTERM, which its script passes on, once more, and then SIGKILL."""
    for number, seconds in ((signal.SIGTERM, _GRACE_S), (signal.SIGTERM, _GRACE_S / 2), (signal.SIGKILL, 5)):
        processes = processes_by_hand(run)
        send(processes if number == signal.SIGKILL else script_by_hand(run) or processes, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not processes_by_hand(run):
                return
            time.sleep(0.1)


def _await_end(run: Run) -> Fault | None:
    """Wait for the end of a run on another host; return why it is not known to have ended."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if states([run])[run.job_id].state != "RUNNING":
            return None
        time.sleep(1)
    what = f"{run.label} was asked to end, and has not ended within {_PATIENCE_S} s: it runs on {run.host}"
    return Fault(what=what, next=f"on {run.host}: hpclaunch cancel {run.label}; or leave the shell in which it began")
