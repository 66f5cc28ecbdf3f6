"""``submit --here``: runs a job inside the allocation that one is in, at once, as a child of this process.

No job is submitted, and the allocation is never ended. The script has a session of its own, so that a key or a lost
terminal reaches this process alone, which passes the request to end on.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING

from hpclaunch import runs
from hpclaunch.actions.preparing.advice import advised
from hpclaunch.actions.preparing.load import load
from hpclaunch.actions.preparing.preflight import check
from hpclaunch.actions.preparing.programs import program_job
from hpclaunch.actions.preparing.submit import Prepared, prepare_case
from hpclaunch.actions.queueing.start import create_run, refuse_untrusted
from hpclaunch.actions.queueing.wait import Tail
from hpclaunch.core.errors import Fault, NotFound, Refused, SchedulerError, unwritable
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.shell_variables import device_variables, person_variables
from hpclaunch.core.units import format_walltime
from hpclaunch.resolve.nodes.allocation import site_within
from hpclaunch.runs import Run
from hpclaunch.runs.markers import is_asked_to_end, is_complete, mark_cancelled, was_cancelled, why_not_recorded
from hpclaunch.runs.processes import processes_by_hand, send
from hpclaunch.schedulers import UNPROVEN, scheduler_of

if TYPE_CHECKING:
    from hpclaunch.actions.system import System
    from hpclaunch.core.spec import Request
    from hpclaunch.core.spec_parts import Allocation
    from hpclaunch.resolve.case import Case

_POLL_S = 0.2
_GRACE_S = 30
"""The time between the first and the second request to end, as Slurm's KillWait; the third comes after half of it."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def prepare_here(system: System, request: Request, runs_dir: str | None = None) -> Prepared:
    """Load, advise, resolve and render for the allocation that this shell is in; nothing is written.

    Raises Refused where there is no such allocation, and HpclaunchError for a file that cannot be used.
    """
    case = load(system, request, runs_dir, program_job(system, request))
    allocation = _require_allocation(system, case)
    case = replace(
        case,
        site=site_within(case.site, allocation),
        context=replace(case.context, allocation=allocation),
    )
    return prepare_case(system, advised(case))


def _require_allocation(system: System, case: Case) -> Allocation:
    """Return the allocation that this shell is in, on its first node. Raises Refused."""
    row, name = case.site.scheduler_row, case.site.name
    if not row.has_queue:
        what = f"--here runs a job inside an allocation, and {name} has no scheduler that could give one"
        raise Refused(Fault(what=what, next="leave --here out: the run starts on this machine at once"))
    try:
        allocation = scheduler_of(case.site.scheduler).allocation(system.environment)
    except SchedulerError as error:
        raise Refused(error.faults) from None
    if allocation is None:
        what = "--here runs a job inside the allocation that one is in, and this shell is in none"
        next_step = "hpclaunch shell --nodes N opens one; or leave --here out to submit a job"
        raise Refused(Fault(what=what, next=next_step))
    here, first = os.uname().nodename, next(iter(allocation.hosts), "")
    if first not in (here, here.partition(".")[0], system.environment.get(row.host_variable)):
        what = f"this machine, {here}, is not {first}, the first node of the allocation {allocation.job_id}"
        next_step = f"{row.enter_allocation}; and there the same command again"
        raise Refused(Fault(what=what, next=next_step))
    return allocation


def start_here(system: System, prepared: Prepared, show: Callable[[bytes], None]) -> tuple[Run, int]:
    """Check, create the run directory, run its script to its end; return the run as it ended, and the exit code.

    ``show`` gets what the script writes. SIGINT, SIGTERM and SIGHUP end the ranks, and never the allocation.
    """
    allocation = prepared.case.context.allocation or _require_allocation(system, prepared.case)
    check(prepared)
    refuse_untrusted(system, prepared)
    run = create_run(system, prepared)
    with _received_signals() as received:
        try:
            with runs.opened(system.index.parent, run):
                script = _start_script(system, prepared, run, allocation)
        except OSError as error:
            raise unwritable(run.path, error) from None
        run = _record_start(run, script.pid, allocation)
        what = f"{run.label} runs in the allocation {allocation.job_id} at {run.site}"
        ends = f", which ends in {format_walltime(allocation.left)}" if allocation.left else ""
        system.tell(f"{what}{ends}; run directory {run.path}")
        _follow(run, script, received, show)
        ended = _record_end(run, script.returncode, received)
    code = script.returncode if script.returncode >= 0 else 128 - script.returncode
    code = code or int(ended.state != "COMPLETED")
    return ended, 128 + received[0] if received and ended.state == "CANCELLED" else code


