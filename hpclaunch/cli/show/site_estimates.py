"""A job at several sites as a table: time, cost and software of each, and below it why a site would refuse it."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.actions.clusters.compare_sites import SiteEstimate
from hpclaunch.cli.show.console import say, table
from hpclaunch.core.spec import TENSORFLOW
from hpclaunch.core.units import count
from hpclaunch.planner.amounts import shorten, unit_of_time


def show_estimates(found: Sequence[SiteEstimate]) -> None:
    """Show the table on stdout, and the reasons of refusals on stderr."""
    has_start = any(one.start for one in found)
    header = ("site", "nodes", "time", "cost", "software", *(["start"] if has_start else []))
    table(header, [[*_cells(one), *([one.start or "not known"] if has_start else [])] for one in found])
    if any(one.trust == "guess" for one in found):
        say("times and costs rest on published figures where nothing was measured: hpclaunch profile JOB measures")
    for one in found:
        for reason in one.refusals:
            say(f"{one.site} would refuse it: {reason}")


def _cells(one: SiteEstimate) -> list[str]:
    nodes = f"{one.nodes} x {one.node_type} = {count(one.ranks, 'rank')}" if one.nodes and one.node_type else "-"
    time = "refused" if one.refusals else _time(one)
    software = one.software or ("-" if one.framework in ("", "none") else f"no {one.framework} in its file")
    if one.software and one.framework == TENSORFLOW:
        software += {True: ", with Horovod", False: ", without Horovod", None: ", Horovod not known"}[one.horovod]
    return [one.site, nodes, time, _cost(one), software]


def _time(one: SiteEstimate) -> str:
    if one.seconds is None:
        return "not known"
    size, unit = unit_of_time(one.seconds[0])
    middle, low, high = (shorten(value / size) for value in one.seconds)
    return f"{middle} {unit} ({low} to {high})"


def _cost(one: SiteEstimate) -> str:
    if one.cost is None:
        return "not known" if not one.refusals else "-"
    middle, low, high = map(shorten, one.cost)
    spread = "" if low == high else f" ({low} to {high})"
    return f"{middle} {one.unit}{'' if one.cost[0] == 1 else 's'}{spread}"
