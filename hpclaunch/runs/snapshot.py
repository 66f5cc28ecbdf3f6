"""Chooses the files of the user's code for a run, and copies them.

Of a job, the whole folder is copied. Beside a script of the user's own, these are: Python and shell files; of the other
files those that git tracks, or without a repository all; and those that --include names. What ``.hpclaunchignore``
names stays out. Too much is refused, never reduced. What is copied through a link that leads out of the folder is
noted: a program may need it, but nobody has put it there to be passed on.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import Path

from hpclaunch.core.errors import Fault
from hpclaunch.core.files import json_object, write_all
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.core.spec import Code
from hpclaunch.runs import training_library
from hpclaunch.runs.code_files import IGNORE_FILE, MOST_LOOKED_AT, CodeFiles, Test, UnusableCode
from hpclaunch.runs.code_folder import CodeFolder, CodeFolders

CODE_SUFFIXES = (".py", ".sh", ".so")
"""Files without which a script may not even begin: they are copied whether or not git tracks them."""
FROM_OUTSIDE = "code_files_from_outside"
"""The key in environment.json of the names of copied files to which a link out of the folder led."""
_MOST_BYTES_AT_ONCE = 2**30
MOST_FILES = 5_000
MOST_BYTES = 100 * 2**20


@record
class Snapshot:
    """Files to copy, relative to ``folder``, and ``links`` (name, absolute target) to make.

    ``size`` is in bytes. ``rule``: why these, in words. ``left_out``: how many other files there are. ``closed``: files
    and folders that are not copied, because this user may not read them. ``from_outside``: those of the files that are
    copied through a link which leads out of the folder, or that an earlier run copied so. ``in_place``: nothing is
    copied; ``files`` are then what would be, or none with ``is_part`` if that is too much. ``source`` has their
    content.
    """

    source: CodeFolder = field(compare=False, repr=False)
    files: tuple[str, ...]
    links: tuple[tuple[str, str], ...] = ()
    size: int = 0
    rule: str = ""
    left_out: int = 0
    closed: tuple[str, ...] = ()
    from_outside: tuple[str, ...] = ()
    in_place: bool = False
    is_part: bool = False

    @property
    def folder(self) -> Path:
        """The folder that the names are relative to."""
        return self.source.path


def choose(code: Code, folders: CodeFolders | None = None) -> Snapshot:
    """Return what to copy. Raises UnusableCode if that is too much, or if what the user named is not there.

    ``folders``: those that the command has examined already.
    """
    source = (folders or CodeFolders()).at(code.folder)
    if code.recorded:
        return _whole_copy(source)
    if not code.in_place:
        return _choose(code, source)
    try:
        return Snapshot(source=source, files=_choose(code, source).files, in_place=True)
    except UnusableCode:
        return Snapshot(source=source, files=(), in_place=True, is_part=True)


def _choose(code: Code, source: CodeFolder) -> Snapshot:
    folder, found = source.path, source.found
    _check_included(code, found)
    rule, is_wanted = _rule_of(code, source.tracked if code.source_only else None)
    wanted = [name for name in found.names if is_wanted(name)]
    outward = [name for name in wanted if name in found.links and _leads_out(folder, name)]
    links: list[str] = []
    if code.source_only:
        # The copy gets a link in place of what is no code, as such files may be large.
        links = [*found.folder_links, *(name for name in outward if not name.endswith(CODE_SUFFIXES))]
    copied = sorted({*wanted}.difference(links))
    if found.is_part or len(copied) > MOST_FILES:
        raise UnusableCode(_too_many(code, copied, found.is_part))
    sizes, closed = _sizes_of(source, copied)
    if sum(sizes.values()) > MOST_BYTES:
        raise UnusableCode(_too_large(code, sizes))
    return Snapshot(
        source=source,
        files=tuple(sizes),
        links=tuple((name, os.path.realpath(folder / name)) for name in sorted(links)),
        size=sum(sizes.values()),
        rule=rule,
        left_out=sum(not _is_hidden(name) for name in {*found.names}.difference(wanted)),
        closed=(*found.closed, *closed),
        from_outside=tuple(name for name in outward if name in sizes),
    )


def _whole_copy(source: CodeFolder) -> Snapshot:
    """Return everything in an earlier run's copy of its code, with the training library that the run had.

    The rules of a first copy do not hold here: git tracks nothing below a run directory, and a list of ignored files
    was followed before. What Python compiled stays out.
    """
    folder = source.path
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
    sizes, closed = _sizes_of(source, sorted(files))
    return Snapshot(
        source=source,
        files=tuple(sizes),
        links=tuple(links),
        size=sum(sizes.values()),
        rule="the run's own copy",
        closed=tuple(closed),
        from_outside=tuple(name for name in recorded_from_outside(folder.parent) if name in sizes),
    )


def recorded_from_outside(run: Path) -> list[str]:
    """Return the files of a run's code that were copied through a link out of their folder, as its record names them.

    The record of a run that is older than this list names none.
    """
    from hpclaunch.core import inside  # only a run's own copy of its code has a record

    names = json_object(inside.read_text(run, "environment.json")).get(FROM_OUTSIDE)
    return [str(name) for name in names] if isinstance(names, list) else []


def _link_at(folder: Path, place: str, name: str) -> tuple[str, str]:
    path = os.path.join(place, name)
    return os.path.relpath(path, folder), os.path.realpath(path)


def _sizes_of(source: CodeFolder, names: Iterable[str]) -> tuple[dict[str, int], list[str]]:
    """Return the size in bytes of each file that this user may read, in order, and the names of the others."""
    about = {name: source.about(name) for name in names}
    sizes = {name: one.st_size for name, one in about.items() if one is not None}
    return sizes, [name for name, one in about.items() if one is None]


def _leads_out(folder: Path, name: str) -> bool:
    """Whether a link leads out of the folder."""
    return Path(os.path.realpath(folder)) not in Path(os.path.realpath(folder / name)).parents


def _rule_of(code: Code, tracked: frozenset[str] | None) -> tuple[str, Test]:
    """Return the rule in words, and whether it takes a file."""
    if not code.source_only:
        return "the job's folder", lambda name: not _is_hidden(name)

    def is_code(name: str) -> bool:
        named = name == code.entry or matches(name, code.include)
        return named or (name.endswith(CODE_SUFFIXES) and not _is_hidden(name))

    included = " and --include" if code.include else ""
    if tracked:
        return f"tracked by git, and *.py, *.sh, *.so{included}", lambda name: name in tracked or is_code(name)
    if code.include:
        return f"*.py, *.sh, *.so{included}", is_code
    return "all files beside the script", lambda name: not _is_hidden(name) or is_code(name)


def _is_hidden(name: str) -> bool:
    return os.path.basename(name).startswith(".")


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern of --include matches a path, its last part, or a folder that it is in."""
    return any(_matches_one(name, pattern) for pattern in patterns)


