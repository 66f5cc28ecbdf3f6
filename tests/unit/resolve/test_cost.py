"""What a run costs at most: whatever is counted x hours x rate x charge factors, and what is not known is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.limits import Limits
from hpclaunch.config.site import Charging, Defaults, Site
from hpclaunch.core.spec import Cost
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.cost import price_of
from hpclaunch.resolve.nodes.sizing import sizing_of
from tests.builders import HOUR, a_case, a_desk, a_site, bundled_site, planned

WHOLE = Limits(whole_nodes=True)
SHARED = Limits(whole_nodes=False)


def charging(counts: Any, limits: Limits = WHOLE, **changes: Any) -> Site:
    """A site with nodes of 4 GPUs and 16 cores, charged so."""
    given = Charging(**{"unit": f"{counts}-hour", "counts": counts, **changes})
    return a_site(charging=given, partitions={"batch": limits})


def cost(site: Site, **typed: Any) -> Cost:
    found = planned(site, **{"nodes": 2, "walltime": 3 * HOUR, **typed}).cost
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("counts", "limits", "tasks", "amount"),
    [
        # two nodes for three hours
        ("node", WHOLE, 4, 2 * 3),
        ("node", WHOLE, 1, 2 * 3),
        ("node", SHARED, 4, 2 * 3),
        ("node", SHARED, 1, 2 * 3 / 4),
        ("gpu", WHOLE, 4, 2 * 3 * 4),
        ("gpu", WHOLE, 1, 2 * 3 * 4),
        ("gpu", SHARED, 1, 2 * 3),
        ("core", WHOLE, 4, 2 * 3 * 16),
        ("core", WHOLE, 1, 2 * 3 * 16),
        ("core", SHARED, 4, 2 * 3 * 16),
        ("core", SHARED, 1, 2 * 3 * 4),
    ],
)
def test_what_is_counted(counts: str, limits: Limits, tasks: int, amount: float) -> None:
    found = cost(charging(counts, limits), tasks_per_node=tasks)
    assert (found.amount, found.unit) == (amount, f"{counts}-hour")


def test_a_rate_makes_units_of_the_hours() -> None:
    assert cost(charging("node", unit="SU", rate=2.5)) == Cost(amount=15, unit="SU", note=cost(charging("node")).note)


@pytest.mark.parametrize(
    ("site", "typed", "place"),
    [
        ("deltaai", {"partition": "ghx4-interactive", "walltime": HOUR}, "ghx4-interactive"),
        ("perlmutter", {"qos": "premium"}, "premium"),
    ],
)
def test_a_charge_factor_that_is_not_known_is_said(site: str, typed: dict[str, Any], place: str) -> None:
    said = f"without the charge factor of {place}, which is not in the site file"
    assert cost(bundled_site(site), account="m1", **typed).note.endswith(said)
    assert "charge factor" not in cost(bundled_site(site), account="m1").note


def test_the_factors_of_partition_and_qos_multiply() -> None:
    site = charging("node", Limits(whole_nodes=True, charge_factor=3))
    site = replace(site, qos={"low": Limits(charge_factor=0.5), "free": Limits(charge_factor=0)})
    assert cost(site).amount == 6 * 3
    assert cost(site, qos="low").amount == 6 * 3 * 0.5
    assert cost(site, qos="free").amount == 0


def test_every_job_counts_for_a_shortest_time_and_costs_a_least_amount() -> None:
    quarter = charging("node", unit="SU", rate=2, shortest=900)
    assert cost(quarter, walltime=300).amount == 2 * 2 * 0.25
    assert cost(quarter, walltime=2 * HOUR).amount == 2 * 2 * 2
    assert cost(charging("node", unit="SU", rate=2, least=1.5), walltime=60).amount == 1.5
    # Where the rate is not known, the least amount would be in another unit.
    assert cost(charging("node", unit="SU", least=1.5), walltime=60).amount == pytest.approx(2 / 60, abs=1e-4)
    free = replace(charging("node", unit="SU", rate=2, least=1), qos={"free": Limits(charge_factor=0)})
    assert cost(free, qos="free").amount == 0


def test_a_price_has_no_walltime() -> None:
    site = a_site(defaults=Defaults(node_type="gpu"))
    sizing = sizing_of(replace(a_case(site, nodes=2), needs_account=False), Decisions())
    price = price_of(site, sizing)
    assert price is not None
    assert (price.per_hour, price.unit, price.amount(1800)) == (2, "node-hour", 1)


def test_a_rate_that_is_not_known_is_said_and_hours_are_counted() -> None:
    found = cost(charging("core", unit="NERSC hour"))
    assert (found.amount, found.unit) == (96, "core-hour")
    assert "NERSC hour" in found.note and "rate that is not in the site file" in found.note


def test_a_unit_that_is_the_hour_itself_needs_no_rate_unless_the_site_doubts_it() -> None:
    assert "rate that is not in the site file" not in cost(charging("gpu", unit="GPU-hour")).note
    doubted = replace(charging("gpu", unit="GPU-hour"), unverified={"charging.rate": "one source"})
    assert "rate that is not in the site file" in cost(doubted).note
    assert cost(doubted).unit == "gpu-hour"


def test_a_node_type_may_be_charged_otherwise() -> None:
    site = charging("gpu")
    nodes = dict(site.node_types)
    nodes["cpu"] = replace(nodes["cpu"], charging=Charging(unit="core-hour", counts="core"))
    found = cost(replace(site, node_types=nodes), node_type="cpu", cpus_per_task=8)
    assert (found.amount, found.unit) == (2 * 3 * 32, "core-hour")  # whole nodes of 32 cores


def test_where_nothing_is_known_node_hours_are_counted() -> None:
    found = cost(a_site())
    assert (found.amount, found.unit) == (6, "node-hour")


def test_no_walltime_or_no_scheduler_no_cost() -> None:
    assert planned(a_site(defaults=Defaults(node_type="gpu"))).cost is None
    assert planned(a_desk(), walltime=HOUR).cost is None


@pytest.mark.parametrize(
    ("name", "typed", "amount", "unit"),
    [
        ("perlmutter", {"nodes": 4, "walltime": 2 * HOUR}, 8, "node-hour"),
        ("perlmutter", {"tasks_per_node": 1, "walltime": 2 * HOUR}, 0.5, "node-hour"),
        ("frontera", {"nodes": 2, "walltime": HOUR}, 6, "SU"),
        ("delta", {"walltime": HOUR}, 4, "SU"),
        ("delta", {"walltime": HOUR, "tasks_per_node": 1}, 1, "SU"),
        ("delta", {"walltime": HOUR, "node_type": "cpu", "cpus_per_task": 16}, 16, "SU"),
        ("bridges2", {"walltime": HOUR}, 8, "SU"),
        ("frontera", {"walltime": 60}, 0.75, "SU"),
        ("lumi", {"nodes": 2, "walltime": HOUR}, 8, "GPU-hour"),
        ("delta", {"walltime": 60}, 0.0667, "SU"),
        ("jupiter", {"walltime": HOUR}, 288, "core-hour"),
    ],
)
def test_costs_at_real_sites(name: str, typed: dict[str, Any], amount: float, unit: str) -> None:
    found = planned(bundled_site(name), account="m1", **typed).cost
    assert found is not None
    assert (found.amount, found.unit) == (amount, unit)
