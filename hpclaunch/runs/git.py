"""The commit of a run's code, as git knows it; it starts no program that a repository names.

A repository can name programs for many of git's commands: ``core.fsmonitor`` and hooks for those that read its index,
filters for those that read its files (``git status``, ``git diff``), transports for those that fetch missing objects.
``rev-parse`` and ``ls-tree`` read only commits and trees; the files are compared here. Sources: the manuals git-config,
gitattributes, and "Environment Variables" of git.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

from hpclaunch.core import waiting
from hpclaunch.runs.snapshot import Snapshot

_GIT = ("git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
# An old git ignores what it does not know. No transport is allowed, so no object is fetched, whatever the version is.
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
_SECONDS = 10
_COMMIT = "[0-9a-f]{40}|[0-9a-f]{64}"
_LINK = "120000"


def git_state(snapshot: Snapshot) -> str:
    """Return the commit of the code, with ``+changes`` if the files of the run differ from it, byte for byte.

    Empty outside a repository. A comparison that fails counts as a difference.
    """
    if snapshot.source.repository is None and "GIT_DIR" not in os.environ:
        return ""  # git would look in the same folders
    try:
        commit = _git(snapshot.folder, "rev-parse", "--verify", "--quiet", "HEAD").decode("ascii", "replace").strip()
        if not re.fullmatch(_COMMIT, commit):
            return ""
    except (OSError, waiting.TooLong, subprocess.SubprocessError):
        return ""
    try:
        return f"{commit}+changes" if _differs(snapshot, commit) else commit
    except (OSError, ValueError, waiting.TooLong, subprocess.SubprocessError):
        return f"{commit}+changes"


def _git(folder: Path, *words: str) -> bytes:
    """Return the output of git. Raises OSError, TooLong and SubprocessError, also for a code other than 0."""
    command = [*_GIT, "-C", str(folder), *words]
    environment = {**os.environ, **_ENVIRONMENT}
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(command, stdin=nothing, stdout=pipe, stderr=nothing, env=environment) as process:
        try:
            output, _ = waiting.communicate(process, "git", _SECONDS)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return output


def _differs(snapshot: Snapshot, commit: str) -> bool:
    """Whether a copied file is not that of the commit, or a file of the commit beside the copied ones is missing."""
    folders = sorted({os.path.dirname(name) for name in snapshot.files} | {""})
    listing = _git(snapshot.folder, "ls-tree", "-z", commit, "--", *(f"./{folder}/" for folder in folders))
    committed = dict(_entry(line) for line in listing.split(b"\0") if line)
    for name in snapshot.files:
        mode, number = committed.get(os.fsencode(name), ("", ""))
        if not number or _blob(snapshot, name, mode == _LINK, len(number)) != number:
            return True
    if snapshot.is_part:  # too much to compare
        return True
    listed = {os.fsencode(name) for name in snapshot.source.found.entries}
    return not all(
        name in listed or os.path.lexists(os.path.join(os.fsencode(snapshot.folder), name)) for name in committed
    )


def _entry(line: bytes) -> tuple[bytes, tuple[str, str]]:
    """Return a line of ``ls-tree`` (mode, type, object, a tab, the path) as path -> (mode, object)."""
    about, _, path = line.partition(b"\t")
    mode, _, number = about.decode("ascii").split(" ")
    return path, (mode, number)


def _blob(snapshot: Snapshot, name: str, is_link: bool, digits: int) -> str:
    """Return the number that git gives a file's content: SHA-1, or SHA-256 where numbers have 64 digits."""
    content = os.fsencode(os.readlink(snapshot.folder / name)) if is_link else snapshot.source.content(name)
    text = b"blob %d\0" % len(content) + content
    return (hashlib.sha256(text) if digits == 64 else hashlib.sha1(text, usedforsecurity=False)).hexdigest()