def _matches_one(name: str, pattern: str) -> bool:
    is_inside = fnmatch.fnmatchcase(name, f"{pattern.rstrip('/')}/*")
    if is_inside or fnmatch.fnmatchcase(name, pattern):
        return True
    return "/" not in pattern and fnmatch.fnmatchcase(os.path.basename(name), pattern)


def _check_included(code: Code, found: CodeFiles) -> None:
    for pattern in code.include:
        if not any(matches(name, [pattern]) for name in found.names):
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


def copy(snapshot: Snapshot, target: Path, with_library: bool = False) -> None:
    """Copy the files to ``target``, and ``hpclaunch.training`` beside them if they may import it.

    They may if one of them names hpclaunch, or if not all of them are looked at: code in place, what links lead to, and
    large files. ``with_library``: in any case. A folder ``hpclaunch`` of the user's own is left alone. Raises OSError.
    """
    files, links = ((), ()) if snapshot.in_place else (snapshot.files, snapshot.links)
    with contextlib.suppress(FileExistsError):
        target.mkdir()
    for folder in _folders_of([*files, *(name for name, _ in links)]):
        (target / folder).mkdir()
    for name in files:
        _copy_file(snapshot.source, name, target / name)
    for name, place in links:
        (target / name).symlink_to(place)
    has_own = any(name.partition("/")[0] == training_library.FOLDER for name in (*files, *dict(links)))
    if not has_own and (with_library or _may_import_library(snapshot)):
        training_library.write_library(target)


