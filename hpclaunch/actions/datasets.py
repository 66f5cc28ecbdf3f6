"""``data fetch``: finds a job's data set and its folder, and stages it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.actions.load import choose_site, context_of
from hpclaunch.actions.staging import DatasetSource, stage
from hpclaunch.config.job import load_job
from hpclaunch.config.settings import load_settings
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.folders import user_folder
from hpclaunch.core.spec import Request
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.folders import data_folder

if TYPE_CHECKING:
    from hpclaunch.actions.system import System


def fetch(system: System, request: Request, source: DatasetSource) -> Path:
    """Stage a job's data set and return its folder. Raises Refused, with the reason."""
    job = load_job(system.catalog, request.target, system.cwd)
    if job.data is None:
        raise Refused(Fault(what=f"the job {request.target} reads no data set"))
    settings = load_settings(user_folder(system.environment), system.cwd)
    site = choose_site(system, request.site, settings).site
    case = Case(site=site, job=job, request=request, settings=settings, context=context_of(system, request))
    folder, _ = data_folder(case, Decisions())
    if not folder:
        raise Refused(Fault(what=f"no data folder is known at {site.name}", next="--data-dir FOLDER"))
    return stage(job.data, source, Path(folder), system.tell)
