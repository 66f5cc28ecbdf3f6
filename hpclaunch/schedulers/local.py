"""This machine, without a scheduler: submitit's local executor runs the script in a session of its own."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from hpclaunch.core.errors import Fault, SchedulerError
from hpclaunch.core.files import read_text, write_text
from hpclaunch.core.spec import JobSpec, Layout, LiveNames
from hpclaunch.core.spec_parts import Allocation
from hpclaunch.runs import JobIdentity, Jobs, Run, identity_of
from hpclaunch.runs.leases import process_space
from hpclaunch.runs.markers import is_complete, was_overdue
from hpclaunch.runs.processes import (
    beginning_of,
    command_lines,
    is_of_start,
    is_script_by_hand,
    send,
    variables_of,
)
from hpclaunch.schedulers import (
    UNPROVEN,
    ClusterIdentity,
    Estimate,
    HeldRequest,
    JobUsage,
    Objections,
    QueuedJob,
    QueuePlace,
    Search,
    Status,
)

if TYPE_CHECKING:
    from hpclaunch.config.limits import Limits
    from hpclaunch.config.site import Site
    from hpclaunch.guidelines.queue import Past
    from hpclaunch.sites.describe.check import SchedulerFindings
    from hpclaunch.sites.describe.draft import Described, Here

_BACKSTOP_MINUTES = 10
_YEAR_MINUTES = 365 * 24 * 60
_TIMED_OUT = 124
_SECONDS_TO_END = 45
_PROCESS = "process"
"""The file in a run directory: the number of the run's controller and its beginning, then what they are counted in."""
_VANISHED = "no process of it is left, and it wrote no exit code: its script was killed, or could not write"


def cluster() -> ClusterIdentity:
    """Return no cluster: a run is known by its host."""
    return ClusterIdentity()


def cluster_name() -> None:
    """Return None: there is no cluster."""
    return


def live_names(named: Mapping[str, Sequence[str]]) -> Mapping[str, LiveNames]:
    """Return nothing: this machine has no partitions and no QOS."""
    return {}


def asking(clusters: str) -> AbstractContextManager[None]:
    """Ask no other cluster: there is none."""
    return contextlib.nullcontext()


def reaches(run: Run) -> bool:
    """Return True: no run is on another cluster."""
    return True


def objections(spec: JobSpec, listed: Mapping[str, Sequence[Limits]] = MappingProxyType({})) -> Objections:
    """Return nothing: no scheduler could refuse the run."""
    return Objections()


def longest_walltime(partition: str, qos: str = "") -> None:
    """Return None: this machine has no limit."""
    return


def largest_array() -> None:
    """Return None: there are no job arrays."""
    return


def estimate(text: str) -> Estimate:
    """Return that it would start at once."""
    return Estimate(words="It would start at once: there is no scheduler.")


