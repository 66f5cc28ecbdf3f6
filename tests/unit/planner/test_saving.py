"""The interval of checkpoints in a plan: from what was measured and the site's figure, or said to be unknown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hpclaunch.config.parameters import Parameter
from hpclaunch.guidelines.checkpoints import daly_interval
from hpclaunch.planner.explaining.words import explanation_of, text_of
from hpclaunch.planner.job.question import Evidence
from tests.builders import bundled_site
from tests.unit.planner.questions import a_trained_job, plan_of, with_parameters

MINUTES = {"checkpoint_minutes": Parameter(default=15.0), "checkpoint_steps": Parameter(default=0)}
JOB = with_parameters(a_trained_job(), MINUTES)


def test_what_was_never_measured_is_not_invented() -> None:
    plan = plan_of(JOB, nodes=4)
    assert plan.checkpoints is None
    assert "what a checkpoint takes is not measured yet" in " ".join(explanation_of(plan))
    assert not [line for line in text_of(plan) if "save every" in line]


def test_a_job_that_does_not_save_by_the_library_gets_no_section() -> None:
    assert "checkpoints" not in [section.title for section in plan_of(nodes=4).sections]


def test_the_interval_follows_the_measurement_and_the_nodes_of_the_plan() -> None:
    plan = plan_of(JOB, nodes=4, evidence=Evidence(save_s=20.0, overhead_s=60.0))
    advice = plan.checkpoints
    assert advice is not None and advice.assumed
    assert advice.mtbf_s == 240 * 86400 / 4
    assert advice.interval_s == pytest.approx(daly_interval(20.0, advice.mtbf_s))
    assert advice.saving.restart_s == 60.0
    text = " ".join(" ".join(text_of(plan)).split())
    assert "saving" in text and "assumed; the site file has no mtbf_days" in text and "as now, loses" in text
    assert json.loads(json.dumps(plan.to_json()))["checkpoints"]["saving"]["save_s"] == 20.0


def test_the_sites_own_figure_is_used() -> None:
    site = bundled_site("perlmutter")
    known = replace(site, node_types={name: replace(node, mtbf_days=30.0) for name, node in site.node_types.items()})
    advice = plan_of(JOB, known, nodes=4, evidence=Evidence(save_s=20.0)).checkpoints
    assert advice is not None and not advice.assumed and advice.mtbf_s == 30 * 86400 / 4


@pytest.mark.parametrize(
    ("minutes", "used"),
    # An epoch of 1,281,167 images takes longer than a minute, and less than a day.
    [("1", 60.0), ("1440", None), ("0", None)],
)
def test_the_used_interval_is_the_shortest_of_epoch_and_minutes(minutes: str, used: float | None) -> None:
    plan = plan_of(JOB, nodes=4, evidence=Evidence(save_s=2.0), settings=(("checkpoint_minutes", minutes),))
    advice, row = plan.checkpoints, plan.chosen
    assert advice is not None and row is not None and row.candidate is not None
    epoch = 1_281_167 / row.candidate.samples_per_s.middle
    assert advice.saving.used_s == pytest.approx(used if used is not None else epoch)


def test_the_steps_of_an_interval_count_too() -> None:
    plan = plan_of(JOB, nodes=4, evidence=Evidence(save_s=2.0), settings=(("checkpoint_steps", "10"),))
    advice, row = plan.checkpoints, plan.chosen
    assert advice is not None and row is not None and row.candidate is not None and row.batch is not None
    seconds = 10 * row.batch.total / row.candidate.samples_per_s.middle
    assert advice.saving.used_s == pytest.approx(min(seconds, 900.0))
