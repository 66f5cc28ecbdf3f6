"""Chooses the files of the user's code for a run, and copies them.

Of a job, the whole folder is copied. Beside a script of the user's own, these are: Python and shell files; of the other
files those that git tracks, or without a repository all; and those that --include names. What ``.hpclaunchignore``
names stays out. Too much is refused, never reduced.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hpclaunch.core.errors import Fault
from hpclaunch.core.folders import PACKAGE
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.core.spec import Code
from hpclaunch.runs.code_files import IGNORE_FILE, MOST_LOOKED_AT, CodeFiles, Test, UnusableCode, code_files
from hpclaunch.runs.tracked import tracked_in

CODE_SUFFIXES = (".py", ".sh", ".so")
"""Files without which a script may not even begin: they are copied whether or not git tracks them."""
_MOST_BYTES_AT_ONCE = 2**30
_LIBRARY_FOLDER = "hpclaunch/"
MOST_FILES = 5_000
MOST_BYTES = 100 * 2**20


@record
class Snapshot:
    """Files to copy, relative to ``folder``, and ``links`` (name, absolute target) to make.

    ``size`` is in bytes. ``rule``: why these, in words. ``left_out``: how many other files there are. ``closed``: files
    and folders that are not copied, because this user may not read them. ``in_place``: nothing is copied; ``files``
    are then what would be, or none with ``is_part`` if that is too much.
    """

    folder: Path
    files: tuple[str, ...]
    links: tuple[tuple[str, str], ...] = ()
    size: int = 0
    rule: str = ""
    left_out: int = 0
    closed: tuple[str, ...] = ()
    in_place: bool = False
    is_part: bool = False


def choose(code: Code) -> Snapshot:
    """Return what to copy. Raises UnusableCode if that is too much, or if what the user named is not there."""
    if code.recorded:
        return _whole_copy(Path(code.folder))
    if not code.in_place:
        return _choose(code)
    try:
        return Snapshot(folder=Path(code.folder), files=_choose(code).files, in_place=True)
    except UnusableCode:
        return Snapshot(folder=Path(code.folder), files=(), in_place=True, is_part=True)


def _choose(code: Code) -> Snapshot:
    folder, found = Path(code.folder), code_files(Path(code.folder))
    _check_included(code, found)
    rule, is_wanted = _rule_of(code, tracked_in(folder) if code.source_only else None)
    wanted = [name for name in found.names if is_wanted(name)]
    links = [*found.folder_links, *(name for name in wanted if _leads_out(folder, name))] if code.source_only else []
    copied = sorted({*wanted}.difference(links))
    if found.is_part or len(copied) > MOST_FILES:
        raise UnusableCode(_too_many(code, copied, found.is_part))
    files, closed = _split_readable(folder, copied)
    sizes = {name: (folder / name).stat().st_size for name in files}
    if sum(sizes.values()) > MOST_BYTES:
        raise UnusableCode(_too_large(code, sizes))
    return Snapshot(
        folder=folder,
        files=tuple(files),
        links=tuple((name, os.path.realpath(folder / name)) for name in sorted(links)),
        size=sum(sizes.values()),
        rule=rule,
        left_out=sum(not _is_hidden(name) for name in {*found.names}.difference(wanted)),
        closed=(*found.closed, *closed),
    )


def _whole_copy(folder: Path) -> Snapshot:
    """Return everything in an earlier run's copy of its code, with the training library that the run had.

    The rules of a first copy do not hold here: git tracks nothing below a run directory, and a list of ignored files
    was followed before. What Python compiled stays out.
    """
    files: list[str] = []
    links: list[tuple[str, str]] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in sorted(folders) if name != "__pycache__"]
        linked = {name for name in (*folders, *names) if os.path.islink(os.path.join(place, name))}
        links += [_link_at(folder, place, name) for name in sorted(linked)]
        files += [
            os.path.relpath(os.path.join(place, name), folder)
            for name in sorted({*names} - linked)
            if not name.endswith(".pyc")
        ]
    readable, closed = _split_readable(folder, files)
    return Snapshot(
        folder=folder,
        files=tuple(readable),
        links=tuple(links),
        size=sum((folder / name).stat().st_size for name in readable),
        rule="the run's own copy",
        closed=tuple(closed),
    )


def _link_at(folder: Path, place: str, name: str) -> tuple[str, str]:
    path = os.path.join(place, name)
    return os.path.relpath(path, folder), os.path.realpath(path)


def _split_readable(folder: Path, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files that this user may read, and the others."""
    closed = [name for name in names if not os.access(folder / name, os.R_OK)]
    return sorted({*names}.difference(closed)), closed


