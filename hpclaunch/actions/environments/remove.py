"""``environment remove``: deletes environments that hpclaunch made for this user, and nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from hpclaunch.actions.environments import kept
from hpclaunch.actions.environments.kept import KeptEnvironment
from hpclaunch.actions.environments.make import is_at_work
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Fault, Refused, unwritable
from hpclaunch.core.quoting import shell_word


def removable(system: System, named: str, earlier: bool) -> list[KeptEnvironment]:
    """Return the builds of an environment that would be deleted; with ``earlier`` all but the one that runs get.

    Raises NotFound, and Refused for a folder that hpclaunch did not make, that is another user's, or is being built.
    """
    found = kept.find(system, named)
    builds = kept.builds_in(found.path.parent)
    faults = []
    for build in builds:
        if build.recipe.get("format") is None:
            faults.append(_fault(build, "was not made by hpclaunch"))
        elif os.lstat(build.path).st_uid != os.geteuid():
            faults.append(_fault(build, "belongs to another user"))
        elif is_at_work(build):
            faults.append(_fault(build, f"is being built by process {build.value('process')}"))
    if faults:
        raise Refused(faults)
    newest = kept.newest(builds)
    return [build for build in builds if not earlier or newest is None or build.path != newest.path]


def _fault(build: KeptEnvironment, what: str) -> Fault:
    return Fault(where=str(build.path), what=f"{what}, and is kept", next=f"ls -l {shell_word(str(build.path))}")


def remove(builds: list[KeptEnvironment]) -> None:
    """Delete builds, and the folder of their environment if it is empty then. Raises Refused.

    Each gets another name first, so that half of one never looks like an environment.
    """
    for build in builds:
        parting = build.path.with_name(f".removed-{build.path.name}-{os.urandom(4).hex()}")
        try:
            build.path.rename(parting)
            shutil.rmtree(parting)
            _remove_if_empty(build.path.parent)
        except OSError as error:
            raise unwritable(error.filename or build.path, error, "cannot be deleted") from None


def _remove_if_empty(folder: Path) -> None:
    if not os.listdir(folder):
        folder.rmdir()
