"""Whether a later start of the same run has superseded this one, by one look at the claims in the run directory.

When a node is cut off, the scheduler may start its job again elsewhere while the old ranks are alive, and they come
back with the network. Every start of a run claims its directory: the script writes claims/N, and exports N as
HPCLAUNCH_START. So a start is superseded as soon as claims/(N+1) exists. Without that variable, as in a program that
was started by hand, no start is ever superseded.
"""

from __future__ import annotations

import os

START_VARIABLE = "HPCLAUNCH_START"
RUN_VARIABLE = "HPCLAUNCH_RUN_DIR"
CLAIMS = "claims"


def number() -> int:
    """The number of this start of the run, from 1; 0 without a script that gives it one."""
    text = os.environ.get(START_VARIABLE, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def is_superseded() -> bool:
    """Whether a later start has claimed the run directory: one open, one stat, one close.

    The folder is opened first, because a client of NFS answers a plain stat of a missing name from its cache for up to
    a minute (acdirmax of nfs(5)). To open a folder makes it ask the server for the folder's attributes (close-to-open
    consistency; Linux, fs/nfs/dir.c: nfs_lookup_verify_inode), and a folder that has changed ends what was cached of
    its missing names (nfs_neg_need_reval). A listing would open it as well, and transfer all names.

    If the look itself fails, nothing is known, and the answer is False: a fault of the file system is no reason to end
    a sound training.
    """
    start, run_dir = number(), os.environ.get(RUN_VARIABLE)
    if not start or not run_dir:
        return False
    try:
        claims = os.open(os.path.join(run_dir, CLAIMS), os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        os.stat(str(start + 1), dir_fd=claims, follow_symlinks=False)
        return True
    except OSError:
        return False
    finally:
        os.close(claims)


def reason() -> str:
    """Why the ranks of a superseded start end, in one sentence."""
    text = "start {} of this run ends here and writes nothing more: a later start has taken the run over (claims/{})"
    return text.format(number(), number() + 1)
