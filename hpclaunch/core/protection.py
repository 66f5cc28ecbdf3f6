"""Whether somebody else can change a file or a folder; the one rule for everything that hpclaunch takes from folders.

Nobody else can, if this holds for the path with all its links followed, from the root folder on:

1. Every folder on the way, and the file itself, belongs to this user or to root.
2. Nobody else may write to the file, to the folder that holds it, or to a folder that was named.
3. Nobody else may write to a folder higher up, unless it is sticky and what is next on the way is a folder of this user
   or of root: its entries can then be renamed only by their owners. (A file is not enough: in a sticky folder others
   can give a file of this user another name, by a hard link.)

4. Write permissions count only for those who can get there: below a folder of this user that neither its group nor
   others may enter (``drwx------``) they do not count.

Above the user's home folder nothing counts: who can exchange the home folder owns the account already, and sshd's
StrictModes ends there too. The group's write permission does not count for the private group of the user, which has the
user's name and no other member (``umask 002`` of Debian and Red Hat). With a POSIX ACL the permission of the group is
the ACL's mask, the most that any named user or group has, so an ACL that lets others write is seen; a private group is
then not enough. ACLs of NFSv4 are seen only as far as the server shows them in the mode.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from functools import lru_cache
from pathlib import Path

from hpclaunch.core.records import record

_MOST_LINKS = 40
"""As many links as the kernel follows in one path."""
_USERS, _UNMAPPED = Path("/proc/self/uid_map"), Path("/proc/sys/fs/overflowuid")
"""Which users this user namespace has, and the number that all others have in it (user_namespaces(7))."""
_NO_ACL = (errno.ENODATA, errno.ENOTSUP)


@record
class WeakPlace:
    """A file or folder that somebody else can change, in words why, and what identifies it with these permissions."""

    path: str
    why: str
    owner: int
    group: int
    mode: int
    inode: int

    @property
    def identity(self) -> tuple[str, int, int, int, int]:
        """What a consent is for: it ends when one of these changes."""
        return self.path, self.owner, self.group, self.mode, self.inode

    def __str__(self) -> str:
        return f"{self.path} {self.why}"


def place_of(path: str, why: str = "") -> WeakPlace:
    """Return what identifies a file or folder. Raises OSError."""
    return _place(path, os.stat(path), why)


def weakness(path: str) -> str:
    """Return in words who else can change what is in a file or folder itself; empty if nobody can. Raises OSError."""
    about = os.lstat(path)
    return _others(about) or _writers(path, about)


def weak_places(path: Path | str, home: Path | str = "") -> list[WeakPlace]:
    """Return where somebody else can change what ``path`` is, or its content; none if nobody else can.

    ``home`` is the user's home folder. What does not exist, or cannot be looked at, ends the path: it cannot be read
    either. Runs no program, and reads no file but those of the system that name users and groups.
    """
    walk = _Walk(_homes(str(home)))
    walk.follow(os.path.join(os.getcwd(), os.fspath(path)))
    return list(walk.found.values())


class _Walk:
    """Follows a path from the root folder, as the kernel does, and looks at each folder in which it looks up a name."""

    def __init__(self, homes: tuple[str, ...]) -> None:
        self.found: dict[str, WeakPlace] = {}
        self._homes = homes
        self._is_closed = False
        """Whether a folder on the way lets nobody else in."""

    def follow(self, path: str) -> None:
        current, names = self._start_of(path)
        links = 0
        try:
            folder = os.lstat(current)
            while names:
                name = names.pop()
                if name == "..":
                    self._is_closed = False
                    current = os.path.dirname(current)
                    folder = os.lstat(current)
                    continue
                entry = os.path.join(current, name)
                about = os.lstat(entry)
                self._look_at_folder(current, folder, about, holds_the_file=not names)
                if not stat.S_ISLNK(about.st_mode):
                    current, folder = entry, about
                    continue
                links += 1
                if links > _MOST_LINKS:
                    return
                target = os.readlink(entry)
                if target.startswith("/"):
                    self._is_closed = False
                    current, before = self._start_of(target)
                    folder = os.lstat(current)
                else:
                    before = _names_in(target)
                names += before
        except (OSError, ValueError):  # ValueError: a name that no file can have
            return
        self._note(current, folder, _others(folder) or self._writers(current, folder))

    def _start_of(self, path: str) -> tuple[str, list[str]]:
        """Return the folder from which on an absolute path counts, and the names that follow, the last one first."""
        for home in self._homes:
            if path == home or path.startswith(f"{home}/"):
                names = _names_in(path[len(home) :])
                if ".." not in names:
                    return self._homes[-1], names
        return "/", _names_in(path)

    def _look_at_folder(
        self, path: str, folder: os.stat_result, entry: os.stat_result, *, holds_the_file: bool
    ) -> None:
        """Note a folder on the way in which somebody else can exchange ``entry``."""
        is_far = stat.S_ISDIR(entry.st_mode) and not holds_the_file
        others = "" if is_far and folder.st_uid == _unmapped_owner() else _others(folder)
        keeps = folder.st_mode & stat.S_ISVTX and stat.S_ISDIR(entry.st_mode) and not _others(entry)
        self._note(path, folder, others or ("" if keeps else self._writers(path, folder)))

    def _writers(self, path: str, about: os.stat_result) -> str:
        """Return in words who else may write to a file or folder, and can get there."""
        if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid():
            self._is_closed |= not about.st_mode & (stat.S_IXGRP | stat.S_IXOTH)
        return "" if self._is_closed else _writers(path, about)

    def _note(self, path: str, about: os.stat_result, why: str) -> None:
        if why:
            self.found.setdefault(path, _place(path, about, why))


def _place(path: str, about: os.stat_result, why: str) -> WeakPlace:
    mode = stat.S_IMODE(about.st_mode)
    return WeakPlace(path=path, why=why, owner=about.st_uid, group=about.st_gid, mode=mode, inode=about.st_ino)


def _names_in(path: str) -> list[str]:
    """Return the names in a path, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


