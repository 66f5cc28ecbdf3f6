"""The list of run directories: a text file with one path a line. It only helps to find runs and can be rebuilt.

Every change is made under a lock and waits for the disk. A line is also safe from a process that writes the list again
without a lock, or that was stopped while it held it: see `_append` and `_rewrite`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from hpclaunch.core.errors import Fault, NewerFormat, NotFound, NotPermitted, did_you_mean
from hpclaunch.core.files import append_line, read_bytes, sync_folder, write_text
from hpclaunch.core.folders import state_folder
from hpclaunch.core.locks import locked
from hpclaunch.core.records import record
from hpclaunch.core.slow_files import answers
from hpclaunch.runs.arrays import index_of, load_any, task_of
from hpclaunch.runs.ended import EndedRun, EndedRuns, forget_all, stamp_of
from hpclaunch.runs.ownership import is_own
from hpclaunch.runs.record import RECORD, Run, load

_LONGEST_PATH = 4096
_LARGEST_INDEX = 64 * 2**20
_PROBES = 50
"""Of the ended runs that are not shown, so many are looked at each time."""
_MOST_TRIES = 100
"""A file system without lasting inode numbers would show another file each time."""


@record
class Known:
    """The runs that were found, newest first, and the folders that were skipped.

    ``not_permitted``: this user may not read them. ``unreadable``: their record is damaged, or reading it failed.
    ``newer``: a newer hpclaunch wrote their record. ``ended``: the runs of this user that the index of ended runs has,
    with what it shows of them. ``left_out``: how many more of these there are.
    """

    runs: tuple[Run, ...]
    not_permitted: tuple[Path, ...]
    unreadable: tuple[Path, ...] = ()
    newer: tuple[Path, ...] = ()
    ended: Mapping[Path, Mapping[str, Any]] = field(default_factory=dict)
    left_out: int = 0


@record
class Rebuilt:
    """The run directories in a rebuilt list, those that were dropped from it, and those that this user may not read."""

    paths: tuple[Path, ...]
    forgotten: tuple[Path, ...]
    not_permitted: tuple[Path, ...]


def index_file(environment: Mapping[str, str]) -> Path:
    """Return the file that lists run directories."""
    return state_folder(environment) / "runs.txt"


def remember(index: Path, path: Path) -> str:
    """Add a run directory to the list. Returns why that failed, else an empty text; runs are found without it too."""
    try:
        if not index.parent.is_dir():
            index.parent.mkdir(parents=True, exist_ok=True)
        with locked(index.parent):
            _append(index, str(path))
    except OSError as error:
        return f"{index}: the list of runs cannot be written: {error.strerror}"
    return ""


def _append(index: Path, line: str) -> None:
    """Add a line, and add it again if another process has replaced the list meanwhile. Raises OSError."""
    is_new = not index.exists()
    for _ in range(_MOST_TRIES):
        written = append_line(index, line, durable=True)
        if os.path.samestat(written, os.stat(index)):
            break
    if is_new:
        sync_folder(index.parent)


def _rewrite(index: Path, choose: Callable[[list[Path]], Iterable[Path]]) -> list[Path]:
    """Replace the list by the paths that ``choose`` returns for its present ones, and return them. Raises OSError."""
    index.parent.mkdir(parents=True, exist_ok=True)
    with locked(index.parent) as is_held:
        if not is_held:
            raise OSError(errno.EAGAIN, "another process has held it for 10 s, or it cannot be locked", str(index))
        index.touch()
        with index.open("rb") as old:
            kept = list(dict.fromkeys(choose(_paths_in(old.read()))))
            write_text(index, "".join(f"{path}\n" for path in kept))
            # A process without the lock may have added lines to the old file until it was replaced.
            late = _paths_in(old.read())
        for path in late:
            _append(index, str(path))
    return [*kept, *late]


def known(index: Path, folders: Iterable[Path] = (), most_ended: int | None = None, check: bool = True) -> Known:
    """Return the runs in the list and in ``folders``, which hold run directories; skips missing directories.

    Of the runs that the index of ended runs has, at most ``most_ended`` are returned, the newest ones, each after one
    look at its record; without ``check`` none is looked at. The others have their records read.
    """
    listed: list[Path] = []
    unreadable: tuple[Path, ...] = ()
    try:
        listed = _read_paths(index)
    except OSError:
        unreadable = (index,)
    kept, to_load, left_out = _divide(EndedRuns(index.parent), listed[::-1], most_ended, check)
    known_paths = frozenset(listed)
    others = [path for folder in folders for path in inside(folder, known_paths) if path not in known_paths]
    found = _load_runs([*to_load, *others])
    by_path = {run.path: run for run in found.runs} | {path: one.run for path, one in kept.items()}
    in_order = [run for path in listed[::-1] if (run := by_path.pop(path, None)) is not None]
    return replace(
        found,
        runs=tuple(_newest_first(in_order, by_path.values())),
        unreadable=(*unreadable, *found.unreadable),
        ended={path: one.shown for path, one in kept.items()},
        left_out=left_out,
    )


def _divide(
    index: EndedRuns, listed: Sequence[Path], most: int | None, check: bool
) -> tuple[dict[Path, EndedRun], list[Path], int]:
    """Return the entries of the newest ended runs, the directories to read, and how many ended runs are left out.

    Some of those that are left out are looked at too, others each time: whatever has changed them is noticed once.
    """
    in_index = [path for path in listed if path in index]
    shown = set(in_index if most is None else in_index[:most])
    older = in_index[len(shown) :]
    begin = int.from_bytes(os.urandom(4), "big") % (len(older) or 1)
    probed = set(older[begin : begin + _PROBES])
    looked_at = [path for path in in_index if path in shown or path in probed]
    stamps = dict(zip(looked_at, answers(stamp_of, looked_at), strict=True)) if check else {}
    kept: dict[Path, EndedRun] = {}
    to_load: list[Path] = []
    left_out = 0
    for path in listed:
        is_looked_at = path in shown or path in probed
        entry = index.get(path, stamps.get(path), check) if is_looked_at else None
        if path not in index:
            to_load.append(path)
        elif entry is not None and path in shown:
            kept[path] = entry
        else:
            left_out += 1
    return kept, to_load, left_out


def _newest_first(listed: Iterable[Run], others: Iterable[Run]) -> list[Run]:
    """Return the runs in the order of their submission, the newest first.

    The list has them in this order, also if a clock stepped back. The others have their places by their times.
    """
    rest = sorted(others, key=lambda run: run.created)
    merged: list[Run] = []
    for run in listed:
        while rest and rest[-1].created > run.created:
            merged.append(rest.pop())
        merged.append(run)
    return [*merged, *reversed(rest)]


def newest_first(index: Path, folders: Iterable[Path], found: Iterable[Run]) -> list[Run]:
    """Return runs in the order in which `known` returns them; one that it does not find has its place by its time."""
    runs = known(index, folders, check=False).runs
    paths = {run.path for run in runs}
    named = list(found)
    ordered = _newest_first(runs, [run for run in named if run.home not in paths])
    place = {run.home: number for number, run in enumerate(ordered)}
    return sorted(named, key=lambda run: place[run.home])


def _load_runs(paths: Iterable[Path]) -> Known:
    found = answers(_load_or_skip, dict.fromkeys(paths))
    skipped: dict[str, list[Path]] = {}
    for _, (why, path) in found:
        skipped.setdefault(why, []).append(path)
    return Known(
        runs=tuple(run for run, _ in found if run),
        not_permitted=tuple(skipped.get("not_permitted", ())),
        unreadable=tuple(skipped.get("unreadable", ())),
        newer=tuple(skipped.get("newer", ())),
    )


def _load_or_skip(path: Path) -> tuple[Run | None, tuple[str, Path]]:
    """Return the run; else why it is skipped, as `Known` names that. A directory without a record is no run."""
    try:
        return load(path), ("", path)
    except NotPermitted:
        return None, ("not_permitted", path)
    except NewerFormat:
        return None, ("newer", path)
    except NotFound:
        return None, ("unreadable" if _has_record(path) else "", path)


def _has_record(path: Path) -> bool:
    """Whether a folder has a record, as far as this can be known: a file system may fail."""
    try:
        os.lstat(path / RECORD)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
    except ValueError:  # a path that has no name in the locale of a program that imports hpclaunch
        return True
    return True


def indexed(index: Path) -> list[Path]:
    """Return the absolute paths in the list, each once, oldest first; skips damaged lines.

    Returns none if the list cannot be read.
    """
    try:
        return _read_paths(index)
    except OSError:
        return []


def _read_paths(index: Path) -> list[Path]:
    """Return what `indexed` does; none if there is no list. Raises OSError."""
    for _ in range(2):  # a network file system may fail once
        try:
            return _paths_in(read_bytes(index, _LARGEST_INDEX))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return []
        except OSError as error:
            failure = error
    raise failure


def _paths_in(content: bytes) -> list[Path]:
    text = content.decode("utf-8", errors="surrogateescape")
    lines = [line for line in text.split("\n") if line.startswith("/") and len(line) < _LONGEST_PATH]
    return [Path(line) for line in dict.fromkeys(lines) if "\0" not in line]


def inside(folder: Path, listed: frozenset[Path] = frozenset()) -> list[Path]:
    """Return the run directories in a folder, sorted by name; none if there is no such folder.

    Those that are ``listed`` are run directories without a look at them.

    A folder that cannot be read is returned too: it may be or hold a run directory. `load` then raises the reason.
    """
    for _ in range(2):  # a network file system may fail once
        try:
            names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return []
        except OSError:
            continue
        paths = [folder / name for name in names]
        others = [path for path in paths if path not in listed]
        without = {path for path, has in zip(others, answers(_has_record, others), strict=True) if not has}
        return [path for path in paths if path not in without]
    return [folder]


def rebuild(index: Path, folders: Iterable[Path]) -> Rebuilt:
    """Write the list again from the run directories in ``folders`` and in the folders of those already listed.

    A listed directory stays if this user may not read it, or if a newer hpclaunch wrote its record, and is dropped if
    it no longer exists. Raises OSError.
    """
    before = indexed(index)
    places = dict.fromkeys([*folders, *(path.parent for path in before)])
    found = _load_runs([*before, *(path for folder in places for path in inside(folder))])
    kept = {*found.not_permitted, *found.newer}
    by_path = {run.path: run for run in found.runs}
    in_order = [run for path in reversed(before) if (run := by_path.pop(path, None)) is not None]
    ordered = [run.path for run in _newest_first(in_order, by_path.values())]
    paths = [*(path for path in before if path in kept), *reversed(ordered)]
    forget_all(index.parent)
    looked_at = set(before)
    listed = dict.fromkeys(_rewrite(index, lambda now: [*paths, *(path for path in now if path not in looked_at)]))
    forgotten = tuple(path for path in before if path not in listed)
    return Rebuilt(paths=tuple(listed), forgotten=forgotten, not_permitted=found.not_permitted)


def forget(index: Path, gone: Iterable[Path]) -> None:
    """Remove run directories from the list. If the list cannot be written, it keeps naming them."""
    dropped = set(gone)
    try:
        _rewrite(index, lambda now: [path for path in now if path not in dropped])
    except OSError:
        return


def find(index: Path, name: str | None, folders: Sequence[Path] = ()) -> Run:
    """Return a run by path, by its directory's name or a part of it, or by job ID; the newest run for None.

    ``@latest`` (or ``@1``) is the user's newest run, ``@2`` the one before it.
    A run of an array is ``ARRAY/0007`` (by name or by path) or its job ID ``4711_7``. Raises NotFound; if the run
    exists but cannot be read, the error says why.
    """
    (run,) = find_all(index, [name], folders)
    return run


def find_all(index: Path, names: Sequence[str | None], folders: Sequence[Path] = ()) -> list[Run]:
    """Return the runs of several names, as `find` does. Raises NotFound with every name that is unknown."""
    finder = _RunFinder(index, folders)
    found: list[Run] = []
    faults: list[Fault] = []
    for name in names:
        try:
            found.append(finder.find(name))
        except NotFound as error:
            faults += error.faults
    if faults:
        raise NotFound(faults)
    return found


class _RunFinder:
    """Finds runs by name; reads all runs once, when the first name needs them."""

    def __init__(self, index: Path, folders: Sequence[Path]) -> None:
        self._index = index
        self._folders = folders

    @cached_property
    def _known_runs(self) -> Known:
        return known(self._index, self._folders, check=False)

    @property
    def _runs(self) -> tuple[Run, ...]:
        return self._known_runs.runs

    @cached_property
    def _runs_by_name(self) -> dict[str, Run]:
        """Every run by name and job IDs; of two runs the user's own, then the newer one: Slurm reuses job IDs."""
        named: dict[str, Run] = {}
        for run in self._runs:
            for name in (run.path.name, run.job_id, *run.earlier):
                other = named.setdefault(name, run)
                if other is not run and self._prefer_own([other, run]) is run:
                    named[name] = run
        return named

    def _prefer_own(self, found: Sequence[Run]) -> Run | None:
        return next((run for run in found if self._is_own(run)), found[0] if found else None)

    def _is_own(self, run: Run) -> bool:
        return run.path in self._known_runs.ended or is_own(self._index.parent, run)

    @cached_property
    def _arrays(self) -> list[Run]:
        return [run for run in self._runs if run.tasks]

    def find(self, name: str | None) -> Run:
        """Return the run as its directory has it now."""
        found = self._find(name)
        return load_any(found.path) if found.home in self._known_runs_if_read else found

    @property
    def _known_runs_if_read(self) -> Mapping[Path, Mapping[str, Any]]:
        return self._known_runs.ended if "_known_runs" in vars(self) else {}

    def _find(self, name: str | None) -> Run:
        if not name:
            return self._newest_run()
        if name.startswith("@"):
            return self._find_by_age(name)
        # A path comes first: in the folder of the runs a name is a path too.
        if os.sep in name or _is_run(Path(name)):
            return self._find_in_array(name) or load_any(_absolute_path(name))
        found = self._task(name) or self._runs_by_name.get(name) or self._find_abbreviated(name, self._runs)
        if found:
            return found
        _refuse_broken([*indexed(self._index), *self._known_runs.not_permitted], name)
        near = did_you_mean(name, [run.path.name for run in self._runs])
        raise NotFound(Fault(what=f"no run is called {name!r}{near}", next=self._next_step))

    def _newest_run(self) -> Run:
        newest = next((run for run in self._present_runs if self._is_own(run)), next(self._present_runs, None))
        if newest is None:
            raise NotFound(Fault(what="there is no run yet", next=self._next_step))
        return newest

    @property
    def _present_runs(self) -> Iterator[Run]:
        """The runs whose directories are there."""
        return (run for run in self._runs if run.path not in self._known_runs.ended or _has_record(run.path))

    def _find_by_age(self, name: str) -> Run:
        """Return the run that ``@latest`` or ``@2`` names, or a run of that array: ``@latest/0007``."""
        head, _, task = name[1:].partition(os.sep)
        number = 0
        if head == "latest":
            number = 1
        elif head.isascii() and head.isdigit():
            number = int(head[:9])  # more than nine digits count no runs
        if number == 0:
            what, allowed = f"{name!r} names no run", "@latest, or @1 for the newest run, @2 for the one before it"
            raise NotFound(Fault(what=what, allowed=allowed, next=self._next_step))
        own = list(islice((run for run in self._present_runs if self._is_own(run)), number))
        own = own or list(islice(self._present_runs, number))
        if number > len(own):
            what = f"{name!r} names no run: there are only {len(own)}" if own else "there is no run yet"
            raise NotFound(Fault(what=what, allowed=f"@1 to @{len(own)}" if own else "", next=self._next_step))
        run = own[number - 1]
        return load_any(run.path / task) if task else run

    @property
    def _next_step(self) -> str:
        return "hpclaunch runs list" if self._runs else "hpclaunch submit JOB"

    def _task(self, name: str) -> Run | None:
        """Return the run of an array with this job ID, such as 4711_7."""
        array, _, task = name.partition("_")
        if not (task.isascii() and task.isdigit()):
            return None
        owner = self._prefer_own([run for run in self._arrays if array in (run.job_id, *run.earlier)])
        if owner is None:
            return None
        number = int(task[:9])  # int() refuses a text of thousands of digits
        index = index_of(owner, array, number)
        if index < owner.tasks:
            return task_of(owner, index)
        what, last = f"array {array} has no task {number}", owner.tasks - 1 - (index - number)
        raise NotFound(Fault(what=what, allowed=f"0 to {last}", next=f"hpclaunch status {array} --all"))

    def _find_in_array(self, name: str) -> Run | None:
        """Return the run that ``ARRAY/0007`` names; None if there is no such array."""
        array, _, task = name.partition(os.sep)
        is_absolute = not array
        if is_absolute or not task.isdigit() or _is_run(_absolute_path(array)):
            return None  # load_any reads it as a path
        found = self._prefer_own([run for run in self._arrays if array in (run.path.name, run.job_id, *run.earlier)])
        found = found or self._find_abbreviated(array, self._arrays)
        return load_any(found.path / task) if found else None

    def _find_abbreviated(self, name: str, runs: Sequence[Run]) -> Run | None:
        """Return the only run whose name begins or ends with these whole parts (between dashes), or None.

        If there is none, the letters with which only one name begins are enough. Of several runs, those of others do
        not count. Raises NotFound if several match.
        """
        found = [run for run in runs if run.path.name.startswith(f"{name}-") or run.path.name.endswith(f"-{name}")]
        found = found or [run for run in runs if run.path.name.startswith(name)]
        if len(found) > 1:
            found = [run for run in found if self._is_own(run)] or found
        if len(found) > 1:
            raise _ambiguous_name(name, found)
        return found[0] if found else None


def _ambiguous_name(name: str, found: Sequence[Run]) -> NotFound:
    some = ", ".join(run.label for run in found[:5]) + (", ..." if found[5:] else "")
    return NotFound(Fault(what=f"{name!r} matches {len(found)} runs", allowed=some, next="type more of the name"))


def _refuse_broken(paths: Iterable[Path], name: str) -> None:
    """Raise NotFound, with the reason, if a run of that name is known and cannot be read."""
    for path in paths:
        if path.name != name:
            continue
        if not os.path.lexists(path):
            what = "the directory of this run no longer exists"
            next_step = (
                "squeue --me lists the jobs that still run; hpclaunch runs rebuild removes missing runs from the list"
            )
            raise NotFound(Fault(where=str(path), what=what, next=next_step))
        load(path)  # raises with the reason


def _is_run(path: Path) -> bool:
    try:
        load(path)
    except NotFound:
        return False
    return True


def _absolute_path(name: str) -> Path:
    try:
        return Path(name).resolve()
    except (OSError, ValueError, RuntimeError):  # a null byte, a loop of links
        return Path(name)
