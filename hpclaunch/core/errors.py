"""The error tree: every expected failure is one of these, and says what, where, what is allowed and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from hpclaunch.core.records import record

Subject = Literal["", "GPUs", "shared paths", "MPI", "account", "scheduler"]
"""What a fault is about, where that is one of the things that ``doctor`` looks at."""


@record
class Fault:
    """One thing that is wrong.

    ``what`` is a clause without a full stop, ``where`` a place such as ``site_configs/x.yaml: partitions.gpu``,
    ``allowed`` what would have been right and ``next`` the command or edit that mends it.
    ``subject`` is what it is about, for who sorts faults; nobody need look for that in the words.
    """

    what: str
    where: str = ""
    allowed: str = ""
    next: str = ""
    subject: Subject = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        if self.allowed:
            text += f"; allowed: {self.allowed}"
        if self.next:
            text += f"\n    next: {self.next}"
        return text


class HpclaunchError(Exception):
    """An expected failure, with every fault that was found. ``exit_code`` is what the command line ends with."""

    exit_code = 1

    def __init__(self, faults: Fault | Iterable[Fault]) -> None:
        self.faults: Sequence[Fault] = (faults,) if isinstance(faults, Fault) else tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class NotFound(HpclaunchError):
    """A site, job, template or run of that name does not exist."""


class NotPermitted(NotFound):
    """A run, or a folder that may hold runs, that this user may not read."""


class InvalidFile(HpclaunchError):
    """A site, job or settings file says something that it may not say."""


class InvalidRequest(HpclaunchError):
    """What was typed cannot be read, whatever the site and the job say."""

    exit_code = 2


class Refused(HpclaunchError):
    """The request cannot run at this site: nothing was queued and nothing was written."""


class SchedulerError(HpclaunchError):
    """The scheduler, or the program that speaks to it, refused or did not answer."""


class Unanswered(SchedulerError):
    """Nobody knows whether the scheduler took the run. It is recorded as SUBMITTING; do not submit it anew."""


class Interrupted(HpclaunchError):
    """The person ended the program while it waited for an answer."""

    exit_code = 130


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the nearest known name, or nothing."""
    from difflib import get_close_matches  # costs 5 ms, and only an error needs it

    near = get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