def _leads_out(folder: Path, name: str) -> bool:
    """Whether a file that is no code is a link out of the folder: the copy gets a link, as such files may be large."""
    if name.endswith(CODE_SUFFIXES) or not os.path.islink(folder / name):
        return False
    return Path(os.path.realpath(folder)) not in Path(os.path.realpath(folder / name)).parents


def _rule_of(code: Code, tracked: frozenset[str] | None) -> tuple[str, Test]:
    """Return the rule in words, and whether it takes a file."""
    if not code.source_only:
        return "the job's folder", lambda name: not _is_hidden(name)

    def is_code(name: str) -> bool:
        named = name == code.entry or _matches(name, code.include)
        return named or (name.endswith(CODE_SUFFIXES) and not _is_hidden(name))

    included = " and --include" if code.include else ""
    if tracked:
        return f"tracked by git, and *.py, *.sh, *.so{included}", lambda name: name in tracked or is_code(name)
    if code.include:
        return f"*.py, *.sh, *.so{included}", is_code
    return "all files beside the script", lambda name: not _is_hidden(name) or is_code(name)


def _is_hidden(name: str) -> bool:
    return os.path.basename(name).startswith(".")


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern of --include matches a path, its last part, or a folder that it is in."""
    return any(
        fnmatch.fnmatchcase(name, pattern)
        or fnmatch.fnmatchcase(name, f"{pattern.rstrip('/')}/*")
        or ("/" not in pattern and fnmatch.fnmatchcase(os.path.basename(name), pattern))
        for pattern in patterns
    )


def _check_included(code: Code, found: CodeFiles) -> None:
    for pattern in code.include:
        if not any(_matches(name, [pattern]) for name in found.names):
            what = f"no file beside {code.entry} matches {pattern!r}"
            allowed = f"a pattern such as '*.csv', or a folder, in {code.folder}"
            raise UnusableCode(
                Fault(where="--include", what=what, allowed=allowed, next=f"ls {shell_word(code.folder)}")
            )


def _too_many(code: Code, names: Sequence[str], is_part: bool) -> Fault:
    groups = Counter((os.path.dirname(name), os.path.splitext(name)[1]) for name in names)
    (folder, suffix), number = groups.most_common(1)[0] if groups else (("", ""), 0)
    kind = f"*{suffix}" if suffix else "files without a suffix"
    most = f", {number:,} of them {kind} in {folder or 'the same folder'}" if number else ""
    if is_part:
        what = f"there are more than {MOST_LOOKED_AT:,} files{most}"
        return _refusal(code, what, f"at most {MOST_LOOKED_AT:,} files, of which at most {MOST_FILES:,} are copied")
    what = f"{len(names):,} files would be copied{most}"
    return _refusal(code, what, f"at most {MOST_FILES:,} files and {MOST_BYTES // 2**20} MB")


def _too_large(code: Code, sizes: dict[str, int]) -> Fault:
    largest = max(sizes, key=lambda name: sizes[name])
    what = f"{_megabytes(sum(sizes.values()))} would be copied, {_megabytes(sizes[largest])} of them {largest}"
    return _refusal(code, what, f"at most {MOST_FILES:,} files and {MOST_BYTES // 2**20} MB")


def _refusal(code: Code, what: str, allowed: str) -> Fault:
    if not code.source_only:
        after = f"keep data outside the job's folder, or name it in its file {IGNORE_FILE}; or --code-in-place"
        return Fault(where=code.folder, what=what, allowed=allowed, next=after)
    after = (
        f"--include '*.csv' copies such files beside the code, and no others; {IGNORE_FILE} names what is not copied; "
        "--code-in-place copies nothing"
    )
    return Fault(where=code.folder, what=what, allowed=allowed, next=after)


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MB"


def copy(snapshot: Snapshot, target: Path) -> None:
    """Copy the files to ``target``, and ``hpclaunch.training`` beside them, so that any Python can import it."""
    target.mkdir(parents=True, exist_ok=True)
    for name in () if snapshot.in_place else snapshot.files:
        destination = target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(snapshot.folder / name, destination)
    for name, place in () if snapshot.in_place else snapshot.links:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).symlink_to(place)
    package = target / "hpclaunch"
    if not package.exists():
        package.mkdir()
        shutil.copy2(PACKAGE / "__init__.py", package / "__init__.py")
        _copy_library(str(PACKAGE / "training"), str(package / "training"))


def _copy_library(source: str, target: str) -> None:
    """Copy a folder of small files, without times and attributes; shutil.copytree takes up to 1.4 times as long."""
    os.mkdir(target)
    with os.scandir(source) as found:
        entries = [entry for entry in found if entry.name != "__pycache__"]
    for entry in entries:
        place = os.path.join(target, entry.name)
        if entry.is_dir():
            _copy_library(entry.path, place)
        else:
            _copy_content(entry.path, place)


def _copy_content(source: str, target: str) -> None:
    """Copy bytes inside the kernel: two thirds of the time of reading and writing them."""
    original = os.open(source, os.O_RDONLY)
    try:
        copied = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            at = 0
            while sent := os.sendfile(copied, original, at, _MOST_BYTES_AT_ONCE):
                at += sent
        finally:
            os.close(copied)
    finally:
        os.close(original)


def fingerprint(code: Code) -> str:
    """Return a SHA-256 over names and contents of all files that ``choose`` returns. Raises OSError, UnusableCode."""
    found = choose(code)
    digest = hashlib.sha256()
    # A recorded copy has the training library beside the code, which is no part of a job's own code.
    for name in (name for name in found.files if not (code.recorded and name.startswith(_LIBRARY_FOLDER))):
        content = (found.folder / name).read_bytes()
        digest.update(f"{len(os.fsencode(name))} {len(content)}\n".encode() + os.fsencode(name) + content)
    return digest.hexdigest()


def faults_of(code: Code) -> list[Fault]:
    """Return why the code cannot be copied: it is missing, not readable or executable, or too large."""
    return examine(code)[1]


def examine(code: Code) -> tuple[Snapshot | None, list[Fault]]:
    """Return what to copy, and every reason why the code cannot be copied; without one of the two, the other is set."""
    faults = _script_faults(code)
    if faults:
        return None, faults
    try:
        found = choose(code)
    except UnusableCode as error:
        return None, [error.fault]
    if found.closed and not code.source_only:  # a job is copied completely or refused
        place = str(Path(code.folder) / found.closed[0])
        return None, [Fault(where=place, what="you may not read this part of the job", next=_owner_of(place))]
    return found, []


def _script_faults(code: Code) -> list[Fault]:
    entry = Path(code.folder) / code.entry
    if code.entry and os.path.isdir(code.folder) and not os.access(code.folder, os.X_OK):
        return [Fault(where=code.folder, what="you may not enter this folder", next=_owner_of(code.folder))]
    if code.entry and not os.path.isfile(entry):
        missing = "is not a file" if os.path.exists(entry) else "does not exist"
        return [Fault(where=str(entry), what=f"the script {missing}", next="check the path, or hpclaunch jobs list")]
    if code.entry and not os.access(entry, os.R_OK):
        return [Fault(where=str(entry), what="the script cannot be read", next=f"chmod u+r {entry}")]
    if code.entry and code.source_only and entry.suffix not in (".py", ".sh") and not os.access(entry, os.X_OK):
        return [Fault(where=str(entry), what="the script cannot be executed", next=f"chmod u+x {entry}")]
    return []


def _owner_of(place: str) -> str:
    return f"ls -ld {shell_word(place)} names its owner"
