"""The list of run directories: a text file with one path a line; it only helps to find them, and can be made anew."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from hpclaunch.core.errors import Fault, NotFound, NotPermitted, did_you_mean
from hpclaunch.core.files import append_line, write_text
from hpclaunch.core.folders import state_folder
from hpclaunch.core.records import record
from hpclaunch.runs.arrays import load_any, task_of
from hpclaunch.runs.record import RECORD, Run, load

_LONGEST_PATH = 4096


@record
class Known:
    """The runs that were found, newest first, and the folders that this user may not read, which are passed over."""

    runs: tuple[Run, ...]
    not_permitted: tuple[Path, ...]


@record
class Rebuilt:
    """The run directories in a list that was written anew, those that it forgot, and those that may not be read."""

    paths: tuple[Path, ...]
    forgotten: tuple[Path, ...]
    not_permitted: tuple[Path, ...]


def index_file(environment: Mapping[str, str]) -> Path:
    """Return the file that lists run directories."""
    return state_folder(environment) / "runs.txt"


def remember(index: Path, path: Path) -> str:
    """Add a run directory to the list. Return why that failed, or nothing: a run does not need the list to be found."""
    try:
        index.parent.mkdir(parents=True, exist_ok=True)
        append_line(index, str(path))
    except OSError as error:
        return f"{index}: the list of runs cannot be written: {error.strerror}"
    return ""


def known(index: Path, folders: Iterable[Path] = ()) -> Known:
    """Return the runs in the list, and in the ``folders`` that hold run directories.

    What is damaged or gone is passed over.
    """
    return _load_runs([*reversed(indexed(index)), *(path for folder in folders for path in inside(folder))])


def _load_runs(paths: Iterable[Path]) -> Known:
    runs, not_permitted = [], []
    for path in dict.fromkeys(paths):
        try:
            runs.append(load(path))
        except NotPermitted:
            not_permitted.append(path)
        except NotFound:
            continue
    runs.sort(key=lambda run: run.created, reverse=True)
    return Known(runs=tuple(runs), not_permitted=tuple(not_permitted))


def indexed(index: Path) -> list[Path]:
    """Return the absolute paths in the list, each once, oldest first; other lines are damaged and passed over."""
    try:
        text = index.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    lines = [line for line in text.split("\n") if line.startswith("/") and len(line) < _LONGEST_PATH]
    return [Path(line) for line in dict.fromkeys(lines) if "\0" not in line]


def inside(folder: Path) -> list[Path]:
    """Return the run directories that lie in a folder, oldest first by name; none where there is no such folder.

    A folder that this user may not read may be a run directory, or hold some: it is returned, and `load` says why not.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except PermissionError:
        return [folder]
    except (OSError, ValueError):
        return []
    return [folder / name for name in names if _may_be_run(folder / name)]


def _may_be_run(folder: Path) -> bool:
    try:
        return stat.S_ISREG(os.stat(folder / RECORD).st_mode)
    except OSError as error:
        return isinstance(error, PermissionError)


def rebuild(index: Path, folders: Iterable[Path]) -> Rebuilt:
    """Write the list anew from the run directories in the ``folders``, and beside those that it still names.

    A directory that it names and that may not be read now stays in it; one that is gone is forgotten. Raises OSError.
    """
    before = indexed(index)
    places = dict.fromkeys([*folders, *(path.parent for path in before)])
    found = _load_runs([*before, *(path for folder in places for path in inside(folder))])
    not_permitted = set(found.not_permitted)
    paths = [path for path in before if path in not_permitted] + [run.path for run in reversed(found.runs)]
    index.parent.mkdir(parents=True, exist_ok=True)
    write_text(index, "".join(f"{path}\n" for path in paths))
    kept = set(paths)
    forgotten = tuple(path for path in before if path not in kept)
    return Rebuilt(paths=tuple(paths), forgotten=forgotten, not_permitted=found.not_permitted)


def forget(index: Path, gone: Iterable[Path]) -> None:
    """Leave run directories out of the list; where it cannot be written, it goes on to name what is not there."""
    dropped = set(gone)
    try:
        write_text(index, "".join(f"{path}\n" for path in indexed(index) if path not in dropped))
    except OSError:
        return


def find(index: Path, name: str | None, folders: Sequence[Path] = ()) -> Run:
    """Return a run by path, by its directory's name or whole parts of it, by job id, or (None) the newest one.

    A run of an array is ``ARRAY/0007``, by name or by path, or its job id ``4711_7``. Raises NotFound, for a run that
    is there and cannot be read with the reason.
    """
    (run,) = find_all(index, [name], folders)
    return run


