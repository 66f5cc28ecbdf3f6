"""PBS as hpclaunch asks it: the functions of ``schedulers.Scheduler``."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING

from hpclaunch.core.errors import Fault, SchedulerError
from hpclaunch.core.spec import JobSpec, Layout, LiveNames
from hpclaunch.core.spec_parts import Allocation
from hpclaunch.runs import JobIdentity, Jobs, Run, identity_of
from hpclaunch.schedulers import (
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

_STATES = {"Q": "PENDING", "H": "PENDING", "W": "PENDING", "R": "RUNNING", "E": "COMPLETING"}
_DELETED = "271"
"""The exit status of a job that qdel ended: 256 and the signal."""


def cluster() -> ClusterIdentity:
    """Return no cluster: qstat is not asked for its server."""
    return ClusterIdentity()


def cluster_name() -> None:
    """Return None: qstat is not asked for its server."""
    return


def live_names(named: Mapping[str, Sequence[str]]) -> Mapping[str, LiveNames]:
    """Return nothing: the queues of PBS are not asked for."""
    return {}


def asking(clusters: str) -> AbstractContextManager[None]:
    """Ask no other cluster: there is none."""
    return contextlib.nullcontext()


def reaches(run: Run) -> bool:
    """Return True: no run is on another cluster."""
    return True


def objections(spec: JobSpec, listed: Mapping[str, Sequence[Limits]] = MappingProxyType({})) -> Objections:
    """Return nothing: qsub itself refuses."""
    return Objections()


def longest_walltime(partition: str, qos: str = "") -> None:
    """Return None: PBS itself refuses a longer job."""
    return


def largest_array() -> None:
    """Return None: hpclaunch has no job arrays of PBS here."""
    return


def estimate(text: str) -> Estimate:
    """Return that nobody knows."""
    return Estimate(words="PBS does not tell when a job would start.")


def submit(run: Run, text: str, walltime: int, options: Sequence[str] = ()) -> QueuedJob:
    """Hand the script to qsub; the job ID is the job's number, without the server's name."""
    done = _ask("qsub", *options, str(run.script))
    job_id = done.stdout.partition(".")[0]
    if not job_id.isdigit():
        raise SchedulerError(Fault(where="qsub", what=done.stderr.strip() or "gave no job id"))
    return QueuedJob(job_id=job_id)


def held(run: Run) -> HeldRequest:
    """Return nothing: qstat is not asked."""
    return HeldRequest()


def _ask(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False)


def search(runs: Sequence[Run]) -> Search:
    """Return the jobs that left a mark in these run directories."""
    jobs = {run.path: tuple(dict.fromkeys(name.rpartition(".")[0] for name in run.attempts())) for run in runs}
    return Search(jobs=jobs, answered=True, certain=False)


def states(jobs: Jobs) -> dict[JobIdentity, Status]:
    """Return job -> status, with one call of qstat; ``-x`` shows jobs that have ended, too."""
    answer = _ask("qstat", "-x", "-f", *(job.job_id for job in jobs)).stdout
    found = {}
    for text in answer.split("Job Id: ")[1:]:
        values = dict(re.findall(r"^\s+(\w+) = (.*)$", text, re.MULTILINE))
        folder = values["Output_Path"].partition(":")[2].rpartition("/logs/")[0]
        submitted = int(time.mktime(time.strptime(values["qtime"])))
        for job in jobs.numbered(text.partition(".")[0]):
            if job.is_job(folder, submitted):
                found[job] = _status(values["job_state"], values.get("Exit_status", ""))
    return found


def _status(letter: str, code: str) -> Status:
    if letter != "F":
        return Status(state=_STATES.get(letter, "UNKNOWN"))
    state = {"0": "COMPLETED", _DELETED: "CANCELLED"}.get(code, "FAILED")
    return Status(state=state, exit_code=f"{code}:0")


def queue_places(jobs: Jobs, partitions: Sequence[str]) -> dict[JobIdentity, QueuePlace]:
    """Return nothing: qstat is not asked for places."""
    return {}


def usage(jobs: Jobs) -> dict[JobIdentity, JobUsage]:
    """Return nothing: PBS keeps its accounts in files of the server."""
    return {}


def cancel(runs: Sequence[Run]) -> list[JobIdentity]:
    """Delete the jobs with one call."""
    done = _ask("qdel", *(run.job_id for run in runs))
    if done.returncode:
        raise SchedulerError(Fault(where="qdel", what=done.stderr.strip()))
    return list(map(identity_of, runs))


def cancel_command(run: Run) -> str:
    """Return what a person would type."""
    return f"hpclaunch cancel {run.label} (or: qdel {run.job_id})"


def job_states(numbers: Sequence[str]) -> dict[str, str]:
    """Return nothing: qstat is not asked about other jobs."""
    return {}


def explain(reason: str) -> str:
    """Return nothing."""
    return ""


def unwell(nodes: str, since: float | None = None) -> dict[str, str]:
    """Return nothing: pbsnodes is not asked."""
    return {}


def overriding(environment: Mapping[str, str]) -> list[str]:
    """Return nothing: qsub takes no options from variables that would override a script's."""
    return []


def allocation(environment: Mapping[str, str]) -> None:
    """Return None: hpclaunch starts nothing inside a job of PBS here."""
    return


def variables_in(allocation: Allocation, layout: Layout, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables unchanged."""
    return dict(environment)


def shell_command(spec: JobSpec, shell: Sequence[str]) -> tuple[str, ...]:
    """Return nothing: hpclaunch opens no shell with PBS here."""
    return ()


def past_jobs(days: int) -> list[Past]:
    """Return nothing: no history is kept."""
    return []


def gpu_types() -> list[str]:
    """Return nothing."""
    return []


def mpi_types() -> list[str]:
    """Return nothing: there are no steps."""
    return []


def describe(here: Here) -> Described:
    """Raise SchedulerError: its answers are not read."""
    raise SchedulerError(Fault(what="a PBS cluster is not described by itself", next="write its site file"))


def compare(site: Site) -> None:
    """Return None: qstat is not asked for its nodes."""
    return


def check(site: Site) -> SchedulerFindings:
    """Raise SchedulerError: its answers are not read."""
    raise SchedulerError(Fault(what="a site file is not checked against PBS"))
