"""The protocol that every scheduler follows, and the function that finds a scheduler by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import scheduler_row

if TYPE_CHECKING:
    from hpclaunch.config.limits import Limits
    from hpclaunch.config.site import Site
    from hpclaunch.core.spec import JobSpec, Layout, LiveNames
    from hpclaunch.core.spec_parts import Allocation
    from hpclaunch.guidelines.queue import Past
    from hpclaunch.runs import JobIdentity, Jobs, Run
    from hpclaunch.sites.describe.check import SchedulerFindings
    from hpclaunch.sites.describe.comparison import Comparison
    from hpclaunch.sites.describe.draft import Described, Here


@record
class Status:
    """The present status of a run. ``reason`` is why it waits; UNKNOWN means that no source knows its state.

    ``nodes`` are those of its last start, as the scheduler lists them.
    """

    state: str
    exit_code: str = ""
    reason: str = ""
    nodes: str = ""


UNOPENED_LOG = "its log could not be opened: the folder logs/ of its run directory was gone or not writable"
"""The reason of a job that ended because the scheduler could not open its log; its script has not run."""
UNPROVEN = "it ended with 0, but left no proof that every rank did: its last start has no mark completed in attempts/"
"""The reason of a run that is not COMPLETED although its script, or what ran in its place, ended with 0."""
SCRIPT_ALONE = "the batch script ended with 0; it started its ranks itself, so nothing is known about them"
"""The reason of a completed run that was submitted as it was."""
NEVER_BEGUN = Status(state="CANCELLED", exit_code="0:0", reason="cancelled before it began")
"""The status of a single task of an array that was cancelled while it waited; Slurm forgets such a task."""


@record
class JobUsage:
    """What a job used, as the scheduler's accounting has it; None: not known.

    ``seconds`` on ``cpus`` (in all), with ``core_seconds`` of work. ``memory``, ``memory_asked``: bytes per node.
    ``joules``: the energy of its nodes.
    """

    seconds: int
    cpus: int
    core_seconds: float | None = None
    memory: int | None = None
    memory_asked: int | None = None
    joules: int | None = None


@record
class Search:
    """The jobs of each run directory, oldest first, and the ``clusters`` of those that are elsewhere, by name.

    ``answered``: whether the scheduler answered. ``certain``: whether its accounting of ended jobs did too, so that a
    run which is not in ``jobs`` was never queued. ``words``: why the scheduler did not answer.
    """

    jobs: Mapping[Path, tuple[str, ...]]
    answered: bool
    certain: bool
    words: str = ""
    clusters: Mapping[tuple[Path, str], str] = field(default_factory=dict)


@record
class ClusterIdentity:
    """The cluster that a scheduler's programs ask: its name and the hosts of its controllers, the primary one first.

    The name is empty if there is no cluster, or if it is not known; so are the controllers.
    """

    name: str = ""
    controllers: tuple[str, ...] = ()


@record
class QueuedJob:
    """A job that was queued: its ID, and what the scheduler's program ``printed`` beside it, such as a banner.

    ``cluster``: where it was queued, if the program named one.
    """

    job_id: str
    cluster: str = ""
    printed: str = ""


@record
class HeldRequest:
    """What a scheduler holds of a queued job: its partition, qos, account, walltime and nodes in ``values``, if known.

    ``differs``: in words, which of them are not those that were asked for.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    differs: str = ""


@record
class Estimate:
    """A scheduler's answer about a script that is not queued: its ``words``, and the estimated ``start``.

    ``start`` is in local time; None if the words contain none.
    """

    words: str
    start: datetime | None = None


@record
class QueuePlace:
    """The place of a waiting job: how many with a higher priority wait ``before`` it in its partition, if known.

    ``start``: when the scheduler expects it to start, in local time; None if it has no estimate.
    """

    before: int | None = None
    start: datetime | None = None


@record
class Objections:
    """Why a scheduler would refuse a run or never start it (``faults``), else for what it would wait (``delays``).

    ``anywhere``: those of the faults that hold in any partition, as of an account that the user does not have.
    A delay is a sentence: other jobs of the user, or of those who share a limit, decide when it is over.
    """

    faults: tuple[Fault, ...] = ()
    anywhere: tuple[Fault, ...] = ()
    delays: tuple[str, ...] = ()


