"""The error classes of expected failures; each says what is wrong, where, what is allowed and what to do next."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Literal

from hpclaunch.core.quoting import shell_word
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
        text = f"{_flatten(self.where)}: {self.what}" if self.where else self.what
        if self.allowed:
            text += f"; allowed: {_flatten(self.allowed)}"
        if self.next:
            text += f"\n    next: {self.next}"
        return text


def _flatten(text: str) -> str:
    """Return names of files and of their keys on one line, so that none can look like a message of its own."""
    return text.replace("\n", "\\n").replace("\r", "\\r")


class HpclaunchError(Exception):
    """An expected failure with all its faults. ``exit_code`` is the exit code of the command line."""

    exit_code = 1

    def __init__(self, faults: Fault | Iterable[Fault]) -> None:
        self.faults: Sequence[Fault] = (faults,) if isinstance(faults, Fault) else tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))

    def also(self, fault: Fault) -> HpclaunchError:
        """Add a fault, and return this error."""
        HpclaunchError.__init__(self, [*self.faults, fault])
        return self


class NotFound(HpclaunchError):
    """A site, job, template or run of that name does not exist."""


class NotPermitted(NotFound):
    """This user may not read a run, or a folder that may contain runs."""


class NewerFormat(NotFound):
    """A newer hpclaunch wrote the record of a run; this one cannot read it."""


class InvalidFile(HpclaunchError):
    """A site, job, settings or template file has an error."""


class ChangeableByOthers(InvalidFile):
    """A file or folder is not used, because somebody else can change it (``core/protection.py``)."""


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


def next_step_after(error: OSError) -> str:
    """Return what a person can do about an error of the system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room there (df -h, quota), then type the command again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "ls -ld names its owner and who may change it"
    return "retry; if the error persists, ask the site's support about this file system"


def without_folder(path: PurePath) -> Refused:
    """Return the error for a file to write whose folder is missing."""
    folder = shell_word(str(path.parent))
    return Refused(Fault(where=str(path), what="its folder does not exist", next=f"mkdir -p {folder}"))


def unwritable(path: object, error: OSError, what: str = "cannot be written") -> Refused:
    """Return the error for a file or a folder that could not be written."""
    return Refused(Fault(where=str(path), what=f"{what}: {error.strerror}", next=next_step_after(error)))


def shorten(text: str, most: int = 300) -> str:
    """Return the text, or its beginning and how many characters are left out: what was typed may be a whole file."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` with the nearest known name, or empty text."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that was probably meant; empty text if none is near.

    The first letters of its words (``lr``: learning_rate) and some whole words of it (``batch``) are near, else the
    spelling.
    """
    from difflib import get_close_matches  # costs 5 ms, and only an error needs it

    typed, names = name[:100].lower(), list(known)
    words = {other: re.split("[_-]", other.lower()) for other in names}
    initials = {other: "".join(word[:1] for word in parts) for other, parts in words.items() if len(parts) > 1}
    parts = re.split("[_-]", typed)
    return next(
        iter(
            [
                *(other for other in initials if initials[other] == typed),
                *get_close_matches(typed, names, n=1, cutoff=0.6),
                *(other for other in names if set(parts) <= set(words[other])),
                *(other for other in initials if len(typed) > 1 and initials[other].startswith(typed)),
            ]
        ),
        "",
    )
