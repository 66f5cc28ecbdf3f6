"""A table of schedulers, each a module with the same functions; nothing here knows a particular one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from hpclaunch.core.errors import Fault, NotFound
from hpclaunch.core.records import record
from hpclaunch.core.spec import JobSpec
from hpclaunch.runs import Run

MODULES = {"slurm": "hpclaunch.schedulers.slurm.states", "local": "hpclaunch.schedulers.local"}


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


class Scheduler(Protocol):
    """The seam. ``states`` and ``search`` answer for many runs with one call to each of the scheduler's programs.

    ``objections`` are reasons for which the scheduler itself would refuse the run or let it wait for ever, as far as it
    can tell; ``estimate`` is its own word on when a script would start. ``submit`` raises Unanswered where nobody knows
    whether the run was queued, any other SchedulerError where it was not. ``explain`` puts a reason for waiting into
    words, with what to do. ``unwell`` are nodes out of a list that the scheduler calls broken.
    """

    def objections(self, spec: JobSpec) -> list[Fault]: ...

    def estimate(self, text: str) -> str: ...

    def submit(self, run: Run, text: str, walltime: int, options: Sequence[str] = ()) -> str: ...

    def search(self, runs: Sequence[Run]) -> Search: ...

    def states(self, runs: Sequence[Run]) -> dict[str, Status]: ...

    def cancel(self, runs: Sequence[Run]) -> bool: ...

    def cancel_command(self, run: Run) -> str: ...

    def explain(self, reason: str) -> str: ...

    def unwell(self, nodes: str) -> tuple[str, ...]: ...


def scheduler_of(name: str) -> Scheduler:
    """Return the module for that scheduler, imported only now. Raises NotFound."""
    if name not in MODULES:
        raise NotFound(Fault(what=f"no scheduler is called {name!r}", allowed=", ".join(MODULES)))
    return cast(Scheduler, import_module(MODULES[name]))
