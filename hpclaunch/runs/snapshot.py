"""Chooses the files of the user's code for a run, and copies them; it never follows a link out of the folder."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from hpclaunch.core.errors import Fault
from hpclaunch.core.folders import PACKAGE
from hpclaunch.core.records import record
from hpclaunch.core.spec import Code

SOURCE_SUFFIXES = frozenset({".py", ".sh", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".txt"})
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "runs", "checkpoints", "wandb"})
MOST_FILES = 2_000
MOST_BYTES = 20 * 2**20
_MOST_LOOKED_AT = 20_000


@record
class Snapshot:
    """Files to copy, relative to ``folder``. ``narrowed``: why only the entry script is copied, else empty.

    ``closed``: files and folders beside the script that are not copied, because this user may not read them.
    """

    folder: Path
    files: tuple[str, ...]
    narrowed: str = ""
    closed: tuple[str, ...] = ()


def choose(code: Code) -> Snapshot:
    """Return what to copy: a job's whole folder, or a user's script with the source files beside it.

    A script in a folder that is too large to copy (a home folder, say) is copied alone. Raises OverflowError, with the
    reason, if a job's folder is too large.
    """
    folder = Path(code.folder)
    files: list[str] = []
    closed: list[str] = []
    size = 0
    for looked_at, (path, length) in enumerate(_walk(folder, closed)):
        if not code.source_only or path.suffix in SOURCE_SUFFIXES or str(path) == code.entry:
            readable = os.access(folder / path, os.R_OK)
            (files if readable else closed).append(str(path))
            size += length
        if looked_at > _MOST_LOOKED_AT or len(files) > MOST_FILES or size > MOST_BYTES:
            reason = f"{folder} holds more than {MOST_FILES} files or {MOST_BYTES // 2**20} MB of code"
            if not code.source_only:
                raise OverflowError(reason)
            return Snapshot(folder=folder, files=(code.entry,), narrowed=reason)
    return Snapshot(folder=folder, files=tuple(sorted(files)), closed=tuple(closed))


def _walk(folder: Path, closed: list[str]) -> Iterator[tuple[Path, int]]:
    """Yield every file of the code with its size; folders that this user may not enter are added to ``closed``."""
    for place, folders, names in os.walk(folder):
        here = Path(place)
        closed += [str((here / name).relative_to(folder)) for name in folders if _is_closed(here / name)]
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in _SKIPPED and not _is_foreign(here / name)
        )
        for name in sorted(names):
            path = here / name
            if not name.startswith(".") and not name.endswith(".pyc") and os.path.isfile(path):
                yield path.relative_to(folder), path.stat().st_size


def _is_closed(folder: Path) -> bool:
    is_code = not folder.name.startswith(".") and folder.name not in _SKIPPED
    return is_code and not os.access(folder, os.R_OK | os.X_OK)


def _is_foreign(folder: Path) -> bool:
    """Whether a folder is a virtual environment or an earlier run, not code."""
    return os.path.exists(folder / "pyvenv.cfg") or os.path.exists(folder / "run.json")


def _is_of_kernel(path: Path) -> bool:
    """Whether a link leads to a file that the kernel makes as it is read: it has no size, and may have no end."""
    return path.is_symlink() and os.path.realpath(path).startswith(("/proc/", "/sys/", "/dev/"))


def copy(snapshot: Snapshot, target: Path) -> None:
    """Copy the files to ``target``, and ``hpclaunch.training`` beside them, so that any Python can import it."""
    for name in snapshot.files:
        destination = target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(snapshot.folder / name, destination)
    package = target / "hpclaunch"
    if not package.exists():
        package.mkdir()
        shutil.copy2(PACKAGE / "__init__.py", package / "__init__.py")
        shutil.copytree(PACKAGE / "training", package / "training", ignore=shutil.ignore_patterns("__pycache__"))


def fingerprint(code: Code) -> str:
    """Return a SHA-256 over names and contents of all files that ``choose`` returns. Raises OSError, OverflowError."""
    found = choose(code)
    digest = hashlib.sha256()
    for name in found.files:
        content = (found.folder / name).read_bytes()
        digest.update(f"{len(os.fsencode(name))} {len(content)}\n".encode() + os.fsencode(name) + content)
    return digest.hexdigest()


def faults_of(code: Code) -> list[Fault]:
    """Return why the code cannot be copied: it is missing, not readable or executable, or too large."""
    return _script_faults(code) or _folder_faults(code)


def _script_faults(code: Code) -> list[Fault]:
    entry = Path(code.folder) / code.entry
    if code.entry and os.path.isdir(code.folder) and not os.access(code.folder, os.X_OK):
        return [Fault(where=code.folder, what="you may not enter this folder", next=_owner_of(code.folder))]
    if code.entry and not os.path.isfile(entry):
        missing = "is not a file" if os.path.exists(entry) else "does not exist"
        return [Fault(where=str(entry), what=f"the script {missing}", next="check the path, or hpclaunch jobs list")]
    if code.entry and not os.access(entry, os.R_OK):
        return [Fault(where=str(entry), what="the script cannot be read", next=f"chmod u+r {entry}")]
    if code.source_only and entry.suffix not in (".py", ".sh") and not os.access(entry, os.X_OK):
        return [Fault(where=str(entry), what="the script cannot be executed", next=f"chmod u+x {entry}")]
    return []


def _folder_faults(code: Code) -> list[Fault]:
    try:
        closed = choose(code).closed
    except OverflowError as error:
        return [Fault(where=code.folder, what=str(error), next="keep data and results outside the job's folder")]
    if closed and not code.source_only:  # a job is copied completely or refused
        place = str(Path(code.folder) / closed[0])
        return [Fault(where=place, what="you may not read this part of the job", next=_owner_of(place))]
    return []


def _owner_of(place: str) -> str:
    return f"ls -ld {shlex.quote(place)} names its owner"
