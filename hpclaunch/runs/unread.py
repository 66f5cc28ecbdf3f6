"""Names what in a run directory is not read: links, pipes, devices, files of strangers, and what is too large.

All readers of a run directory pass these over (`core.inside`). A page or an export must say so rather than lack them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hpclaunch.core import inside
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.files import MOST_BYTES
from hpclaunch.core.quoting import shell_word, shown_name
from hpclaunch.runs.arrays import STATES
from hpclaunch.runs.create import REQUEST
from hpclaunch.runs.record import HISTORY, METRICS, RECORD, Run
from hpclaunch.runs.samples import FOLDER as SAMPLES
from hpclaunch.runs.sweep_values import VALUES

SCRIPTS = ("job.sh", "hpclaunch.sh", "sampler.py")
RECORDS = (RECORD, HISTORY, "spec.json", REQUEST, "environment.json", "search.json", VALUES, STATES, *SCRIPTS)
"""The files of a run, or of an array for all its runs, whose whole content is read."""
SERIES = (METRICS, "metrics-repeated.jsonl")
"""Files of a run that may be large: they are read as a stream."""
ATTEMPTS, LOGS, SEARCH = "attempts", "logs", "search"
READ_BY_A_PAGE = (ATTEMPTS, LOGS, SAMPLES, SEARCH)
_MOST_FAULTS = 10
_LARGE = frozenset({VALUES, STATES})
"""Records with a limit of their own."""


def refuse_unread(found: Iterable[Run], folders: Sequence[str]) -> None:
    """Raise Refused with everything in the records and these folders of runs that would not be read."""
    faults: dict[Fault, None] = {}
    for run in found:
        faults |= dict.fromkeys(strange_place(run.home) or unread(run, folders))
    if faults:
        more = len(faults) - _MOST_FAULTS
        shown = list(faults)[:_MOST_FAULTS]
        rest = [Fault(what=f"and {more} more files that are not read")] if more > 0 else []
        raise Refused([*shown, *rest])


def refuse_strange_names(names: Iterable[str]) -> None:
    """Raise Refused for typed paths of run directories that lead elsewhere, as `strange_place` has it."""
    faults = [fault for name in names if os.path.isdir(name) for fault in strange_place(Path(name))]
    if faults:
        raise Refused(faults)


def strange_place(path: Path) -> list[Fault]:
    """Return why a run directory may not be the one that its path names: a link in a place where another may put one.

    Links on the way to it are the user's own or the administrator's. The directory itself is never a link.
    """
    home = os.path.abspath(path)
    if os.path.islink(home):
        next_step = f"name the directory itself: {shell_word(os.path.realpath(home))}"
        return [Fault(where=shown_name(home), what="is a link, and no run directory", next=next_step)]
    for place in Path(home).parents:
        try:
            about = os.lstat(place)
        except OSError:
            continue
        if stat.S_ISLNK(about.st_mode) and about.st_uid not in (0, os.geteuid()):
            what = "is a link of another user, who may lead it elsewhere at any time"
            next_step = f"name the directory itself: {shell_word(os.path.realpath(home))}"
            return [Fault(where=shown_name(str(place)), what=what, next=next_step)]
    return []


def unread(run: Run, folders: Sequence[str]) -> list[Fault]:
    """Return everything in the records and these folders of a run that is not read, with the reason."""
    found = [
        (name, why)
        for name in RECORDS
        if (why := inside.problem(run.home, name, None if name in _LARGE else MOST_BYTES))
    ]
    found += [(name, why) for name in map(run.name_of, SERIES) if (why := inside.problem(run.home, name))]
    for folder in folders:
        found += _unread_below(run.home, run.name_of(folder))
    if _is_anothers(run.home):  # what its owner has closed is not shown
        found = [(name, why) for name, why in found if why != os.strerror(errno.EACCES)]
    return [_fault(run.home, name, why) for name, why in found]


def _is_anothers(home: Path) -> bool:
    try:
        return os.stat(home).st_uid != os.geteuid()
    except OSError:
        return False


def _unread_below(home: Path, folder: str) -> Iterator[tuple[str, str]]:
    """Yield (name, reason) of everything in a folder, and below it, that is not read."""
    try:
        for name, about in inside.walk(home, folder):
            why = inside.kind_in_words(about.st_mode) or inside.strange_owner(about, home)
            if why:
                yield name, why
    except FileNotFoundError:
        return
    except OverflowError as error:
        yield folder, f"has {error}"
    except OSError as error:
        yield str(error.filename or folder), error.strerror or str(error)


def _fault(home: Path, name: str, why: str) -> Fault:
    next_step = "hpclaunch reads only regular files of a run directory; put a copy of the file there, or remove it"
    return Fault(where=shown_name(str(home / name)), what=why, next=next_step)
