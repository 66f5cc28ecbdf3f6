"""The job of a run as its directory records it: from the copy of its code, or in place; ``resume`` and ``rerun``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hpclaunch.actions.preparing.programs import program_job
from hpclaunch.actions.system import System
from hpclaunch.config.job import Job, job_of_file, load_job, script_job
from hpclaunch.core.errors import HpclaunchError
from hpclaunch.core.spec import Request
from hpclaunch.runs import Run


def recorded_job(system: System, run: Run, request: Request) -> Job | None:
    """Return the job from the run's copy of its code; that of code in place from there, None for what has no copy.

    ``system`` is that of the folder where the run was submitted. Raises InvalidFile for a damaged copy.
    """
    code = run.spec().get("code")
    values = code if isinstance(code, dict) else {}
    entry, folder = values.get("entry"), values.get("folder")
    script = entry if values.get("source_only") else None
    if not values.get("in_place"):
        return _job_in(run.home / "code", script, run.name)
    if entry and isinstance(folder, str) and isinstance(entry, str):
        return replace(_job_in(Path(folder), script, run.name), in_place=True)
    return program_job(system, request)


def _job_in(folder: Path, script: object, name: str) -> Job:
    """Return the job of a script in a folder; without one, that of the folder's job file."""
    return script_job(folder / script) if isinstance(script, str) else job_of_file(folder / "job.yaml", name)


def named_job(system: System, request: Request, otherwise: Job) -> Job:
    """Return the job that the user named at the first submission; ``otherwise`` if it is gone.

    The code of a run is a copy of it, so what the user may run of a project is decided by the named job.
    """
    try:
        return program_job(system, request) or load_job(system.catalog, request.target, system.cwd)
    except HpclaunchError:  # then the copy counts as a job from elsewhere
        return otherwise


def nodes_before(run: Run) -> int | None:
    """Return the recorded node count of the first node type; None if it is not known."""
    layout = run.spec().get("layout")
    nodes = layout.get("nodes") if isinstance(layout, dict) else None
    return nodes if isinstance(nodes, int) else None
