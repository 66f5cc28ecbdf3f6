"""The functions of ``schedulers.Scheduler`` for Slurm, each through Slurm's own programs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from hpclaunch.core.errors import Fault, SchedulerError
from hpclaunch.core.spec import JobSpec
from hpclaunch.runs import JobIdentity, Jobs, Run, current_jobs
from hpclaunch.schedulers import Estimate, JobUsage, Objections, QueuePlace, Status
from hpclaunch.schedulers.slurm.addresses import address_of, jobs_by_address
from hpclaunch.schedulers.slurm.arrays import largest_array as largest_array_at_one
from hpclaunch.schedulers.slurm.arrays import objections as array_objections
from hpclaunch.schedulers.slurm.components import objections as component_objections
from hpclaunch.schedulers.slurm.configuration import cluster, cluster_name
from hpclaunch.schedulers.slurm.held import held
from hpclaunch.schedulers.slurm.programs import ask, asked_cluster, asking, down_controllers, leaking
from hpclaunch.schedulers.slurm.submit import search, submit

if TYPE_CHECKING:
    from hpclaunch.config.limits import Limits
    from hpclaunch.config.site import Site
    from hpclaunch.core.spec import Layout, LiveNames
    from hpclaunch.core.spec_parts import Allocation
    from hpclaunch.guidelines.queue import Past
    from hpclaunch.sites.describe.check import SchedulerFindings
    from hpclaunch.sites.describe.comparison import Comparison
    from hpclaunch.sites.describe.draft import Described, Here

__all__ = [
    "allocation",
    "asking",
    "cancel",
    "cancel_command",
    "check",
    "cluster",
    "cluster_name",
    "compare",
    "describe",
    "estimate",
    "explain",
    "gpu_types",
    "held",
    "job_states",
    "largest_array",
    "live_names",
    "longest_walltime",
    "mpi_types",
    "objections",
    "overriding",
    "past_jobs",
    "queue_places",
    "reaches",
    "search",
    "shell_command",
    "states",
    "submit",
    "unwell",
    "usage",
    "variables_in",
]


def explain(reason: str) -> str:
    """Return Slurm's reason for waiting in words, and what to do; empty for an unknown reason."""
    from hpclaunch.schedulers.slurm import reasons  # 2 ms, which a submission does not need

    return reasons.explain(reason)


def allocation(environment: Mapping[str, str]) -> Allocation | None:
    """Return the allocation in which this process runs; None outside one."""
    from hpclaunch.schedulers.slurm import allocation as interactive  # most submissions do without it

    return interactive.allocation(environment)