@lru_cache
def _homes(home: str) -> tuple[str, ...]:
    """Return the home folder as it is named, and without links; nothing for a home that is no folder of its own."""
    real = os.path.realpath(home) if home.startswith("/") else "/"
    return (home.rstrip("/"), real) if real != "/" else ()


def _others(about: os.stat_result) -> str:
    """Return in words whose a file or folder is, if it is neither this user's nor root's."""
    if about.st_uid in (os.geteuid(), 0):
        return ""
    return f"belongs to {_user_named(about.st_uid)}"


def _user_named(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"the user with uid {uid}"


def _writers(path: str, about: os.stat_result) -> str:
    """Return in words who else may write to a file or folder."""
    if about.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if about.st_mode & stat.S_IWGRP and not (about.st_gid == private_group(os.geteuid()) and not _has_acl(path)):
        return f"can be written by the group {_group_named(about.st_gid)}"
    return ""


def _group_named(gid: int) -> str:
    try:
        return f"{grp.getgrgid(gid).gr_name} (gid {gid})"
    except KeyError:
        return f"with gid {gid}"


@lru_cache
def private_group(uid: int) -> int:
    """Return the number of the group that only this user is in; -1 if that is not known.

    It is the user's primary group, has the user's name and lists no other member. Whether it is the primary group of
    somebody else too cannot be asked where users come from a directory service; ``useradd`` gives no two users one
    group of that name.
    """
    try:
        person = pwd.getpwuid(uid)
        group = grp.getgrgid(person.pw_gid)
    except KeyError:
        return -1
    is_private = group.gr_name == person.pw_name and set(group.gr_mem) <= {person.pw_name}
    return group.gr_gid if is_private else -1


def _has_acl(path: str) -> bool:
    """Whether a POSIX ACL may let others write, as far as that is known."""
    try:
        os.getxattr(path, "system.posix_acl_access")
    except OSError as error:
        return error.errno not in _NO_ACL
    return True


@lru_cache
def _unmapped_owner() -> int:
    """Return the number that root's files have in a user namespace without the machine's root; -1 in any other.

    In a container without a setuid program `/` and `/home` belong to nobody. Somebody else's folders look the same
    there, so this counts only for folders higher up.
    """
    try:
        lines = [line.split() for line in _USERS.read_text(encoding="ascii").splitlines()]
        if any(outside == "0" for _, outside, _ in lines):
            return -1
        return int(_UNMAPPED.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return -1
