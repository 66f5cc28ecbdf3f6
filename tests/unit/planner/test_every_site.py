"""Every node type of every site file gets a time and a cost, and the cost is what the site charges."""

from __future__ import annotations

import pytest

from hpclaunch.config.catalog import SITE
from hpclaunch.guidelines.choice import Objective
from hpclaunch.guidelines.devices import cpu_named, gpu_named
from tests.builders import BUNDLED, bundled_job, bundled_site
from tests.unit.planner.questions import a_trained_job, plan_of

SITES = {found.name: bundled_site(found.name) for found in BUNDLED.names(SITE)}
PRODUCTION = [name for name, site in SITES.items() if site.status == "production" and site.scheduler != "local"]
NODE_TYPES = [(name, kind) for name, site in SITES.items() if site.status != "test" for kind in site.node_types]
KNOWN = [
    (name, kind)
    for name, kind in NODE_TYPES
    if gpu_named(SITES[name].node_types[kind].gpu_model) or cpu_named(SITES[name].node_types[kind].cpu)
]


def test_every_production_cluster_is_counted() -> None:
    assert len(PRODUCTION) == 36


def test_every_node_type_with_a_named_device_is_known() -> None:
    unknown = {pair for pair in NODE_TYPES if pair not in KNOWN}
    assert all(
        not SITES[name].node_types[kind].gpu_model and not SITES[name].node_types[kind].cpu for name, kind in unknown
    )


@pytest.mark.parametrize(("site", "node_type"), KNOWN)
@pytest.mark.parametrize("job", ["cifar", "resnet"])
def test_it_has_a_time_and_a_cost(site: str, node_type: str, job: str) -> None:
    asked = bundled_job("cifar") if job == "cifar" else a_trained_job()
    cores = {} if SITES[site].node_types[node_type].cores_per_node else {"cpus_per_task": 4}
    plan = plan_of(asked, SITES[site], node_type=node_type, accept_unverified=True, **cores)
    assert plan.chosen is not None and plan.chosen.candidate is not None, plan.summary
    run = plan.chosen.candidate
    assert 0 < run.time_s.low < run.time_s.middle < run.time_s.high
    assert 0 <= run.cost.low <= run.cost.middle <= run.cost.high
    assert run.cost.middle > 0
    assert not any("not counted" in text for text in plan.assumed if not text.startswith("wait in the queue"))


@pytest.mark.parametrize("site", PRODUCTION)
def test_its_default_node_type_is_among_them(site: str) -> None:
    assert plan_of(bundled_job("cifar"), SITES[site], accept_unverified=True).rows[0].candidate is not None


@pytest.mark.parametrize(("site", "factor"), [("frontera", 3), ("lonestar6", 3), ("vista", 1)])
def test_a_short_job_costs_a_quarter_of_an_hour_at_tacc(site: str, factor: int) -> None:
    plan = plan_of(bundled_job("cifar"), SITES[site], nodes=1)
    assert plan.chosen is not None and plan.chosen.candidate is not None
    assert plan.chosen.candidate.time_s.high < 900
    assert plan.chosen.candidate.cost.middle == pytest.approx(0.25 * factor)


def test_lumi_charges_four_gpu_hours_for_an_hour_of_a_node() -> None:
    plan = plan_of(bundled_job("cifar"), SITES["lumi"], nodes=2)
    assert plan.chosen is not None and plan.chosen.candidate is not None
    run = plan.chosen.candidate
    assert (plan.unit, run.unit) == ("GPU-hour", "GPU-hour")
    assert run.cost.middle == pytest.approx(4 * run.node_hours.middle)


def test_cifar_at_perlmutter_takes_seconds_to_a_minute_with_its_start_up() -> None:
    plan = plan_of(bundled_job("cifar"), SITES["perlmutter"])
    assert plan.chosen is not None and plan.chosen.candidate is not None
    run = plan.chosen.candidate
    assert run.once_s.middle >= 20
    assert 20 < run.time_s.middle < 90


def test_a_rate_that_is_not_known_is_said_in_the_plan_too() -> None:
    told = plan_of(bundled_job("cifar"), SITES["juwels_booster"]).assumed
    assert any(text.startswith("cost: ") and "rate" in text for text in told), told


@pytest.mark.parametrize(("job", "site"), [("resnet50", "perlmutter"), ("resnet50", "vista"), ("chips", "perlmutter")])
def test_who_prefers_cost_gets_fewer_nodes_and_who_prefers_time_gets_more(job: str, site: str) -> None:
    found = {}
    for word in ("cost", "time"):
        objective = Objective(weight={"time": 2 / 3, "cost": 1 / 3}[word])
        plan = plan_of(bundled_job(job), SITES[site], objective=objective, accept_unverified=True)
        assert plan.chosen is not None and plan.chosen.candidate is not None
        found[word] = plan.chosen.candidate
    if job == "resnet50" and site == "vista":  # up to its published batch 64 nodes are worth it for either
        rows = [row.candidate for row in plan.rows if row.candidate is not None]
        assert found["cost"] == found["time"]
        for weight in (1 / 3, 2 / 3):
            score = {row.nodes: row.time_s.middle**weight * row.cost.middle ** (1 - weight) for row in rows}
            assert min(score, key=score.__getitem__) == found["cost"].nodes, score
        return
    assert found["cost"].ranks < found["time"].ranks
    assert found["cost"].cost.middle < found["time"].cost.middle
    assert found["cost"].time_s.middle > found["time"].time_s.middle
