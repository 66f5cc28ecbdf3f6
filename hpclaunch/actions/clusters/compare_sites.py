"""``sites compare``: nodes, time, cost and software of a job at several sites, as ``plan`` and ``submit`` see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from hpclaunch.actions.measuring import plan
from hpclaunch.actions.preparing.advice import advised
from hpclaunch.actions.preparing.load import load
from hpclaunch.actions.preparing.programs import program_job
from hpclaunch.actions.preparing.submit import Prepared, prepare_case
from hpclaunch.actions.system import System
from hpclaunch.config.catalog import SITE
from hpclaunch.config.site import load_site
from hpclaunch.core.errors import Fault, InvalidFile, InvalidRequest, Refused
from hpclaunch.core.records import record
from hpclaunch.core.spec import HOROVOD, TENSORFLOW, Request
from hpclaunch.resolve.environment.framework import stated_framework
from hpclaunch.resolve.nodes.cost import is_charging_known

if TYPE_CHECKING:
    from hpclaunch.guidelines.choice import Objective
    from hpclaunch.guidelines.intervals import Interval
    from hpclaunch.planner.values import Forecast
    from hpclaunch.resolve.case import Case


@record
class SiteEstimate:
    """A job at one site.

    ``seconds`` is the time to the target, ``cost`` is in ``unit``: the middle, lowest and highest value; None: not
    known, or the run is refused. ``software`` is what the script loads for the program's framework; empty: the site's
    file names none. ``horovod``: whether Horovod is in that of TensorFlow (None: the file does not say).
    ``start``: the wait in the queue in words, where this machine can ask. ``refusals``: why ``submit``
    would refuse it.
    """

    site: str
    node_type: str = ""
    nodes: int = 0
    ranks: int = 0
    seconds: tuple[float, float, float] | None = None
    cost: tuple[float, float, float] | None = None
    unit: str = ""
    trust: str = ""
    framework: str = ""
    software: str = ""
    horovod: bool | None = None
    start: str = ""
    refusals: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def compare_sites(
    system: System, request: Request, sites: Sequence[str], objective: Objective, global_batch: int | None = None
) -> list[SiteEstimate]:
    """Return the job at each site, the quickest first, and then those without a time; ``global_batch`` in samples.

    Without ``sites``: at every site in production whose file can be read. A node count of the request is that of every
    site. Raises HpclaunchError if the job itself cannot be used, a site that was named does not exist, or all
    refuse it for the same reasons.
    """
    twice = sorted({name for name in sites if sites.count(name) > 1})
    if twice:
        raise InvalidRequest(Fault(where="--site", what=f"{twice[0]} is named more than once", next="name it once"))
    for name in sites:
        system.catalog.find(SITE, name)
    found = []
    for name in sites or _production_sites(system):
        system.tell(f"planning {request.target} for {name}")
        found.append(_estimate(system, replace(request, site=name), objective, global_batch))
    reasons = {one.refusals for one in found}
    if len(reasons) == 1 and found[0].refusals:
        what = f"refused at every site: {'; '.join(found[0].refusals)}"
        raise Refused(Fault(where=request.target, what=what, next="hpclaunch sites list"))
    return sorted(found, key=lambda one: (bool(one.refusals), one.seconds is None, one.seconds or (), one.site))


def _production_sites(system: System) -> Iterator[str]:
    for known in system.catalog.names(SITE):
        try:
            site = load_site(system.catalog, known.name)
        except InvalidFile:  # sites list says what is wrong
            continue
        if site.status == "production" and not site.is_this_machine:
            yield site.name


def _estimate(system: System, request: Request, objective: Objective, global_batch: int | None) -> SiteEstimate:
    quiet = replace(system, warn=lambda text: None, tell=lambda text: None)
    try:
        # Their folders are not known here: any shared one.
        case = load(quiet, request, "/runs", program_job(quiet, request))
        # Which account pays is no difference between sites.
        account = (request.account or "ACCOUNT") if case.site.scheduler_row.has_queue else None
        case = replace(case, request=replace(case.request, account=account))
        forecast = plan.plan_case(quiet, case, objective, global_batch)
        nodes = forecast.nodes or request.nodes
        prepared = prepare_case(quiet, advised(replace(case, request=replace(case.request, nodes=nodes))))
    except Refused as error:
        return SiteEstimate(site=request.site or "", refusals=tuple(map(_reason, error.faults)))
    refusals = [_reason(fault) for fault in (*forecast.refusals, *prepared.faults)]
    return _estimate_of(forecast, prepared, tuple(dict.fromkeys(refusals)))


def _reason(fault: Fault) -> str:
    return f"{fault.what}; allowed: {fault.allowed}" if fault.allowed else fault.what


def _estimate_of(forecast: Forecast, prepared: Prepared, refusals: tuple[str, ...]) -> SiteEstimate:
    row = forecast.chosen
    candidate = row.candidate if row is not None and not refusals else None
    framework = stated_framework(prepared.case)[1] or ""
    software = _software(prepared.case, forecast.node_type, framework)
    return SiteEstimate(
        site=forecast.site,
        node_type=forecast.node_type,
        nodes=forecast.nodes,
        ranks=prepared.spec.layout.world_size,
        seconds=_values(candidate.time_s) if candidate else None,
        cost=_values(candidate.cost) if candidate and is_charging_known(prepared.case.site) else None,
        unit=candidate.unit if candidate else forecast.unit,
        trust=forecast.trust if candidate else "",
        framework=framework,
        software=software,
        horovod=_has_horovod(prepared.case, framework) if software else None,
        start=forecast.queue,
        refusals=refusals,
    )


def _values(interval: Interval) -> tuple[float, float, float]:
    return interval.middle, interval.low, interval.high


def _has_horovod(case: Case, framework: str) -> bool | None:
    """Whether the site's software for TensorFlow has Horovod; None if its file does not say, and for others."""
    return HOROVOD in case.site.provides if framework == TENSORFLOW and case.site.provides else None


def _software(case: Case, node_type: str, framework: str) -> str:
    """Return the modules or the image that the site's file names for a framework, in words."""
    named = (case.node(node_type).frameworks or case.site.frameworks).get(framework)
    if named is None:
        return ""
    scheduler_option = " ".join(named.sbatch)
    return ", ".join(filter(None, (*named.modules, named.container, named.venv, named.conda, scheduler_option)))
