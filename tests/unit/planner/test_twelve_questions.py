"""Questions to a plan, and what an expert expects. Decoders: test_own_program; typed: test_expert_questions."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from hpclaunch.config.job import Job
from hpclaunch.core.spec import Pairs
from hpclaunch.guidelines.candidates import Candidate
from hpclaunch.guidelines.choice import Objective
from hpclaunch.planner.values import Forecast
from tests.builders import bundled_job
from tests.unit.planner.questions import a_trained_job, plan_of


def run_of(plan: Forecast) -> Candidate:
    """The candidate of the chosen row."""
    assert plan.chosen is not None and plan.chosen.candidate is not None
    return plan.chosen.candidate


def with_defaults(job: Job, **values: object) -> Job:
    """The job with other defaults of its parameters."""
    rows = {name: replace(job.parameters[name], default=value) for name, value in values.items()}
    return replace(job, parameters={**job.parameters, **rows})


def a_vision_transformer() -> Job:
    """ViT-L on ImageNet, whose rate is for 2,048 images."""
    figures = {"parameters": 304e6, "flops_per_sample": 123e9, "saved_bytes_per_sample": 600e6, "largest_layer": 4e6}
    job = a_trained_job(figures, base_batch=2048)
    return with_defaults(job, optimizer="adamw", learning_rate=0.001, batch_size_per_rank=64)


def a_segmentation() -> Job:
    """A U-Net in three dimensions: 168 volumes, SGD with momentum 0.99, a rate for 2 volumes, 1,000 epochs."""
    figures = {"parameters": 31e6, "flops_per_sample": 1e12, "saved_bytes_per_sample": 4e9, "largest_layer": 5e6}
    job = a_trained_job(figures, samples=168, sample_bytes=50_000_000, task=None, base_batch=2)
    return with_defaults(job, momentum=0.99, learning_rate=0.01, batch_size_per_rank=2, epochs=1000)


def test_resnet_50_keeps_90_epochs_up_to_8192_images_at_nearly_equal_cost() -> None:
    """Question 1."""
    plan = plan_of(bundled_job("resnet50"))
    runs = [row.candidate for row in plan.rows if row.candidate is not None]
    assert max(run.batch.total for run in runs) == 8192
    assert all(run.epochs.middle == 90 for run in runs)
    assert all(more.time_s.middle < fewer.time_s.middle for fewer, more in pairwise(runs))
    cheap = [run.cost.middle for run in runs if run.nodes <= 8]
    assert max(cheap) < 1.25 * min(cheap)


def test_its_budget_of_100_and_deadline_of_two_hours_can_be_met() -> None:
    """Question 2."""
    objective = Objective(budget=100, deadline_s=7200)
    for nodes in (None, 16):
        plan = plan_of(bundled_job("resnet50"), nodes=nodes, objective=objective)
        assert plan.feasible
        assert run_of(plan).done_s < 7200 and run_of(plan).cost.middle < 100


@pytest.mark.parametrize("nodes", [None, 4])
def test_a_segmentation_keeps_its_epochs_and_no_linear_rate(nodes: int | None) -> None:
    """Question 5: nobody showed the linear rule for a momentum of 0.99."""
    plan = plan_of(a_segmentation(), site="lumi", nodes=nodes, accept_unverified=True)
    assert run_of(plan).epochs.middle == 1000
    assert plan.recipe is not None and plan.recipe.rate is not None
    assert plan.recipe.rate.rule == "sqrt"
    usual = plan_of(with_defaults(a_segmentation(), momentum=0.9), site="lumi", nodes=nodes, accept_unverified=True)
    assert usual.recipe is not None and usual.recipe.rate is not None and usual.recipe.rate.rule == "linear"


def test_a_tiny_model_on_16_typed_nodes_is_told_to_use_one_process_with_both_costs() -> None:
    """Question 6."""
    figures = {"parameters": 1e5, "flops_per_sample": 2e5, "saved_bytes_per_sample": 4e3, "operations": 40.0}
    job = a_trained_job({**figures, "largest_layer": 5e4}, samples=60_000, sample_bytes=784, task="mnist")
    typed, free = plan_of(job, nodes=16), plan_of(job)
    (warning,) = [text for text in typed.warnings if "do not distribute" in text]
    assert f"for {run_of(typed).cost.middle:.2g} node-hours, instead of" in warning
    assert (free.nodes, free.ranks_per_node) == (1, 1)


def test_a_vision_transformer_keeps_its_batch_and_imagenet_is_not_small() -> None:
    """Question 7."""
    plan = plan_of(a_vision_transformer())
    assert run_of(plan).batch.total == 2048
    assert plan.recipe is not None and plan.recipe.rate is not None and plan.recipe.rate.factor == 1
    assert not any("data set is small" in text for text in plan.warnings)
    assert plan.nodes > 1


def test_a_batch_larger_than_the_data_is_refused() -> None:
    """Question 8."""
    plan = plan_of(bundled_job("resnet50"), global_batch=2_000_000)
    assert not plan.feasible
    assert any("larger than the data set" in fault.what for fault in plan.refusals)


def test_a_fine_tune_of_one_epoch_is_one_epoch_and_priced_as_one() -> None:
    """Question 12."""
    one: Pairs = (("epochs", "1"),)
    plan = plan_of(a_vision_transformer(), settings=one)
    assert run_of(plan).epochs.middle == 1
    assert "--set epochs=1 " in f"{plan.command} "
    assert plan.command.count("epochs=") == 1
