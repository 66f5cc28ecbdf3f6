"""The story of ``plan``, beside launch.py's of the runs: what is known is gathered here, and judged in ``forecast``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hpclaunch.catalog import user_folder
from hpclaunch.detection import check_settings
from hpclaunch.job import load_job
from hpclaunch.launch import World, choose_site, surroundings
from hpclaunch.settings import load_settings
from hpclaunch.spec import Request

if TYPE_CHECKING:
    from hpclaunch.advice.choice import Wishes
    from hpclaunch.forecast.values import Forecast


def plan_job(
    world: World, request: Request, wishes: Wishes, *, global_batch: int | None = None, calibration: Path | None = None
) -> Forecast:
    """Load what the files say and return the plan. Raises HpclaunchError; nothing is written, no program is asked."""
    from hpclaunch.evidence import read_evidence
    from hpclaunch.forecast.forecasting import forecast
    from hpclaunch.forecast.question import Evidence, Question
    from hpclaunch.forecast.workload import stored_figures

    settings = load_settings(user_folder(world.environment), world.cwd)
    check_settings(world.catalog, settings)
    site, _, _ = choose_site(world, request.site, settings)
    job = load_job(world.catalog, request.target, world.cwd)
    return forecast(
        Question(
            site=site,
            job=job,
            request=request,
            settings=settings,
            around=surroundings(world, request, site, job, settings, None),
            figures=stored_figures(job),
            evidence=read_evidence(calibration) if calibration else Evidence(),
            wishes=wishes,
            global_batch=global_batch,
        )
    )