def _start_script(system: System, prepared: Prepared, run: Run, allocation: Allocation) -> subprocess.Popen[bytes]:
    """Start the script in a session of its own, as the scheduler would: without the variables of this shell.

    Where jobs get these, the script unsets those that could mislead the ranks. Raises OSError.
    """
    spec, row = prepared.spec, scheduler_row(run.scheduler)
    environment = scheduler_of(run.scheduler).variables_in(allocation, spec.layout, system.environment)
    command = shlex.split(spec.shell)
    if ("export", "NONE") in spec.directives:
        schedulers_own = {name: value for name, value in environment.items() if name.startswith(row.variables)}
        plain = {"PATH": "/usr/local/bin:/usr/bin:/bin", **person_variables(environment)}
        environment = {**plain, **device_variables(environment), **schedulers_own}
        command = [command[0], "-l"]  # so a job gets the variables of a login shell
    environment["HPCLAUNCH_ALLOCATION"] = allocation.job_id
    log = run.path / "logs" / row.log.format(allocation.job_id)
    with log.open("ab") as output:
        return subprocess.Popen(
            [*command, str(run.script)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=run.path,
            env=environment,
            start_new_session=True,
        )


def _record_start(run: Run, process: int, allocation: Allocation) -> Run:
    """Record the run as RUNNING. If that fails, its script has left marks from which ``status`` finds it."""
    cluster = scheduler_of(run.scheduler).cluster()
    with contextlib.suppress(OSError, NotFound):
        return runs.change(
            run,
            state="RUNNING",
            job_id=f"by-hand-{process}",
            allocation=allocation.job_id,
            nodes=allocation.nodes,
            host=os.uname().nodename,
            cluster=cluster.name,
            controller=next(iter(cluster.controllers), ""),
            submission="hpclaunch",
            submitted=runs.utc_now(),
        )
    return replace(run, state="RUNNING", job_id=f"by-hand-{process}", allocation=allocation.job_id)


@contextlib.contextmanager
def _received_signals() -> Iterator[list[int]]:
    """Collect the signals that would end this process, in the order in which they came; nohup(1) keeps SIGHUP out."""
    received: list[int] = []

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(number)

    counted = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, receive) for number in counted}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _follow(run: Run, script: subprocess.Popen[bytes], received: list[int], show: Callable[[bytes], None]) -> None:
    """Show the log until the script has ended; end it, in three steps, once a signal or a request to end has come.

    Another signal takes the next step at once.
    """
    tail, step, seen, due = Tail(run), 0, 0, 0.0
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            script.wait(_POLL_S)
        while text := tail.read():
            show(text)
        if script.returncode is not None:
            return
        if not received and is_asked_to_end(run):
            received.append(signal.SIGTERM)
        if len(received) > seen or (step and time.monotonic() >= due):
            step, seen = step + 1, len(received)
            due = time.monotonic() + (_GRACE_S if step == 1 else _GRACE_S / 2)
            _end_script(run, script, step)


def _end_script(run: Run, script: subprocess.Popen[bytes], step: int) -> None:
    """End the script: it passes SIGTERM on to the ranks, ends them at the second one, and is killed at last."""
    if step == 1:
        mark_cancelled(run, run.job_id)
    if step < 3:
        script.send_signal(signal.SIGTERM)
    else:
        send(processes_by_hand(run), signal.SIGKILL)
        script.kill()


def _record_end(run: Run, code: int, received: Sequence[int]) -> Run:
    """Record how the script ended, and return the run; ``code`` is negative if a signal ended it."""
    cancelled = bool(received) or was_cancelled(run)
    is_proven = code == 0 and is_complete(run)
    state = "FAILED"
    if is_proven:
        state = "COMPLETED"
    elif cancelled:
        state = "CANCELLED"
    exit_code = f"{code}:0" if code >= 0 else f"0:{-code}"
    reason = UNPROVEN if code == 0 and not is_proven else why_not_recorded(run)
    with contextlib.suppress(OSError, NotFound):
        return runs.change(run, state=state, exit_code=exit_code, reason=reason)
    return replace(run, state=state, exit_code=exit_code, reason=reason)