def submit(run: Run, text: str, walltime: int, options: Sequence[str] = ()) -> QueuedJob:
    """Start the script, which limits its own walltime; the job ID is that of its controller (submitit's process).

    The controller gets a session of its own, so that Ctrl-C or a closed terminal does not end the run.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _start_and_leave(run, walltime, reader, writer)
    os.close(writer)
    with os.fdopen(reader) as answer:
        job_id = answer.read()
    os.waitpid(child, 0)
    if not job_id.isdigit():
        raise SchedulerError(Fault(where="submitit", what=job_id or "the local executor did not start"))
    _await_command_line(job_id)
    with contextlib.suppress(OSError):
        write_text(run.path / _PROCESS, f"{job_id} {beginning_of(job_id)}\n{process_space()}\n")
    return QueuedJob(job_id=job_id)


def held(run: Run) -> HeldRequest:
    """Return nothing: no scheduler holds the run."""
    return HeldRequest()


def _await_command_line(process: str) -> None:
    """Wait, for at most one second, until the process table shows the controller's command line.

    For a moment after its start a process has none, and the run's state would be UNKNOWN. An ended process has none
    either.
    """
    for _ in range(100):
        try:
            if Path(f"/proc/{process}/cmdline").read_bytes():
                return
        except OSError:
            return
        time.sleep(0.01)


def _start_and_leave(run: Run, walltime: int, reader: int, writer: int) -> None:
    """Start the run in the forked child, which ends in this function, whatever happens."""
    answer = "the local executor did not start"
    try:
        os.close(reader)
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        answer = _start(run, walltime)
    except BaseException as error:
        answer = f"the local executor did not start: {error}"
    finally:
        os.write(writer, answer.encode())
        os._exit(0)


def _start(run: Run, walltime: int) -> str:
    from submitit.local.local import LocalExecutor, LocalJob

    os.chdir(run.path)  # submitit starts `python -m`, which would take modules of the same names from the project
    executor = LocalExecutor(folder=run.path / "logs")
    minutes = walltime / 60 + _BACKSTOP_MINUTES if walltime else _YEAR_MINUTES
    executor.update_parameters(timeout_min=minutes, tasks_per_node=1, stderr_to_stdout=True)
    words = [*_shells_gpus(os.environ), "bash", str(run.script)]
    job: LocalJob[None] = executor._submit_command(shlex.join(words))
    return str(job.job_id)


def _shells_gpus(environment: Mapping[str, str]) -> list[str]:
    """Return what gives the script the GPUs of this shell: submitit empties the variable, which hides all GPUs."""
    name = "CUDA_VISIBLE_DEVICES"
    return ["env", f"{name}={environment[name]}"] if name in environment else ["env", "-u", name]


def search(runs: Sequence[Run]) -> Search:
    """Return the processes that wrote markers into these run directories; no others are known."""
    jobs = {run.path: tuple(dict.fromkeys(name.rpartition(".")[0] for name in run.attempts())) for run in runs}
    return Search(jobs=jobs, answered=True, certain=False)


def states(jobs: Jobs) -> dict[JobIdentity, Status]:
    """Return job -> status, from the script's markers and the process table."""
    return {job: _status(run) for job, run in jobs.items()}


def _status(run: Run) -> Status:
    code = run.last_exit_code(run.job_id)
    if code is None:
        if run.host != os.uname().nodename:
            return Status(state="UNKNOWN", reason=f"it runs on {run.host}")
        if _is_alive(run):
            return Status(state="RUNNING")
        code = run.last_exit_code(run.job_id)  # it may have ended between the two looks
    if code is None:
        return _status_without_code(run)
    ended = "COMPLETED" if code == 0 else "FAILED"
    if run.state == "CANCELLED":
        ended = run.state
    elif code == _TIMED_OUT and was_overdue(run):  # a program may end with this code of its own
        ended = "TIMEOUT"
    elif code == 0 and not is_complete(run):
        return Status(state="FAILED", exit_code=f"{code}:0", reason=UNPROVEN)
    return Status(state=ended, exit_code=f"{code}:0")


def _status_without_code(run: Run) -> Status:
    """Return the status of a run of this machine that has no process and no exit code.

    It has failed if its processes would be seen here: those of a container have other numbers, or none.
    """
    if run.final:
        return Status(state=run.state)
    if is_complete(run):
        return Status(state="COMPLETED", exit_code="0:0")
    lines = read_text(run.path / _PROCESS).splitlines()
    if lines[1:] == [process_space()] and lines[0].startswith(f"{run.job_id} "):
        return Status(state="FAILED", reason=_VANISHED)
    return Status(state="UNKNOWN", reason="no process of it is seen from here, and it wrote no exit code")


def _is_alive(run: Run) -> bool:
    """Whether the run's controller, or a process that it started, still runs."""
    return bool(_members(run))


def _members(run: Run) -> list[int]:
    """Return the processes of the run: its controller, its script, and all that the script started.

    A process number comes again, so none is enough: the controller must have begun when the run's did, and the others
    have the path of this run directory in their command line or environment.
    """
    found = []
    for process, command in command_lines():
        is_member = process == run.job_id and _is_controller(run, command)
        is_member = is_member or is_script_by_hand(run, process, command)
        if is_member or _is_of_script(run, command, variables_of(process)):
            found.append(int(process))
    return found


