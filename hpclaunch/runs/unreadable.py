"""Why the record of a run cannot be read, and what to do about it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from hpclaunch.core import inside
from hpclaunch.core.errors import Fault, NotFound, NotPermitted
from hpclaunch.core.quoting import shell_word


def missing_record(path: Path, file: str, missing: list[str], largest: int) -> NotFound:
    """Return why the record in a run directory cannot be read: no such directory, another user's, or damaged.

    ``missing``: the fields that were not found; ``largest``: the most bytes that a record has.
    """
    try:
        if stat.S_ISLNK(os.lstat(file).st_mode):
            return _unreadable_file(file, OSError(errno.ELOOP, "it is a link, and a record is a regular file"))
        permitted = os.access(file, os.R_OK)
    except PermissionError:
        permitted = False
    except (FileNotFoundError, NotADirectoryError, ValueError):
        # A folder that this user may not list counts as another user's run.
        if not os.path.isdir(path) or os.access(path, os.R_OK):
            return NotFound(Fault(where=str(path), what="is not a run directory", next="hpclaunch runs list"))
        permitted = False
    except OSError as error:
        return _unreadable_file(file, error)
    if not permitted:
        what = "you may not read this: it belongs to another user, or its permissions exclude you"
        place = file if os.access(path, os.R_OK | os.X_OK) else str(path)
        return NotPermitted(Fault(where=place, what=what, next=f"ls -ld {shell_word(place)} names its owner"))
    try:
        inside.read_bytes(os.path.dirname(file), os.path.basename(file), largest)  # opens no pipe, and follows no link
    except OSError as error:
        return _unreadable_file(file, error)
    return damaged_record(Path(file), f"it has no {', '.join(missing)}")


def damaged_record(file: Path, why: str) -> NotFound:
    """Return the error for a record that was read, and is not valid."""
    again = f"hpclaunch submit {shell_word(str(file.parent / 'code'))}"
    next_step = f"the run's other files are in {file.parent}; to run its code again: {again}"
    return NotFound(Fault(where=str(file), what=f"the record cannot be read: {why}", next=next_step))


def _unreadable_file(file: str, error: OSError) -> NotFound:
    next_step = "try again; if it stays so, ask the site's staff about this file system"
    if error.errno in (errno.ELOOP, errno.EINVAL, errno.EPERM):
        next_step = f"hpclaunch did not write it: ls -l {shell_word(file)}"
    return NotFound(Fault(where=file, what=f"the record cannot be read: {error.strerror}", next=next_step))
