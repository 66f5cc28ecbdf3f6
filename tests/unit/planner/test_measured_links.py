"""What measured all-reduces change in a plan: the network's share of a step, its range, and what is assumed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpclaunch.guidelines.communication import Group, MeasuredLink
from hpclaunch.guidelines.intervals import Interval
from hpclaunch.planner.explaining.words import explanation_of, text_of
from hpclaunch.planner.job.question import Evidence
from hpclaunch.planner.values import Forecast
from tests.builders import bundled_job
from tests.unit.planner.questions import plan_of

BETWEEN = MeasuredLink(
    group=Group(nodes=2, per_node=4), latency_s=1e-3, bytes_per_s=1e9, spread=0.3, on_gpus=True, origin="doctor-1"
)
INSIDE = replace(BETWEEN, group=Group(nodes=1, per_node=4), bytes_per_s=150e9)


def plan_with(*links: MeasuredLink, nodes: int | None = 8) -> Forecast:
    return plan_of(nodes=nodes, evidence=Evidence(links=links))


def rate(plan: Forecast) -> Interval:
    assert plan.chosen is not None and plan.chosen.throughput is not None
    return plan.chosen.throughput.samples_per_s


def test_a_slow_measured_network_makes_a_plan_slower_and_more_certain() -> None:
    before, after = plan_with(), plan_with(BETWEEN)
    assert rate(after).middle < 0.8 * rate(before).middle
    assert rate(after).high / rate(after).low < rate(before).high / rate(before).low
    assert after.links == ("all-reduce of 2 nodes x 4 ranks: 1 GB/s, latency 1 ms (doctor-1; measured at scale)",)


def test_fewer_nodes_are_chosen_where_the_network_is_slow() -> None:
    assert plan_with(replace(BETWEEN, bytes_per_s=2e7), nodes=None).nodes < plan_with(nodes=None).nodes


def test_the_marks_of_the_five_lines_stay_those_of_the_job() -> None:
    assert plan_with(BETWEEN).trust == plan_with().trust == "guess"


def test_inside_a_node_it_counts_on_one_node() -> None:
    slow = replace(INSIDE, bytes_per_s=1e9)
    assert rate(plan_with(slow, nodes=1)).middle < rate(plan_with(nodes=1)).middle
    assert rate(plan_with(slow)).middle == rate(plan_with()).middle
    assert "one node measured" in plan_with(INSIDE).links[0]


@pytest.mark.parametrize(
    "other",
    [
        replace(BETWEEN, group=Group(nodes=2, per_node=2)),  # other ranks per node
        replace(BETWEEN, on_gpus=False),  # of values in the memory of the host
    ],
)
def test_all_reduces_of_other_ranks_do_not_count(other: MeasuredLink) -> None:
    assert (plan_with(other).links, rate(plan_with(other))) == ((), rate(plan_with()))


def test_of_several_node_counts_the_largest_counts() -> None:
    larger = replace(BETWEEN, group=Group(nodes=8, per_node=4), bytes_per_s=5e9)
    assert rate(plan_with(larger, BETWEEN)) == rate(plan_with(BETWEEN, larger)) == rate(plan_with(larger))


def test_a_measured_network_is_not_assumed() -> None:
    asked = {"job": bundled_job("cifar"), "site": "testcluster", "nodes": 2, "tasks_per_node": 1}
    cpus = replace(BETWEEN, group=Group(nodes=2, per_node=1), on_gpus=False)
    before, after = plan_of(**asked), plan_of(**asked, evidence=Evidence(links=(cpus,)))
    assert any(line.startswith("network of a node: not known") for line in before.assumed)
    assert not any(line.startswith("network") for line in after.assumed)
    assert any("measured: all-reduce of 2 nodes x 1 rank: 1 GB/s" in line for line in text_of(after))


def test_the_reasoning_names_the_measurement_and_what_it_replaces() -> None:
    lines = explanation_of(plan_with(BETWEEN, INSIDE))
    text = " ".join(" ".join(lines).split())
    assert "MEASUREMENTS" in lines
    assert "1 GB/s between nodes, instead of 10" in text
    assert "150 GB/s inside a node, instead of 240" in text
    assert "hpclaunch doctor: doctor-1" in text
