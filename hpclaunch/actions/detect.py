"""``sites detect``: finds the site of this machine, or drafts a site file for an unknown Slurm cluster."""

from __future__ import annotations

import grp
import importlib.util
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from hpclaunch import __version__
from hpclaunch.actions.system import System
from hpclaunch.config.catalog import NAME, SITE, Found
from hpclaunch.config.fileformat import read
from hpclaunch.config.site import Site
from hpclaunch.core.errors import Fault, InvalidFile, InvalidRequest, NotFound, Refused
from hpclaunch.core.folders import user_folder
from hpclaunch.core.records import record
from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.core.users import user_name
from hpclaunch.schedulers import Scheduler, scheduler_of
from hpclaunch.sites.describe.draft import Described, Here
from hpclaunch.sites.describe.writing import text_of
from hpclaunch.sites.detect import cluster_name, detect_own_site, detect_site, machine

_MODULES = ("LMOD_CMD", "MODULESHOME")


@record
class SiteDraft:
    """A drafted site file: its values, its text, and its path if it was written."""

    described: Described
    text: str
    path: Path | None = None


def known_site(system: System) -> Found | None:
    """Return the site of this machine, as a submission would detect it, or None."""
    here = machine(system.environment, os.uname().nodename)
    name = detect_own_site(system.catalog, here) or detect_site(here)
    return system.catalog.find(SITE, name) if name else None


def draft_site(system: System) -> SiteDraft:
    """Return a site file for the cluster of this machine. Raises SchedulerError if there is no scheduler."""
    here = _machine_facts(system)
    described = _scheduler_here(system).describe(here)
    words = f"Written by hpclaunch {__version__} (sites detect) on {here.today}. The keys: docs/site-files.md"
    return SiteDraft(described=described, text=text_of(described, words))


def _scheduler_here(system: System) -> Scheduler:
    """Return the scheduler whose programs are on this machine; without any, one that reports this as an error."""
    path = system.environment.get("PATH", os.defpath)
    queued = [name for name, row in SCHEDULERS.items() if row.has_queue]
    present = [name for name in queued if shutil.which(SCHEDULERS[name].start_command, path=path)]
    return scheduler_of((present or queued)[0])


def _machine_facts(system: System) -> Here:
    path = system.environment.get("PATH", os.defpath)
    return Here(
        user=user_name(),
        groups=frozenset(_groups()),
        is_root=os.geteuid() == 0,
        hostname=os.uname().nodename,
        known_cluster=cluster_name(system.environment),
        python=sys.executable if _can_train() else "",
        runtimes=tuple(name for name, row in RUNTIMES.items() if row.program and shutil.which(row.program, path=path)),
        module_setup=next((name for name in _MODULES if system.environment.get(name)), ""),
        today=system.now().strftime("%Y-%m-%d"),
    )


def _groups() -> list[str]:
    names = []
    for number in {os.getegid(), *os.getgroups()}:
        with suppress(KeyError):
            names.append(grp.getgrgid(number).gr_name)
    return names


def _can_train() -> bool:
    """Whether the Python that runs hpclaunch has TensorFlow and Horovod; neither is imported."""
    return all(importlib.util.find_spec(name) is not None for name in ("tensorflow", "horovod"))


def check_output(system: System, name: str | None, file: str | None) -> Path | None:
    """Return the path to write to; None if no option names one. Raises InvalidRequest, Refused."""
    if name is not None and file is not None:
        raise InvalidRequest(Fault(where="--name and --write", what="exclude each other", next="leave one of them out"))
    if name is not None and not NAME.fullmatch(name):
        raise InvalidRequest(
            Fault(where="--name", what=f"{name!r} is not a site's name", allowed="letters, digits, . _ -")
        )
    if name is None and file is None:
        return None
    folder = user_folder(system.environment) / SITE.folder
    if name is not None:
        _refuse_known_name(system, name)
    path = folder / SITE.entry.format(name) if name is not None else system.cwd / str(file)
    if path.exists() or path.is_symlink():
        raise Refused(Fault(where=str(path), what="exists already", next="choose another path, or remove the file"))
    if name is None and not path.parent.is_dir():
        raise Refused(Fault(where=str(path), what="its folder does not exist", next=f"mkdir -p {path.parent}"))
    return path


def _refuse_known_name(system: System, name: str) -> None:
    """Raise Refused if a site has this name already: one file would hide the other."""
    try:
        known = system.catalog.find(SITE, name)
    except NotFound:
        return
    what = f"there is a site {name} already ({known.origin}: {known.path})"
    raise Refused(Fault(where="--name", what=what, next="choose another name, or --write FILE"))


def write(found: SiteDraft, path: Path) -> SiteDraft:
    """Write the file and read it as a submission would. A file that cannot be used is removed again.

    Raises InvalidFile or OSError in that case, and Refused if the path exists already.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError:
        raise Refused(Fault(where=str(path), what="exists already", next="choose another path")) from None
    try:
        with file:
            file.write(found.text)
        read(path, Site, name=path.stem)
    except (InvalidFile, OSError):
        path.unlink(missing_ok=True)
        raise
    return SiteDraft(described=found.described, text=found.text, path=path)
