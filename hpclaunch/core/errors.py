"""The error classes of expected failures; each says what is wrong, where, what is allowed and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from hpclaunch.core.records import record

Subject = Literal["", "GPUs", "shared paths", "MPI", "account", "scheduler"]
"""What a fault is about, if that is one of the topics that ``doctor`` checks."""


@record
class Fault:
    """One thing that is wrong.

    ``what`` is a clause without a full stop. ``where`` is a place such as ``site_configs/x.yaml: partitions.gpu``.
    ``allowed`` is what would be accepted, and ``next`` the command or edit that mends it. ``subject`` is its topic, so
    that code can sort faults without reading the words.
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
    """An expected failure with all its faults. ``exit_code`` is the exit code of the command line."""

    exit_code = 1

    def __init__(self, faults: Fault | Iterable[Fault]) -> None:
        self.faults: Sequence[Fault] = (faults,) if isinstance(faults, Fault) else tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class NotFound(HpclaunchError):
    """A site, job, template or run of that name does not exist."""


class NotPermitted(NotFound):
    """This user may not read a run, or a folder that may contain runs."""


class NewerFormat(NotFound):
    """A newer hpclaunch wrote the record of a run; this one cannot read it."""


class InvalidFile(HpclaunchError):
    """A site, job, settings or template file has an error."""


class InvalidRequest(HpclaunchError):
    """The command line is wrong, regardless of the site and the job."""

    exit_code = 2


class Refused(HpclaunchError):
    """The request cannot run at this site; nothing was queued, and nothing was written."""


class SchedulerError(HpclaunchError):
    """The scheduler, or the program that calls it, refused or did not answer."""


class Unanswered(SchedulerError):
    """It is unknown whether the scheduler accepted the run. It is recorded as SUBMITTING; do not submit it again."""


class NotRecorded(HpclaunchError):
    """A run was queued as job ``job_id``, and its directory could not be updated. Do not submit it again."""

    def __init__(self, faults: Fault | Iterable[Fault], job_id: str, run_dir: str) -> None:
        super().__init__(faults)
        self.job_id = job_id
        self.run_dir = run_dir


class Interrupted(HpclaunchError):
    """The user interrupted the program while it waited for an answer."""

    exit_code = 130


def shorten(text: str, most: int = 300) -> str:
    """Return the text, or its beginning and how many characters are left out: what was typed may be a whole file."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` with the nearest known name, or empty text."""
    from difflib import get_close_matches  # costs 5 ms, and only an error needs it

    near = get_close_matches(name[:100].lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
