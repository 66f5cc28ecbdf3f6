"""A plan as a Python object: the node count, the settings, the predictions, and why."""

from __future__ import annotations

import shlex
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record

if TYPE_CHECKING:
    from hpclaunch.core.spec import SubmitOptions
    from hpclaunch.planner.values import Forecast, Headline, PlanRow


@record
class Plan:
    """What ``hpclaunch plan`` recommends for a job at a site.

    - ``nodes`` and ``settings``: what it recommends. ``submit(plan.job, **plan.options)`` submits it.
    - ``headlines``: nodes, batch, rate, time and cost, each with its range, and how far to trust it.
    - ``rows``: the prediction for every node count. ``command``: what to type.
    - ``problems``: why the request is not feasible; empty if it is.
    """

    job: str
    site: str
    nodes: int
    settings: dict[str, str]
    command: str
    summary: str
    headlines: tuple[Headline, ...] = field(repr=False)
    rows: tuple[PlanRow, ...] = field(repr=False)
    warnings: tuple[str, ...] = ()
    problems: tuple[Fault, ...] = ()
    forecast: Forecast = field(repr=False, compare=False)

    @property
    def options(self) -> SubmitOptions:
        """The keywords with which `submit` does what ``command`` does."""
        return _options_in(self.command)

    @property
    def feasible(self) -> bool:
        """Whether there is no reason to refuse it."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return all of the plan as plain values, as ``hpclaunch plan --json`` writes it."""
        return self.forecast.to_json()

    def _repr_html_(self) -> str:
        """Return the headlines as a table, as Jupyter shows it."""
        from hpclaunch.reports.notebook_view import plan_html

        return plan_html(self.forecast)


def plan_of(forecast: Forecast) -> Plan:
    """Return the plan as users see it."""
    return Plan(
        job=forecast.job,
        site=forecast.site,
        nodes=forecast.nodes,
        settings=dict(forecast.settings),
        command=forecast.command,
        summary=forecast.summary,
        headlines=forecast.headlines,
        rows=forecast.rows,
        warnings=forecast.warnings,
        problems=forecast.refusals,
        forecast=forecast,
    )


_SWITCHES = ("--accept-unverified",)
_NUMBERS = ("nodes", "tasks_per_node", "cpus_per_task", "gpus_per_node")


def _options_in(command: str) -> SubmitOptions:
    """Return the flags of ``hpclaunch submit JOB …`` as keywords, so that both can never differ."""
    words = iter(shlex.split(command)[3:])
    options: dict[str, Any] = {"settings": {}}
    for flag in words:
        name = flag.removeprefix("--").replace("-", "_")
        if flag in _SWITCHES:
            options[name] = True
        elif flag == "--set":
            key, _, value = next(words).partition("=")
            options["settings"][key] = value
        else:
            value = next(words)
            options[name] = int(value) if name in _NUMBERS else value
    return cast("SubmitOptions", options)
