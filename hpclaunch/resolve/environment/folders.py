"""The folders of data and runs, as text: this module reads no file system."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from posixpath import join, normpath

from hpclaunch.config.job import DATASET
from hpclaunch.core.spec import Context
from hpclaunch.core.spec_parts import DataNeed
from hpclaunch.core.units import CONTROL
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


def expanded(path: str, context: Context) -> str:
    """Return the path with ``$NAME`` and a leading ``~`` replaced from the environment; unknown names stay."""
    if path == "~" or path.startswith("~/"):
        path = "$HOME" + path[1:]
    known = context.environment
    return _VARIABLE.sub(lambda found: known.get(found[1] or found[2], found[0]), path)


def has_variables(path: str) -> bool:
    """Tell whether the path still contains a variable, because the environment does not define it."""
    return bool(variables_in(path))


def variables_in(path: str) -> list[str]:
    """Return the names of the variables that the path contains."""
    return [found[1] or found[2] for found in _VARIABLE.finditer(path)]


def data_need(case: Case, decisions: Decisions) -> DataNeed | None:
    """Return the data set that the job reads, or None if it reads none or generates synthetic samples.

    A program whose data hpclaunch does not know has a typed folder or file only.
    """
    data = case.job.data_for(case.request.settings)
    if is_synthetic(case):
        if case.request.data_dir is not None:
            decisions.warnings.append("--data-dir has no effect: this run reads no data set")
        return None
    if data is None and case.request.data_dir is None:
        return None
    folder, origin = data_folder(case, decisions)
    if data is None:
        return DataNeed(name="", folder=folder, layouts=(), origin=origin)
    address = data.fetch is not None or data.make is not None
    setting = f"{DATASET}={data.name}" if data in case.job.other_data else ""
    return DataNeed(
        name=data.name, folder=folder, layouts=data.layouts, origin=origin, address=address, setting=setting
    )


def data_folder(case: Case, decisions: Decisions) -> tuple[str, str]:
    """Return the data folder (absolute, or empty) and who chose it; variables in a typed one are not replaced."""
    typed, site, context = case.request.data_dir, case.site, case.context
    folder = decisions.pick(
        "data",
        ("--data-dir", typed),
        ("HPCLAUNCH_DATA_DIR", context.environment.get("HPCLAUNCH_DATA_DIR") or None),
        case.settings.offer("data_dir", site.name),
        (f"site {site.name}", site.folders.data),
    )
    if not folder:
        return "", ""
    place = folder if typed is not None else expanded(folder, context)
    known = typed is not None or not has_variables(place)
    return normpath(join(context.cwd, place)) if known else "", decisions.origin_of("data")


def is_synthetic(case: Case) -> bool:
    """Tell whether synthetic samples are requested; ``--set synthetic=…`` overrides ``--synthetic``."""
    parameters, request = case.job.parameters, case.request
    default = parameters["synthetic"].default if "synthetic" in parameters else False
    typed = dict(request.settings).get("synthetic", "true" if request.synthetic else str(default))
    return typed.lower() == "true"


def private_faults(case: Case, python: str, data: DataNeed | None, decisions: Decisions) -> None:
    """Refuse folders that the nodes do not share with this machine: there a job fails, sometimes without any log."""
    site, context = case.site, case.context
    if CONTROL.search(context.run_dir) or CONTROL.search(context.cwd):
        decisions.fault(
            f"the path {context.run_dir!r} contains a control character or is not UTF-8",
            next="choose another with --runs-dir",
            subject="shared paths",
        )
    for character, what in site.scheduler_row.path_faults:
        if character in context.run_dir:
            decisions.fault(
                f"the run directory {context.run_dir} contains {what}",
                next="choose another with --runs-dir",
                subject="shared paths",
            )
    needed = [("run directory", context.run_dir, "choose one with --runs-dir")]
    needed += [("working folder", context.cwd, "submit from another folder")] if case.job.source_only else []
    needed += [("folder of the code", case.job.folder, "leave --code-in-place out")] if case.job.script_in_place else []
    needed += [("data folder", data.folder, "choose one with --data-dir")] if data and data.folder else []
    for folder in site.folders.node_private:
        root = PurePosixPath(expanded(folder, context))
        for noun, path, hint in needed:
            if root in (PurePosixPath(path), *PurePosixPath(path).parents):
                decisions.fault(
                    f"the {noun} {path} is in {root}, which is local to each node of {site.name}",
                    allowed="a folder that all nodes share",
                    next=hint,
                    subject="shared paths",
                )
        if root in PurePosixPath(python).parents:
            decisions.warnings.append(f"Python {python} is in {root}, which nodes of {site.name} may not share")
