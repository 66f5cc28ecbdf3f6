"""The story of ``sites detect``: which site this machine belongs to; of an unknown Slurm cluster, a site file."""

from __future__ import annotations

import grp
import importlib.util
import os
import pwd
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
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.schedulers import Scheduler, scheduler_of
from hpclaunch.sites.describe import Described, Here
from hpclaunch.sites.describe.writing import text_of
from hpclaunch.sites.detect import cluster_name, detect_own_site, detect_site, machine

_PROGRAMS = ("shifter", "podman-hpc", "apptainer", "singularity")
_MODULES = ("LMOD_CMD", "MODULESHOME")


@record
class Written:
    """A site file: what it says, its text, and where it stands, if it was written."""

    described: Described
    text: str
    path: Path | None = None


def recognized(system: System) -> Found | None:
    """Return the site that this machine belongs to, as a submission would detect it, or None."""
    here = machine(system.environment, os.uname().nodename)
    name = detect_own_site(system.catalog, here) or detect_site(here)
    return system.catalog.find(SITE, name) if name else None


def survey(system: System) -> Written:
    """Return the site file of the cluster that this machine belongs to. Raises SchedulerError where there is none."""
    here = _machine_facts(system)
    described = _scheduler_here().describe(here)
    words = (
        f"Described by hpclaunch {__version__} (sites detect) on {here.today}. What may stand here: docs/site-files.md"
    )
    return Written(described=described, text=text_of(described, words))


def _scheduler_here() -> Scheduler:
    """Return the scheduler whose programs are on this machine; where there are none, the one that says so."""
    queued = [name for name, row in SCHEDULERS.items() if row.has_queue]
    present = [name for name in queued if shutil.which(SCHEDULERS[name].start_command)]
    return scheduler_of((present or queued)[0])


def _machine_facts(system: System) -> Here:
    return Here(
        user=pwd.getpwuid(os.geteuid()).pw_name,
        groups=frozenset(_groups()),
        is_root=os.geteuid() == 0,
        hostname=os.uname().nodename,
        known_cluster=cluster_name(system.environment),
        python=sys.executable if _can_train() else "",
        runtimes=tuple(name for name in _PROGRAMS if shutil.which(name)),
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
    """Whether the Python that runs hpclaunch has what a rank needs; nothing is imported."""
    return all(importlib.util.find_spec(name) is not None for name in ("tensorflow", "horovod"))


def place_of(system: System, name: str | None, file: str | None) -> Path | None:
    """Return where the file shall be written, or None for nowhere. Raises InvalidRequest, Refused."""
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
        _refuse_known(system, name)
    path = folder / SITE.entry.format(name) if name is not None else system.cwd / str(file)
    if path.exists() or path.is_symlink():
        raise Refused(Fault(where=str(path), what="exists already", next="choose another place, or remove it"))
    if name is None and not path.parent.is_dir():
        raise Refused(Fault(where=str(path), what="its folder is not there", next=f"mkdir -p {path.parent}"))
    return path


def _refuse_known(system: System, name: str) -> None:
    """Raise Refused for the name of a site that there is: one of the two would hide the other."""
    try:
        known = system.catalog.find(SITE, name)
    except NotFound:
        return
    what = f"there is a site {name} already ({known.origin}: {known.path})"
    raise Refused(Fault(where="--name", what=what, next="choose another name, or --write FILE"))


def write(found: Written, path: Path) -> Written:
    """Write the file and read it as a submission would; one that cannot be used, or is cut short, is not left there.

    Raises InvalidFile or OSError then, and Refused where something is in its place.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError:
        raise Refused(Fault(where=str(path), what="exists already", next="choose another place")) from None
    try:
        with file:
            file.write(found.text)
        read(path, Site, name=path.stem)
    except (InvalidFile, OSError):
        path.unlink(missing_ok=True)
        raise
    return Written(described=found.described, text=found.text, path=path)
