"""The first five lines of a plan: their figures, ranges and marks of trust."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from hpclaunch.config.catalog import SITE
from hpclaunch.guidelines.calibration import Measured
from hpclaunch.guidelines.choice import Objective
from hpclaunch.guidelines.efficiency import NoiseScale
from hpclaunch.guidelines.throughput import Shape
from hpclaunch.planner.explaining.words import WIDTH, headline_lines
from hpclaunch.planner.job.question import Evidence, Queue
from hpclaunch.planner.values import Forecast, Headline
from tests.builders import BUNDLED, bundled_job
from tests.unit.planner.questions import a_trained_job, plan_of

NAMES = ["nodes", "batch", "rate", "time", "cost"]
NOISE = NoiseScale(value=900, low=700, high=1200, steps=2000)


def measured(*nodes: int, per_rank: int = 256) -> tuple[Measured, ...]:
    """Points on these node counts, with two batch sizes on the first."""
    shapes = [Shape(nodes=count, ranks_per_node=4, per_rank=per_rank) for count in nodes]
    shapes.append(Shape(nodes=nodes[0], ranks_per_node=4, per_rank=per_rank // 2))
    return tuple(Measured(shape=shape, samples_per_s=900.0 * shape.nodes * 4) for shape in shapes)


def line(plan: Forecast, name: str) -> Headline:
    return next(headline for headline in plan.headlines if headline.name == name)


@pytest.mark.parametrize(
    ("evidence", "speed", "batch"),
    [
        (Evidence(), "guess", "guess"),
        (Evidence(points=measured(1)), "one node measured", "guess"),
        (Evidence(points=measured(1, 2)), "measured at scale", "guess"),
        (Evidence(points=measured(1), noise=NOISE), "one node measured", "one node measured"),
        (Evidence(points=measured(1, 2), noise=NOISE), "measured at scale", "measured at scale"),
        (Evidence(noise=NoiseScale(value=900, low=1, high=1200, steps=2000)), "guess", "guess"),
    ],
)
def test_every_line_has_one_mark_of_trust(evidence: Evidence, speed: str, batch: str) -> None:
    plan = plan_of(evidence=evidence)
    marks = {headline.name: headline.trust for headline in plan.headlines}
    assert marks == {"nodes": speed, "batch": batch, "rate": "guess", "time": speed, "cost": speed}
    for text, headline in zip(headline_lines(plan), plan.headlines, strict=True):
        assert text.endswith(f"  {headline.trust}")


def test_time_and_cost_are_those_of_the_chosen_row_and_name_the_wait() -> None:
    plan = plan_of(queue=Queue(waits={1: 600.0}))
    assert plan.chosen is not None and plan.chosen.candidate is not None
    run = plan.chosen.candidate
    assert (line(plan, "time").low, line(plan, "time").high) == (run.time_s.low, run.time_s.high)
    assert (line(plan, "cost").number, line(plan, "cost").unit) == (run.cost.middle, f"{run.unit}s")
    assert line(plan, "time").value.endswith(", after 10 min in the queue")


def test_the_range_of_nodes_are_the_counts_that_are_about_as_good() -> None:
    plan = plan_of()
    assert plan.chosen is not None and plan.chosen.trade_off is not None
    most = 1.1 * plan.chosen.trade_off
    close = [row.nodes for row in plan.rows if row.trade_off is not None and row.trade_off <= most]
    nodes = line(plan, "nodes")
    assert (nodes.low, nodes.high, nodes.unit) == (min(close), max(close), "nodes")
    assert min(close) <= plan.nodes <= max(close)


def test_the_sizes_of_a_shared_node_are_counted_in_ranks() -> None:
    plan = plan_of(bundled_job("cifar"))
    nodes = line(plan, "nodes")
    assert plan.ranks_per_node == 1 and nodes.value == "1 GPU of a shared node"
    assert (nodes.number, nodes.unit) == (1, "ranks")


def test_counts_that_miss_the_deadline_are_in_no_range() -> None:
    free = plan_of()
    assert free.chosen is not None and free.chosen.candidate is not None
    hurried = plan_of(objective=Objective(deadline_s=free.chosen.candidate.done_s * 1.01))
    late = {row.nodes for row in hurried.rows if row.obstacles}
    assert hurried.nodes == free.nodes and late
    nodes = line(hurried, "nodes")
    assert nodes.low is not None and nodes.high is not None
    assert not any(nodes.low <= count <= nodes.high for count in late)
    impossible = plan_of(objective=Objective(deadline_s=1.0))
    assert (line(impossible, "nodes").low, line(impossible, "nodes").range) == (None, "not feasible")


def test_a_measured_noise_scale_bounds_the_batch_with_its_interval() -> None:
    batch = line(plan_of(evidence=Evidence(noise=NOISE)), "batch")
    assert (batch.low, batch.high, batch.range) == (700, 1200, "useful up to 700 to 1200")


def test_without_one_the_useful_batch_lies_between_the_critical_and_the_published_batch() -> None:
    plan = plan_of(bundled_job("cifar"), nodes=4)
    batch = line(plan, "batch")
    assert plan.efficiency is not None and plan.efficiency.critical.samples == 900
    assert (batch.low, batch.high, batch.number) == (900 / plan.efficiency.critical.spread, 4096, 4 * 4 * 512)


def test_a_rate_has_the_range_of_the_guidelines_rules() -> None:
    plan = plan_of(nodes=2)
    rate, recipe = line(plan, "rate"), plan.recipe
    assert recipe is not None and recipe.rate is not None
    growth = recipe.batch.total / 256
    assert (rate.low, rate.high) == (pytest.approx(0.1 * growth**0.5), pytest.approx(0.1 * growth))
    assert rate.number == recipe.rate.scaled
    assert f"warm-up {recipe.warm_up.epochs:.2g} of " in rate.value


@pytest.mark.parametrize("asked", [{"job": a_trained_job({})}, {"job": bundled_job("cifar"), "site": "local"}])
def test_what_is_not_known_says_so(asked: dict[str, Any]) -> None:
    plan = plan_of(**asked)
    assert [headline.name for headline in plan.headlines] == NAMES
    time = line(plan, "time")
    assert plan.chosen is not None
    assert (time.value == "not known", time.number is None) == (plan.chosen.candidate is None,) * 2


@pytest.mark.parametrize("site", [found.name for found in BUNDLED.names(SITE)])
def test_every_site_gets_five_lines_of_80_columns_and_plain_json(site: str) -> None:
    plan = plan_of(bundled_job("cifar"), site=site)
    lines = headline_lines(plan)
    assert [text.split()[0] for text in lines] == NAMES
    assert max(map(len, lines)) <= WIDTH
    assert not re.search(r"NaN|Infinity", json.dumps(plan.to_json()))
    for headline in plan.headlines:
        assert headline.low is None or headline.high is None or headline.low <= headline.high


def test_a_typed_node_count_is_compared_with_what_is_clearly_better() -> None:
    nodes = line(plan_of(bundled_job("mnist"), nodes=16), "nodes")
    assert "better" in nodes.range and "as good" not in nodes.range, nodes


def test_a_typed_node_count_that_was_compared_with_no_other_is_as_typed() -> None:
    plan = plan_of(nodes=6)
    assert line(plan, "nodes").range == "as typed"


def test_typed_nodes_keep_the_jobs_batch_and_a_note_names_a_better_one() -> None:
    job = bundled_job("resnet50")
    (note,) = plan_of(job, nodes=6).notes
    found = re.match(r"typed nodes keep the job's own batch; --set batch_size_per_rank=(\d+) \(B = (\d+)\) would", note)
    assert found and int(found[2]) == 24 * int(found[1])
    better = plan_of(job, nodes=6, settings=(("batch_size_per_rank", found[1]),))
    assert better.chosen is not None and better.chosen.candidate is not None and not better.notes
    assert note.endswith(f"{line(better, 'time').value} and {line(better, 'cost').value}")