def variables_in(allocation: Allocation, layout: Layout, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which a script finds its place in the allocation."""
    from hpclaunch.schedulers.slurm import allocation as interactive

    return interactive.variables_in(allocation, layout, environment)


def shell_command(spec: JobSpec, shell: Sequence[str]) -> tuple[str, ...]:
    """Return the command that opens an allocation with this shell in it."""
    from hpclaunch.schedulers.slurm import allocation as interactive

    return interactive.shell_command(spec, shell)


def objections(spec: JobSpec, listed: Mapping[str, Sequence[Limits]] = MappingProxyType({})) -> Objections:
    """Return why Slurm would refuse this job, never start it, or let it wait; nothing if Slurm does not answer.

    Nor is anything known while Slurm may choose the cluster.
    """
    if _is_open():
        return Objections()
    from hpclaunch.schedulers.slurm.limits import objections as limit_objections

    found = limit_objections(spec, listed)
    return replace(found, faults=(*found.faults, *array_objections(spec), *component_objections(spec)))


def longest_walltime(partition: str, qos: str = "") -> int | None:
    """Return the longest walltime (seconds) that the partition accepts now; None without a limit or an answer.

    Nor is it known while Slurm may choose the cluster.
    """
    if _is_open():
        return None
    from hpclaunch.schedulers.slurm.limits import longest_walltime as of_partition

    return of_partition(partition, qos)


def live_names(named: Mapping[str, Sequence[str]]) -> Mapping[str, LiveNames]:
    """Return the names of all partitions, of all QOS or of both; nothing of what Slurm does not answer.

    Of the ``named`` partitions the nodes are returned, too.

    Nor are they known while Slurm may choose the cluster.
    """
    if _is_open():
        return {}
    from hpclaunch.schedulers.slurm.limits import live_names as names_of

    return names_of(named)


def largest_array() -> int | None:
    """Return how many tasks, numbered from 0, one array may have; None without an answer, or for several clusters."""
    return None if _is_open() else largest_array_at_one()


def _is_open() -> bool:
    """Whether several clusters are asked, each of which has limits of its own."""
    return "," in asked_cluster()


def reaches(run: Run) -> bool:
    """Whether Slurm's programs on this machine reach the run's cluster, or it is not known."""
    return address_of(run.place) is not None


def estimate(text: str) -> Estimate:
    """Return the answer of ``sbatch --test-only``, which queues nothing. Raises SchedulerError if sbatch refuses.

    SLURM_TIME_FORMAT is removed, so that times have the format that ``start_in`` reads.
    """
    from hpclaunch.schedulers.slurm.history import start_in

    unseen = (*leaking(os.environ), "SLURM_TIME_FORMAT")
    answer = ask(["sbatch", "--test-only"], without=unseen, text=text)
    words = " ".join((answer.messages + answer.text).replace("sbatch: error:", "").replace("sbatch:", "").split())
    if not answer.ok:
        raise SchedulerError(Fault(where="sbatch --test-only", what=words or "refused without a message"))
    return Estimate(words=words, start=start_in(words))


def states(jobs: Jobs) -> dict[JobIdentity, Status]:
    """Return job -> status."""
    from hpclaunch.schedulers.slurm.states import states as of_jobs  # a submission does without

    inside = {job: run for job, run in jobs.single.items() if run.allocation}  # no array begins in one
    queued = of_jobs(jobs, leave_out=inside)
    if not inside:
        return queued
    from hpclaunch.schedulers.slurm.here import states as in_allocations

    found: dict[JobIdentity, Status] = {}
    for address, there in jobs_by_address(Jobs(inside.values())):
        with asking(address):
            found |= in_allocations([*there.single.values()])
    return {**found, **queued}


def queue_places(jobs: Jobs, partitions: Sequence[str]) -> dict[JobIdentity, QueuePlace]:
    """Return job -> its place among the jobs that wait, with the start that Slurm expects."""
    from hpclaunch.schedulers.slurm.queue_places import queue_places as places

    return places(jobs, partitions)


def usage(jobs: Jobs) -> dict[JobIdentity, JobUsage]:
    """Return what jobs used, as accounting has it. A run in an allocation has no account of its own."""
    from hpclaunch.schedulers.slurm.usage import usage as accounted

    return accounted(jobs)


def cancel(runs: Sequence[Run]) -> list[JobIdentity]:
    """Cancel the runs' own jobs with one call of scancel a cluster, and return them.

    A job is cancelled only if squeue confirms that it is the run's. Of a run that began in an allocation the processes
    are ended, and not the allocation. Raises SchedulerError in Slurm's words.
    """
    inside = [run for run in runs if run.allocation]
    queued = _cancel_queued([run for run in runs if not run.allocation])
    if not inside:
        return queued
    from hpclaunch.schedulers.slurm.here import cancel as in_allocations

    return [*queued, *in_allocations(inside)]


def _cancel_queued(runs: Sequence[Run]) -> list[JobIdentity]:
    from hpclaunch.schedulers.slurm.states import own_jobs

    ended: list[JobIdentity] = []
    for address, there in jobs_by_address(Jobs(runs)):
        for one in address.split(","):  # the same number on each of several may be a job of its own
            with asking(one):
                jobs = own_jobs(there)
                answer = ask(["scancel", *(job.job_id for job in jobs)]) if jobs else None
            if answer and not answer.ok:
                denied = "denied" in answer.words.lower()
                next_step = "only its owner can cancel it" if denied else "try again; until then the run continues"
                raise SchedulerError(Fault(where="scancel", what=answer.words, next=next_step))
            ended += jobs
    return ended


def job_states(numbers: Sequence[str]) -> dict[str, str]:
    """Return job -> its state, of jobs that need not be runs; an empty text for one that Slurm does not know."""
    from hpclaunch.schedulers.slurm.other_jobs import job_states as of_jobs

    return of_jobs(numbers)


def cancel_command(run: Run) -> str:
    """Return the command that cancels a run."""
    if run.allocation:
        return f"hpclaunch cancel {run.label}"
    jobs = current_jobs(run) if run.tasks else [run.job_id]
    address = address_of(run.place)
    words = ["scancel", *([f"--clusters={address}"] if address else []), *jobs]
    return f"hpclaunch cancel {run.label} (or: {' '.join(words)})"


def unwell(nodes: str, since: float | None = None) -> dict[str, str]:
    """Return those of the nodes that Slurm reports as broken, and those that it has started again ``since`` then.

    The reason of a node whose name gets a new machine is empty.
    """
    from hpclaunch.schedulers.slurm.node_states import troubles

    if not nodes:
        return {}
    # A time zone or format of the user's choice would hide when a node came back.
    answer = ask(["scontrol", "--oneliner", "show", "node", nodes], without=["SLURM_TIME_FORMAT"])
    return troubles(answer.text, since) if answer.ok else {}


def overriding(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that sbatch would take for options; inside a job also those of that job."""
    inside = bool(environment.get("SLURM_JOB_ID"))
    return [name for name in leaking(environment) if inside or name.startswith("SBATCH_")]


def past_jobs(days: int) -> list[Past]:
    """Return the jobs in accounting that started within the last ``days`` days."""
    from hpclaunch.schedulers.slurm.history import past_jobs as recorded

    return recorded(days)


def gpu_types() -> list[str]:
    """Return the types of GPUs on Slurm's nodes; none if sinfo does not answer."""
    from hpclaunch.sites.describe.answers import gpus_of

    answer = ask(["sinfo", "--noheader", "--all", "--format=%G"])
    return sorted({gpu_type for line in answer.text.split("\n") for gpu_type, _ in gpus_of(line)})


def mpi_types() -> list[str]:
    """Return the types that ``srun --mpi=list`` shows; none if srun does not answer."""
    from hpclaunch.sites.describe.answers import mpi_types as types_in

    answer = ask(["srun", "--mpi=list"])
    return types_in(f"{answer.text}\n{answer.messages}") if answer.ok else []


def describe(here: Here) -> Described:
    """Return the cluster as Slurm's programs and this machine describe it. Raises SchedulerError."""
    from hpclaunch.schedulers.slurm.describe import answers, step_runtimes
    from hpclaunch.sites.describe.site_file import describe as description_of

    found = answers(here.user)  # first: if Slurm does not answer, nothing else is asked
    runtimes = (*here.runtimes, *step_runtimes())
    described = description_of(found, replace(here, runtimes=runtimes))
    if described is None:
        what = "Slurm shows you no node in any partition, so there is nothing to describe"
        raise SchedulerError(Fault(where="scontrol show node, sinfo", what=what, next="ask the site's staff"))
    return described


def compare(site: Site) -> Comparison | None:
    """Return where a site file differs from Slurm's partitions and nodes; None if Slurm does not answer."""
    from hpclaunch.schedulers.slurm.describe import nodes_and_partitions
    from hpclaunch.sites.describe.comparison import compare as compare_with

    return None if _is_open() or down_controllers() else compare_with(site, nodes_and_partitions())


def check(site: Site) -> SchedulerFindings:
    """Return every value of a site file beside Slurm's answers. Raises SchedulerError if Slurm does not answer."""
    from hpclaunch.schedulers.slurm.describe import answers_to_check
    from hpclaunch.sites.describe.check import check as check_with

    down = down_controllers()
    if down:
        what = f"Slurm's controller is down ({down})"
        raise SchedulerError(Fault(where="scontrol ping", what=what, next="wait for slurmctld"))
    return check_with(site, answers_to_check())
