"""Runs that began inside an allocation (``submit --here``): their states, and their end.

Such a run has no job of its own. It is known by the process of its script, on the host where that began, and by the
markers in its directory; elsewhere Slurm says whether the allocation still runs. The allocation itself is never
cancelled: other work may run in it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence

from hpclaunch.core.errors import Fault, SchedulerError
from hpclaunch.core.run_states import FINAL
from hpclaunch.core.units import whole_number
from hpclaunch.runs import JobIdentity, Run, identity_of
from hpclaunch.runs.job_identity import CLOCKS_S
from hpclaunch.runs.markers import ask_to_end, is_complete, mark_cancelled, was_cancelled
from hpclaunch.runs.processes import processes_by_hand, script_by_hand, send
from hpclaunch.schedulers import UNPROVEN, Status
from hpclaunch.schedulers.slurm.programs import ask

_GRACE_S = 30
"""As long as Slurm's KillWait by default: so long the ranks have to end after SIGTERM."""
_PATIENCE_S = 120
"""How long to wait for the end of a run on another host, whose ``submit --here`` has to see the request."""
_LIVE = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "SIGNALING", "STAGE_OUT")
_OWN_ENDS = ("TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "DEADLINE")
"""Ends of an allocation that are also those of a run which it took with it."""
_KILLED = "its script was killed before it could write its exit code"


def states(runs: Sequence[Run]) -> dict[JobIdentity, Status]:
    """Return job -> status of runs that began in an allocation; squeue is called once, if at all."""
    found, doubtful = {}, []
    for run in runs:
        code = run.last_exit_code(run.job_id)
        if code is not None:
            found[identity_of(run)] = _status_of_code(run, code)
        elif _is_here(run) and processes_by_hand(run):
            found[identity_of(run)] = Status(state="RUNNING", nodes=run.nodes)
        else:
            doubtful.append(run)
    return {**found, **_states_by_allocation(doubtful)} if doubtful else found


def _is_here(run: Run) -> bool:
    return run.host == os.uname().nodename


def _status_of_code(run: Run, code: int) -> Status:
    exit_code = f"{code}:0"
    if code != 0:
        return Status(state="CANCELLED" if was_cancelled(run) else "FAILED", exit_code=exit_code, nodes=run.nodes)
    if is_complete(run):
        return Status(state="COMPLETED", exit_code=exit_code, nodes=run.nodes)
    return Status(state="FAILED", exit_code=exit_code, reason=UNPROVEN, nodes=run.nodes)


def _states_by_allocation(runs: Sequence[Run]) -> dict[JobIdentity, Status]:
    """Return the states of runs without an exit code, of which no process lives on this host.

    On another host they may run as long as their allocation does. One that ended with the allocation did not fail.
    """
    wanted = ",".join(dict.fromkeys(run.allocation for run in runs))
    command = ["squeue", "--noheader", "--states=all", f"--jobs={wanted}", "--format=%A|%T|%U|%V"]
    answer = ask(command, epoch_times=True)
    if not answer.ok and "Invalid job id" not in answer.messages:
        return {identity_of(run): Status(state="UNKNOWN", reason=f"squeue: {answer.words}") for run in runs}
    rows = [line.split("|") for line in answer.text.split("\n") if line.count("|") == 3]
    known = {number: (state, whole_number(since)) for number, state, uid, since in rows if uid == str(os.getuid())}
    return {identity_of(run): _status_without_code(run, _allocation_state(run, known)) for run in runs}


def _allocation_state(run: Run, known: Mapping[str, tuple[str, int | None]]) -> str:
    """Return the state of the run's allocation; empty if Slurm does not know it.

    A job with its number that was submitted after the run began is the allocation of a later numbering.
    """
    state, submitted = known.get(run.allocation, ("", None))
    began = identity_of(run).submitted
    return state if not began or (submitted is not None and submitted <= began + CLOCKS_S) else ""


def _status_without_code(run: Run, allocation: str) -> Status:
    """Return the status of a run whose script has left no exit code; ``allocation``: the state of its allocation."""
    code = run.last_exit_code(run.job_id)
    if code is not None:  # by now
        return _status_of_code(run, code)
    if is_complete(run):
        return Status(state="COMPLETED", exit_code="0:0", nodes=run.nodes)
    if allocation in _LIVE and not _is_here(run):
        return Status(state="RUNNING", nodes=run.nodes)
    if allocation == "RUNNING" and not was_cancelled(run):
        return Status(state="FAILED", reason=_KILLED, nodes=run.nodes)
    state = allocation if allocation in _OWN_ENDS else "CANCELLED"
    return Status(state=state, reason=f"it ended with the allocation {run.allocation}", nodes=run.nodes)


def cancel(runs: Sequence[Run]) -> list[JobIdentity]:
    """End the runs, and return the jobs of those that were running.

    On the same host their processes get SIGTERM, after a while once more, and are killed in the end. On another host
    the process of ``submit --here`` sees the request. Raises SchedulerError for a run that has not ended.
    """
    running = [run for run in runs if states([run])[identity_of(run)].state not in FINAL]
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
    return [identity_of(run) for run in running]


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
        if states([run])[identity_of(run)].state != "RUNNING":
            return None
        time.sleep(1)
    what = f"{run.label} was asked to end, and has not ended within {_PATIENCE_S} s: it runs on {run.host}"
    return Fault(what=what, next=f"on {run.host}: hpclaunch cancel {run.label}; or leave the shell in which it began")