def _may_import_library(snapshot: Snapshot) -> bool:
    if snapshot.in_place or snapshot.links:
        return True
    contents = [snapshot.source.kept(name) for name in snapshot.files]
    return any(content is None or training_library.is_named(content) for content in contents)


def _folders_of(names: Iterable[str]) -> list[str]:
    """Return the folders that hold these files, each after the one that it is in."""
    found: set[str] = set()
    for name in names:
        while (name := os.path.dirname(name)) and name not in found:
            found.add(name)
    return sorted(found)


def _copy_file(source: CodeFolder, name: str, target: Path) -> None:
    """Copy a file with its permissions and the time of its last change."""
    about, content = source.about(name), source.kept(name)
    if about is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source.path / name))
    copied = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if content is None:
            _copy_content(source.path / name, copied)
        else:
            write_all(copied, content)
        os.fchmod(copied, stat.S_IMODE(about.st_mode))
        os.utime(copied, ns=(about.st_atime_ns, about.st_mtime_ns))
    finally:
        os.close(copied)


def _copy_content(source: Path, copied: int) -> None:
    """Copy the bytes of a large file inside the kernel."""
    original = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        at = 0
        while sent := os.sendfile(copied, original, at, _MOST_BYTES_AT_ONCE):
            at += sent
    finally:
        os.close(original)


def fingerprint(code: Code, folders: CodeFolders | None = None) -> str:
    """Return a SHA-256 over names and contents of all files that ``choose`` returns. Raises OSError, UnusableCode."""
    found = choose(code, folders)
    digest = hashlib.sha256()
    # A recorded copy has the training library beside the code, which is no part of a job's own code.
    library = f"{training_library.FOLDER}/"
    for name in (name for name in found.files if not (code.recorded and name.startswith(library))):
        content = found.source.content(name)
        digest.update(f"{len(os.fsencode(name))} {len(content)}\n".encode() + os.fsencode(name) + content)
    return digest.hexdigest()


def faults_of(code: Code, folders: CodeFolders | None = None) -> list[Fault]:
    """Return why the code cannot be copied: it is missing, not readable or executable, or too large."""
    return examine(code, folders)[1]


def examine(code: Code, folders: CodeFolders | None = None) -> tuple[Snapshot | None, list[Fault]]:
    """Return what to copy, and every reason why the code cannot be copied; without one of the two, the other is set.

    ``folders``: those that the command has examined already; what was found there is not looked for again.
    """
    folders = folders or CodeFolders()
    known: dict[Code, tuple[Snapshot | None, list[Fault]]] = folders.at(code.folder).examined
    if code not in known:
        known[code] = _examine(code, folders)
    return known[code]


def _examine(code: Code, folders: CodeFolders) -> tuple[Snapshot | None, list[Fault]]:
    faults = _script_faults(code)
    if faults:
        return None, faults
    try:
        found = choose(code, folders)
    except UnusableCode as error:
        return None, [error.fault]
    if found.closed and not code.source_only:  # a job is copied completely or refused
        place = str(Path(code.folder) / found.closed[0])
        return None, [Fault(where=place, what="you may not read this part of the job", next=_owner_of(place))]
    return found, []


def missing_script(path: Path) -> list[Fault]:
    """Return why there is no script at a path."""
    if os.path.isfile(path):
        return []
    missing = "is not a file" if os.path.exists(path) else "does not exist"
    return [Fault(where=str(path), what=f"the script {missing}", next="check the path, or hpclaunch jobs list")]


def _script_faults(code: Code) -> list[Fault]:
    entry = Path(code.folder) / code.entry
    if code.entry and os.path.isdir(code.folder) and not os.access(code.folder, os.X_OK):
        return [Fault(where=code.folder, what="you may not enter this folder", next=_owner_of(code.folder))]
    missing = missing_script(entry) if code.entry else []
    if missing:
        return missing
    if code.entry and not os.access(entry, os.R_OK):
        return [Fault(where=str(entry), what="the script cannot be read", next=f"chmod u+r {entry}")]
    if code.entry and code.source_only and entry.suffix not in (".py", ".sh") and not os.access(entry, os.X_OK):
        return [Fault(where=str(entry), what="the script cannot be executed", next=f"chmod u+x {entry}")]
    return []


def _owner_of(place: str) -> str:
    return f"ls -ld {shell_word(place)} names its owner"
