"""What every scheduler can do, and the module that does it for a name; nothing here knows a particular scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import JobSpec
from hpclaunch.runs import Run

if TYPE_CHECKING:
    from hpclaunch.guidelines.queue import Past
    from hpclaunch.sites.describe import Described, Here


@record
class Status:
    """What is known of a run now. ``reason`` is why it waits; UNKNOWN means that nobody could say, never "failed".

    ``nodes`` are those of its last start, as the scheduler lists them.
    """

    state: str
    exit_code: str = ""
    reason: str = ""
    nodes: str = ""


NEVER_BEGUN = Status(state="CANCELLED", exit_code="0:0", reason="cancelled before it began")
"""What a task of an array is that was cancelled alone while it waited: Slurm forgets it."""


@record
class Search:
    """Which jobs carry which run directory, oldest first.

    ``answered``: the scheduler was there to be asked. ``certain``: so was its memory of jobs that have ended, so that a
    run which is not in ``jobs`` was never queued. ``words`` say why not.
    """

    jobs: Mapping[Path, tuple[str, ...]]
    answered: bool
    certain: bool
    words: str = ""


@record
class Estimate:
    """What a scheduler says of a script that it was shown: in its own ``words``, and when the script would ``start``.

    ``start`` is in local time; None where the words do not tell.
    """

    words: str
    start: datetime | None = None


class Scheduler(Protocol):
    """The seam. ``states`` and ``search`` answer for many runs with one call to each of the scheduler's programs."""

    def objections(self, spec: JobSpec) -> list[Fault]:
        """Return why it would refuse the run or let it wait for ever, as far as it can tell."""

    def estimate(self, text: str) -> Estimate:
        """Return when a script would start; queues nothing. Raises SchedulerError."""

    def submit(self, run: Run, text: str, walltime: int, options: Sequence[str] = ()) -> str:
        """Queue a script and return its job id.

        Raises Unanswered if it is unknown whether the run was queued, another SchedulerError if it was not.
        """

    def search(self, runs: Sequence[Run]) -> Search:
        """Return the jobs that carry these runs' directories."""

    def states(self, runs: Sequence[Run]) -> dict[str, Status]:
        """Return job id -> status."""

    def cancel(self, runs: Sequence[Run]) -> bool:
        """End the runs and return whether there was anything to end. Raises SchedulerError."""

    def cancel_command(self, run: Run) -> str:
        """Return what a person would type to end a run."""

    def explain(self, reason: str) -> str:
        """Put a reason for waiting into words, with what to do; nothing for one that is not known."""

    def unwell(self, nodes: str) -> tuple[str, ...]:
        """Return which nodes of a list it calls broken."""

    def overriding(self, environment: Mapping[str, str]) -> list[str]:
        """Return the variables of a shell that would override a script that a person starts from it."""

    def past_jobs(self, days: int) -> list[Past]:
        """Return the jobs that have started within so many days; nothing where it keeps no history."""

    def gpu_types(self) -> list[str]:
        """Return the types of GPUs that it hands out (an empty text: without a type); nothing if it does not say."""

    def mpi_types(self) -> list[str]:
        """Return the types of MPI that its steps can start with."""

    def describe(self, here: Here) -> Described:
        """Return the cluster that this machine belongs to. Raises SchedulerError where it does not tell."""


def scheduler_of(name: str) -> Scheduler:
    """Return the scheduler of that name; its module is imported only now. Raises NotFound."""
    return cast(Scheduler, import_module(f"{__name__}.{scheduler_row(name).module}"))
