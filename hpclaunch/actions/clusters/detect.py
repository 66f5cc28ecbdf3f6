"""``sites detect``: finds the site of this machine, or drafts a site file for an unknown Slurm cluster."""

from __future__ import annotations

import grp
import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hpclaunch.actions.preparing.this_machine import in_a_job_of, other_scheduler
from hpclaunch.actions.system import System
from hpclaunch.config.catalog import NAME, SITE, Found, bundled
from hpclaunch.config.documents import read_yaml
from hpclaunch.config.fileformat import read
from hpclaunch.config.site import Site
from hpclaunch.core.errors import (
    Fault,
    InvalidFile,
    InvalidRequest,
    NotFound,
    Refused,
    SchedulerError,
    without_folder,
)
from hpclaunch.core.files import read_bytes
from hpclaunch.core.folders import user_folder
from hpclaunch.core.records import record
from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.core.scheduler_rows import SCHEDULERS, OtherScheduler
from hpclaunch.core.users import user_name
from hpclaunch.core.version import __version__
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.schedulers import scheduler_of
from hpclaunch.sites.describe.draft import Described, Here
from hpclaunch.sites.describe.platforms import PLATFORMS, Shared, shared_of
from hpclaunch.sites.describe.writing import text_of
from hpclaunch.sites.detect import cluster_name, detect_own_site, detect_site, machine

_MODULES = ("LMOD_CMD", "MODULESHOME")
_MPI_LAUNCHERS = tuple(
    name for name, row in LAUNCHERS.items() if row.programs and not row.over_ssh and row.mpi_option is None
)
"""The launchers that an MPI installs: neither the scheduler's own nor those of a Python environment."""
_LARGEST_LIBRARY = 2**30
"""Bytes of Horovod's library."""


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
    """Return a site file for the cluster of this machine. Raises SchedulerError if no scheduler describes it."""
    path = system.environment.get("PATH", os.defpath)
    queued = [name for name, row in SCHEDULERS.items() if row.has_queue]
    present = [name for name in queued if shutil.which(SCHEDULERS[name].start_command, path=path)]
    other = other_scheduler(system.environment)
    if other and not present:
        raise SchedulerError(_fault_of(other))
    here = _machine_facts(system)
    try:
        described = scheduler_of((present or queued)[0]).describe(here)
    except SchedulerError as error:
        if other is None:
            raise
        raise SchedulerError([*error.faults, _fault_of(other)]) from None
    words = f"Written by hpclaunch {__version__} (sites detect) on {here.today}. The keys: hpclaunch docs site-files"
    return SiteDraft(described=described, text=text_of(described, words))


def _fault_of(other: OtherScheduler) -> Fault:
    titles = " or ".join(row.title for row in SCHEDULERS.values() if row.has_queue)
    what = f"this machine has {other.program} ({other.title}), and a site file is drafted only from answers of {titles}"
    next_step = f"in a job of {other.title}: {in_a_job_of(other)}; at another cluster: log in there"
    return Fault(where=other.program, what=what, next=next_step)


def _machine_facts(system: System) -> Here:
    path = system.environment.get("PATH", os.defpath)
    lacks = _what_python_lacks()
    return Here(
        user=user_name(),
        groups=frozenset(_groups()),
        is_root=os.geteuid() == 0,
        hostname=os.uname().nodename,
        known_cluster=cluster_name(system.environment),
        python="" if lacks else sys.executable,
        python_lacks=lacks,
        runtimes=tuple(name for name, row in RUNTIMES.items() if row.program and shutil.which(row.program, path=path)),
        launchers=tuple(name for name in _MPI_LAUNCHERS if _are_on_path(LAUNCHERS[name].programs, path)),
        module_setup=next((name for name in _MODULES if system.environment.get(name)), ""),
        platform_folders=frozenset(one.folder for one in PLATFORMS if one.folder and Path(one.folder).is_dir()),
        platforms=tuple(_shared_by(one.name) for one in PLATFORMS),
        today=system.now().strftime("%Y-%m-%d"),
    )


def _shared_by(platform: str) -> Shared:
    """Return what the bundled site file of a cloud's tool says of all its clusters."""
    return shared_of(platform, read_yaml(bundled(SITE.folder) / SITE.entry.format(platform)))


def _groups() -> list[str]:
    names = []
    for number in {os.getegid(), *os.getgroups()}:
        with suppress(KeyError):
            names.append(grp.getgrgid(number).gr_name)
    return names


def _are_on_path(programs: Sequence[str], path: str) -> bool:
    return all(shutil.which(program, path=path) for program in programs)


def _what_python_lacks() -> str:
    """Return why the ranks cannot use the Python that runs hpclaunch; empty if they can. It imports no library."""
    missing = [name for name in ("tensorflow", "horovod") if importlib.util.find_spec(name) is None]
    if missing:
        return f"{sys.executable}, which runs hpclaunch, has no {' and no '.join(missing)}"
    if not _has_mpi():
        return f"the Horovod of {sys.executable} is built without MPI, so each rank of a job would be alone"
    return ""


def _has_mpi() -> bool:
    """Whether Horovod's library for TensorFlow is linked with MPI, according to the names in the library itself."""
    found = importlib.util.find_spec("horovod")
    folder = Path(found.origin).parent / "tensorflow" if found is not None and found.origin else None
    with suppress(OSError, ValueError):
        return any(b"libmpi" in read_bytes(file, _LARGEST_LIBRARY) for file in (folder or Path()).glob("mpi_lib*.so"))
    return False


def check_output(system: System, name: str | None, file: str | None) -> Path | None:
    """Return the path to write to; None if no option names one. Raises InvalidRequest, Refused."""
    if name is not None and file is not None:
        raise InvalidRequest(
            Fault(where="--name and --write", what="cannot be used together", next="leave one of them out")
        )
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
        raise without_folder(path)
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
            os.fchmod(
                file.fileno(), os.fstat(file.fileno()).st_mode & ~0o022
            )  # else umask 002 makes it one that others
            file.write(found.text)  # can change, which is not used
        read(path, Site, name=path.stem)
    except (InvalidFile, OSError):
        path.unlink(missing_ok=True)
        raise
    return SiteDraft(described=found.described, text=found.text, path=path)