def _is_controller(run: Run, command: Sequence[bytes]) -> bool:
    """Whether the process with the run's number is still its controller; an older run does not know its beginning."""
    number, _, began = read_text(run.path / _PROCESS).partition("\n")[0].partition(" ")
    if number == run.job_id and began and began != beginning_of(number):
        return False
    return os.fsencode(run.path / "logs") in command


def _is_of_script(run: Run, command: Sequence[bytes], environment: Sequence[bytes]) -> bool:
    """Whether a process is the script of this start, which submitit began, or has the variables of its ranks."""
    if is_of_start(run, environment):
        return True
    script = os.fsencode(run.script)
    of_job = f"SUBMITIT_LOCAL_JOB_ID={run.job_id}".encode()
    return of_job in environment and any(script in word for word in command)


def queue_places(jobs: Jobs, partitions: Sequence[str]) -> dict[JobIdentity, QueuePlace]:
    """Return nothing: without a queue no run waits."""
    return {}


def usage(jobs: Jobs) -> dict[JobIdentity, JobUsage]:
    """Return nothing: this machine keeps no accounts."""
    return {}


def cancel(runs: Sequence[Run]) -> list[JobIdentity]:
    """End the runs, wait for them, and kill those that do not end. Return the jobs of those that were running.

    Raises SchedulerError for a run on another machine.
    """
    for run in runs:
        if run.host != os.uname().nodename:
            what, where = f"{run.label} runs on {run.host}", os.uname().nodename
            raise SchedulerError(Fault(what=what, next=f"cancel it there, not on {where}"))
    asked = {run.path: _members(run) for run in runs}
    for run in runs:
        send([process for process in asked[run.path] if str(process) == run.job_id] or asked[run.path], signal.SIGTERM)
    deadline = time.monotonic() + _SECONDS_TO_END
    while any(map(_is_alive, runs)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for run in runs:
        send(_members(run), signal.SIGKILL)
    return [identity_of(run) for run in runs if asked[run.path]]


def job_states(numbers: Sequence[str]) -> dict[str, str]:
    """Return nothing: without a queue there are no jobs."""
    return {}


def cancel_command(run: Run) -> str:
    """Return the command that cancels a run."""
    return f"hpclaunch cancel {run.label}"


def explain(reason: str) -> str:
    """Return nothing: without a queue no run waits."""
    return ""


def unwell(nodes: str, since: float | None = None) -> dict[str, str]:
    """Return nothing: the only machine works, since it answers."""
    return {}


def overriding(environment: Mapping[str, str]) -> list[str]:
    """Return nothing: the script itself unsets variables that would mislead it."""
    return []


def allocation(environment: Mapping[str, str]) -> None:
    """Return None: without a queue there are no allocations."""
    return


def variables_in(allocation: Allocation, layout: Layout, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables unchanged: without a queue there are no allocations."""
    return dict(environment)


def shell_command(spec: JobSpec, shell: Sequence[str]) -> tuple[str, ...]:
    """Return nothing: a shell of this machine needs no allocation."""
    return ()


def past_jobs(days: int) -> list[Past]:
    """Return nothing: without a queue no run waits."""
    return []


def gpu_types() -> list[str]:
    """Return nothing: no scheduler assigns GPUs."""
    return []


def mpi_types() -> list[str]:
    """Return nothing: there are no steps."""
    return []


def describe(here: Here) -> Described:
    """Raise SchedulerError: there is no cluster."""
    raise SchedulerError(Fault(what="this machine has no scheduler that could describe a cluster"))


def compare(site: Site) -> None:
    """Return None: there is no cluster."""
    return


def check(site: Site) -> SchedulerFindings:
    """Raise SchedulerError: there is no cluster."""
    raise SchedulerError(Fault(what="this machine has no scheduler that a site file could be checked against"))
