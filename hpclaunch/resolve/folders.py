"""Where data and runs lie, as text: no folder is looked at here."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from posixpath import join, normpath

from hpclaunch.config.job import Job
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Site
from hpclaunch.core.spec import DataNeed, Request, Surroundings
from hpclaunch.core.units import CONTROL
from hpclaunch.resolve.decisions import Ledger

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


def expanded(path: str, around: Surroundings) -> str:
    """Return the path with ``$NAME`` and a leading ``~`` taken from the surroundings; an unknown name stays."""
    if path == "~" or path.startswith("~/"):
        path = "$HOME" + path[1:]
    known = around.environment
    return _VARIABLE.sub(lambda found: known.get(found[1] or found[2], found[0]), path)


def is_open(path: str) -> bool:
    """Tell whether a variable in the path was not known."""
    return _VARIABLE.search(path) is not None


def data_need(
    site: Site, job: Job, request: Request, settings: Settings, around: Surroundings, ledger: Ledger
) -> DataNeed | None:
    """Return what the job reads, or None where it reads nothing (or makes stand-in images up)."""
    if job.data is None or is_synthetic(job, request):
        if request.data_dir is not None:
            ledger.warnings.append("--data-dir means nothing here: no data set is read")
        return None
    folder, origin = data_folder(site, request.data_dir, settings, around, ledger)
    address = job.data.fetch is not None
    return DataNeed(name=job.data.name, folder=folder, layouts=job.data.layouts, origin=origin, address=address)


def data_folder(
    site: Site, typed: str | None, settings: Settings, around: Surroundings, ledger: Ledger
) -> tuple[str, str]:
    """Return the data folder (absolute, or nothing) and who chose it; a typed one is taken as it is."""
    folder = ledger.pick(
        "data",
        ("--data-dir", typed),
        ("HPCLAUNCH_DATA_DIR", around.environment.get("HPCLAUNCH_DATA_DIR") or None),
        settings.offer("data_dir", site.name),
        (f"site {site.name}", site.folders.data),
    )
    if not folder:
        return "", ""
    place = folder if typed is not None else expanded(folder, around)
    known = typed is not None or not is_open(place)
    return normpath(join(around.cwd, place)) if known else "", ledger.choices[-1].origin


def is_synthetic(job: Job, request: Request) -> bool:
    """Tell whether stand-in images are asked for; ``--set synthetic=…`` wins, as in the command."""
    default = job.parameters["synthetic"].default if "synthetic" in job.parameters else False
    typed = dict(request.settings).get("synthetic", "true" if request.synthetic else str(default))
    return typed.lower() == "true"


def private_faults(
    site: Site, job: Job, around: Surroundings, python: str, data: DataNeed | None, ledger: Ledger
) -> None:
    """Refuse folders that the nodes do not share with this machine: Slurm fails such a job, at times with no log."""
    if CONTROL.search(around.run_dir) or CONTROL.search(around.cwd):
        ledger.fault(
            f"the path {around.run_dir!r} holds a control character or is not UTF-8",
            next="choose another with --runs-dir",
        )
    if site.scheduler == "slurm" and "\\" in around.run_dir:
        ledger.fault(
            f"the run directory {around.run_dir} holds a backslash, after which Slurm expands no %j in the log's name",
            next="choose another with --runs-dir",
        )
    needed = [("run directory", around.run_dir, "choose one with --runs-dir")]
    needed += [("working folder", around.cwd, "submit from another folder")] if job.source_only else []
    needed += [("data folder", data.folder, "choose one with --data-dir")] if data and data.folder else []
    for folder in site.folders.node_private:
        root = PurePosixPath(expanded(folder, around))
        for noun, path, hint in needed:
            if root in (PurePosixPath(path), *PurePosixPath(path).parents):
                ledger.fault(
                    f"the {noun} {path} is in {root}, which every node of {site.name} has for itself",
                    allowed="a folder that all nodes share",
                    next=hint,
                )
        if root in PurePosixPath(python).parents:
            ledger.warnings.append(f"Python {python} is in {root}, which nodes of {site.name} may not share")
