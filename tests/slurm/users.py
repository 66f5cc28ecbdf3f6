"""Ordinary users for the tests on the cluster: the test process becomes one; root may do in Slurm what no user may."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterator

TESTER = "hpclaunch-tester"
OTHER = "hpclaunch-other"
_GROUPS_OF_ROOT = os.getgroups()


@contextlib.contextmanager
def as_user(name: str) -> Iterator[None]:
    """Be that user until the end of the block: the user's are all files written in it, and all programs started in it.

    The saved user ID stays that of root, so that the process can change back. A program that it starts does not get
    this ID, and can never become root.
    """
    before = os.getuid()
    _become(pwd.getpwnam(name))
    try:
        yield
    finally:
        _become(pwd.getpwuid(before))


def as_root() -> contextlib.AbstractContextManager[None]:
    """For what only the cluster's operator may do: its daemons, its nodes, a longer walltime."""
    return as_user("root")


def _become(user: pwd.struct_passwd) -> None:
    os.setresuid(0, 0, 0)
    os.setresgid(user.pw_gid, user.pw_gid, 0)
    os.setgroups([] if user.pw_uid else _GROUPS_OF_ROOT)
    os.setresuid(user.pw_uid, user.pw_uid, 0)