def find_all(index: Path, names: Sequence[str | None], folders: Sequence[Path] = ()) -> list[Run]:
    """Return runs as `find` does, for as many names with one look at all of them. Raises NotFound for all unknown."""
    shelf = _Shelf(index, folders)
    found: list[Run] = []
    faults: list[Fault] = []
    for name in names:
        try:
            found.append(shelf.find(name))
        except NotFound as error:
            faults += error.faults
    if faults:
        raise NotFound(faults)
    return found


class _Shelf:
    """All runs, read when the first name needs them."""

    def __init__(self, index: Path, folders: Sequence[Path]) -> None:
        self._index = index
        self._folders = folders

    @cached_property
    def _known_runs(self) -> Known:
        return known(self._index, self._folders)

    @property
    def _runs(self) -> tuple[Run, ...]:
        return self._known_runs.runs

    @cached_property
    def _runs_by_name(self) -> dict[str, Run]:
        """Every run by name and job ids; of two, as job ids are used again after years, the newer one."""
        named: dict[str, Run] = {}
        for run in self._runs:
            for name in (run.path.name, run.job_id, *run.earlier):
                named.setdefault(name, run)
        return named

    @cached_property
    def _arrays(self) -> list[Run]:
        return [run for run in self._runs if run.tasks]

    def find(self, name: str | None) -> Run:
        if not name:
            return self._newest_run()
        if os.sep in name or _is_run(Path(name)):
            return self._find_in_array(name) or load_any(_absolute_path(name))
        found = self._task(name) or self._runs_by_name.get(name) or _find_abbreviated(name, self._runs)
        if found:
            return found
        _refuse_broken([*indexed(self._index), *self._known_runs.not_permitted], name)
        near = did_you_mean(name, [run.path.name for run in self._runs])
        raise NotFound(Fault(what=f"no run is called {name!r}{near}", next=self._next_step))

    def _newest_run(self) -> Run:
        if not self._runs:
            raise NotFound(Fault(what="there is no run yet", next=self._next_step))
        return self._runs[0]

    @property
    def _next_step(self) -> str:
        return "hpclaunch runs list" if self._runs else "hpclaunch submit JOB"

    def _task(self, name: str) -> Run | None:
        """Return the run of an array whose job id this is, as 4711_7."""
        array, _, task = name.partition("_")
        if not (task.isascii() and task.isdigit()):
            return None
        holding = next((run for run in self._arrays if array in (run.job_id, *run.earlier)), None)
        if holding is None:
            return None
        if int(task[:9]) < holding.tasks:
            return task_of(holding, int(task[:9]))
        what = f"array {array} has no task {task[:9]}"
        raise NotFound(Fault(what=what, allowed=f"0 to {holding.tasks - 1}", next=f"hpclaunch status {array} --all"))

    def _find_in_array(self, name: str) -> Run | None:
        """Return the run that ``ARRAY/0007`` names, if there is an array of that name."""
        array, _, task = name.partition(os.sep)
        if not array or not task.isdigit() or _is_run(_absolute_path(array)):
            return None
        found = next((run for run in self._arrays if array in (run.path.name, run.job_id, *run.earlier)), None)
        found = found or _find_abbreviated(array, self._arrays)
        return load_any(found.path / task) if found else None


def _find_abbreviated(name: str, runs: Sequence[Run]) -> Run | None:
    """Return the one run whose name begins with these whole parts, or ends with this last one.

    Parts stand between dashes: a name that lacks a letter is a typing error, and names no run.
    """
    found = [run for run in runs if run.path.name.startswith(f"{name}-") or run.path.name.endswith(f"-{name}")]
    if len(found) > 1:
        some = ", ".join(run.path.name for run in found[:5]) + (", ..." if found[5:] else "")
        raise NotFound(Fault(what=f"{name!r} may be any of {len(found)} runs", allowed=some, next="say more of it"))
    return found[0] if found else None


def _refuse_broken(paths: Iterable[Path], name: str) -> None:
    """Raise NotFound, with the reason, for a run of that name whose directory is known and cannot be read."""
    for path in paths:
        if path.name == name and not os.path.lexists(path):
            what = "the directory of this run is gone"
            next_step = "squeue --me lists what still runs; hpclaunch runs rebuild forgets what is gone"
            raise NotFound(Fault(where=str(path), what=what, next=next_step))
        if path.name == name:
            load(path)


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