class Scheduler(Protocol):
    """The functions of a scheduler. ``states`` and ``search`` answer for many runs with one call to each program.

    With several clusters it is one call for each of them.

    What is asked about a job, and what is answered, has its identity: job IDs are given again.
    """

    def cluster(self) -> ClusterIdentity:
        """Return the cluster that its programs ask, on which the job IDs of this machine are valid."""

    def cluster_name(self) -> str | None:
        """Return the name of the cluster that answers here, asked for with one call; empty if there is no answer.

        Returns None if its clusters have no names.
        """

    def asking(self, clusters: str) -> AbstractContextManager[None]:
        """Let what is asked meanwhile go to these clusters, that of this machine if the text is empty.

        What is asked about runs goes to theirs by itself.
        """

    def reaches(self, run: Run) -> bool:
        """Whether its programs on this machine reach the cluster where the run's job is, or it is not known."""

    def objections(self, spec: JobSpec, listed: Mapping[str, Sequence[Limits]] = ...) -> Objections:
        """Return the known reasons why it would refuse the run, never start it, or let it wait for other jobs.

        ``listed``: partition -> its limits in the site file, which hold for what is proposed.
        """

    def longest_walltime(self, partition: str, qos: str = "") -> int | None:
        """Return the longest walltime (seconds) of a job that it accepts now in a partition; None: no known limit.

        An empty ``partition`` is the one that applies by default.
        """

    def live_names(self, named: Mapping[str, Sequence[str]]) -> Mapping[str, LiveNames]:
        """Return ``partition`` and ``qos``, as far as asked for -> the names of all; nothing without an answer.

        ``named``: the same -> those that a person named, and the site file lacks: of partitions also the nodes.
        """

    def largest_array(self) -> int | None:
        """Return how many tasks, numbered from 0, one job array may have; None if that is not known."""

    def estimate(self, text: str) -> Estimate:
        """Return the estimated start of a script; queues nothing. Raises SchedulerError."""

    def submit(self, run: Run, text: str, walltime: int, options: Sequence[str] = ()) -> QueuedJob:
        """Queue a script (``walltime`` in seconds) with further ``options``.

        Raises Unanswered if it is unknown whether the run was queued, another SchedulerError if it was not.
        """

    def held(self, run: Run) -> HeldRequest:
        """Return what it holds of the run's job, asked for once with one call; nothing without an answer."""

    def search(self, runs: Sequence[Run]) -> Search:
        """Return the jobs of these runs, found by their run directories."""

    def states(self, jobs: Jobs) -> dict[JobIdentity, Status]:
        """Return job -> status; nothing of a job that belongs to another cluster."""

    def queue_places(self, jobs: Jobs, partitions: Sequence[str]) -> dict[JobIdentity, QueuePlace]:
        """Return job -> its place, of those of the jobs that wait; one call.

        ``partitions``: those of the jobs, to shorten the answer; none, or an empty name, if they are not known. The
        tasks of an array that wait have the place of their array.
        """

    def usage(self, jobs: Jobs) -> dict[JobIdentity, JobUsage]:
        """Return job -> what it used, with one call for all of them; nothing of a job that is not accounted for."""

    def cancel(self, runs: Sequence[Run]) -> list[JobIdentity]:
        """Cancel the jobs that are the runs' own, and return those there were. Raises SchedulerError."""

    def job_states(self, numbers: Sequence[str]) -> dict[str, str]:
        """Return job -> its state, of jobs that need not be runs; empty: there is no such job (any more).

        Nothing is returned if it does not answer.
        """

    def cancel_command(self, run: Run) -> str:
        """Return the command that cancels a run."""

    def explain(self, reason: str) -> str:
        """Return a reason for waiting in words, and what to do; an empty text for an unknown reason."""

    def unwell(self, nodes: str, since: float | None = None) -> dict[str, str]:
        """Return those of the nodes that it reports as broken, or that it started again ``since`` then -> why.

        An empty text: the name gets a new machine, so that a failure of the last one is not held against it.
        ``since`` is in seconds of the epoch.
        """

    def overriding(self, environment: Mapping[str, str]) -> list[str]:
        """Return the variables of a shell that would override the options of a script that is submitted from it."""

    def allocation(self, environment: Mapping[str, str]) -> Allocation | None:
        """Return the allocation of this user that the variables of a shell name; None if they name none.

        Raises SchedulerError if it does not run, is another user's, or if the scheduler does not answer.
        """

    def variables_in(self, allocation: Allocation, layout: Layout, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a shell in an allocation as a job of this layout in its place would have them."""

    def shell_command(self, spec: JobSpec, shell: Sequence[str]) -> tuple[str, ...]:
        """Return the command that waits for the run's nodes and starts ``shell`` on the first; none without a queue."""

    def past_jobs(self, days: int) -> list[Past]:
        """Return the jobs that started within the last ``days`` days; none if it keeps no history."""

    def gpu_types(self) -> list[str]:
        """Return the types of its GPUs (an empty text: GPUs without a type); none if they are unknown."""

    def mpi_types(self) -> list[str]:
        """Return the types of MPI that its steps support."""

    def describe(self, here: Here) -> Described:
        """Return a description of this machine's cluster. Raises SchedulerError if it has none."""

    def compare(self, site: Site) -> Comparison | None:
        """Return where a site file differs from this machine's cluster; None if the scheduler does not show it."""

    def check(self, site: Site) -> SchedulerFindings:
        """Return every value of a site file beside what the scheduler answers now. Raises SchedulerError."""


def scheduler_of(name: str) -> Scheduler:
    """Return a scheduler by its name; its module is imported only now. Raises NotFound."""
    return cast(Scheduler, import_module(f"{__name__}.{scheduler_row(name).module}"))
