"""A table of schedulers, each a module with the same functions; nothing here knows a particular one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from hpclaunch.errors import Fault, NotFound
from hpclaunch.runs import Run
from hpclaunch.spec import JobSpec

MODULES = {"slurm": "hpclaunch.schedulers.slurm", "local": "hpclaunch.schedulers.local"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is known of a run now. ``reason`` is why it waits; UNKNOWN means that nobody could say, never "failed"."""

    state: str
    exit_code: str = ""
    reason: str = ""


class Scheduler(Protocol):
    """The seam. ``states`` answers for many runs with one call to each of the scheduler's programs.

    ``objections`` are reasons for which the scheduler itself would refuse the run or let it wait for ever, as far as it
    can tell; ``estimate`` is its own word on when a script would start.
    """

    def objections(self, spec: JobSpec) -> list[Fault]: ...

    def estimate(self, text: str) -> str: ...

    def submit(self, run: Run, text: str, walltime: int) -> str: ...

    def states(self, runs: Sequence[Run]) -> dict[str, Status]: ...

    def cancel(self, run: Run) -> bool: ...

    def cancel_command(self, run: Run) -> str: ...


def scheduler_of(name: str) -> Scheduler:
    """Return the module for that scheduler, imported only now. Raises NotFound."""
    if name not in MODULES:
        raise NotFound(Fault(what=f"no scheduler is called {name!r}", allowed=", ".join(MODULES)))
    return cast(Scheduler, import_module(MODULES[name]))
