"""The ladder: one model for each rung, the first that fits is taken, and what is taken is what is set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpclaunch.config.job import Job
from hpclaunch.config.parameters import Parameter
from hpclaunch.config.site import Site
from hpclaunch.guidelines.batch import Batch
from hpclaunch.guidelines.calibration import Measured
from hpclaunch.guidelines.rungs import RUNGS
from hpclaunch.guidelines.throughput import Shape
from hpclaunch.planner.choice.ladder import BEYOND, BY_SETTING, SET_ALREADY
from hpclaunch.planner.explaining.words import explanation_of, table_of
from hpclaunch.planner.job.question import Evidence
from hpclaunch.planner.values import Forecast
from tests.builders import bundled_job, bundled_site
from tests.unit.planner.questions import PARAMETERS, SAVING, SPLIT, a_trained_job, plan_of, with_parameters


def a_job(parameters: float, saved_bytes: float, **training: Any) -> Job:
    """A job with every parameter of the ladder; SGD with momentum: 12 bytes of each parameter."""
    figures = {"parameters": parameters, "flops_per_sample": 1e12, "saved_bytes_per_sample": saved_bytes}
    return with_parameters(a_trained_job({**figures, "largest_layer": 1e7}, **training), SPLIT, SAVING)


BIG_DATA, SMALL_DATA = {"sample_bytes": 10**7}, {"sample_bytes": 1000}
RUNG_OF: dict[str, tuple[Job, dict[str, Any], dict[str, str]]] = {
    # 36.8 GB of a GPU of gpu40 may be used, 1.2 of them by libraries; 73.6 GB of gpu80.
    "data parallel": (a_job(1e9, 1e8), {}, {}),
    "larger node type": (a_job(3.2e9, 1e8), {}, {}),
    "16-bit arithmetic": (a_job(1e9, 1e9), {"node_type": "gpu40"}, {"precision": "bfloat16"}),
    "smaller micro-batch": (a_job(1e9, 4e9), {"node_type": "gpu40"}, {}),
    "recomputation": (a_job(1e9, 60e9), {"node_type": "gpu40"}, {"recompute": "true"}),
    "state sharding": (a_job(3.2e9, 1e8), {"node_type": "gpu40"}, {"shard_optimizer": "true"}),
    "tensor parallel": (a_job(7e9, 1e8), {"node_type": "gpu40"}, {"tensor_parallel": "4"}),
    "model parallel": (
        a_job(20e9, 1e8, **SMALL_DATA),
        {"node_type": "gpu40"},
        {"tensor_parallel": "4", "pipeline_stages": "2"},
    ),
    "model-data parallel": (
        a_job(20e9, 1e8, **BIG_DATA),
        {"node_type": "gpu40"},
        {"tensor_parallel": "4", "pipeline_stages": "2"},
    ),
}
"""Rung -> a job that needs it, what is typed, and what it sets."""


def taken(plan: Forecast) -> str:
    assert plan.rung is not None
    return plan.rung.name


@pytest.mark.parametrize("name", RUNG_OF)
def test_a_model_for_each_rung(name: str) -> None:
    job, typed, expected = RUNG_OF[name]
    plan = plan_of(job, **typed)
    assert taken(plan) == name
    assert dict(plan.rung_settings) == expected
    assert set(plan.rung_settings) <= set(plan.settings)
    assert all(f"--set {key}={text}" in plan.command for key, text in expected.items())
    assert plan.climbs == (name != "data parallel") == any("to make it fit" in line for line in table_of(plan))


@pytest.mark.parametrize("name", RUNG_OF)
def test_every_rung_has_its_figures_its_formulas_and_a_verdict(name: str) -> None:
    job, typed, _ = RUNG_OF[name]
    plan = plan_of(job, **typed)
    assert [rung.name for rung in plan.ladder] == [rule.name for rule in RUNGS]
    assert [rung.verdict for rung in plan.ladder].count("taken") == 1
    before = plan.ladder[: [rung.name for rung in plan.ladder].index(name)]
    assert all(rung.verdict in ("too large", "not possible") for rung in before)
    for rung in plan.ladder:
        assert rung.why
        if rung.memory is not None:
            assert rung.step_s is not None and rung.step_s > 0 and rung.epoch_s is not None and rung.epoch_s > 0
            assert rung.cost is not None and rung.cost > 0
            assert rung.verdict != "taken" or rung.memory.fits
    text = " ".join(" ".join(explanation_of(plan)).split())
    assert all(rule.saves in text and rule.source in text for rule in RUNGS)


def test_two_billion_parameters_with_adam_are_sent_to_the_larger_gpus() -> None:
    figures = {"parameters": 2.15e9, "flops_per_sample": 4.4e12, "saved_bytes_per_sample": 1.2e9}
    job = a_trained_job({**figures, "largest_layer": 1e8})
    own = {"optimizer": Parameter(default="adam"), "batch_size_per_rank": Parameter(default=4)}
    job = replace(job, parameters={**PARAMETERS, **own})
    plan = plan_of(job)
    assert (plan.node_type, plan.split, plan.feasible) == ("gpu80", None, True)
    assert taken(plan) == "larger node type" and "--node-type gpu80" in plan.command


def test_a_typed_node_type_is_kept() -> None:
    job, typed, _ = RUNG_OF["state sharding"]
    assert plan_of(job, **typed).node_type == "gpu40"
    assert plan_of(job).node_type == "gpu80"


def test_a_rung_that_the_job_cannot_take_is_passed_over_with_the_reason() -> None:
    job = with_parameters(a_trained_job({"parameters": 7e9, "flops_per_sample": 1e12, "saved_bytes_per_sample": 1e8}))
    plan = plan_of(job)
    assert not plan.feasible and plan.rung is None and plan.command == ""
    reasons = {rung.name: rung.why for rung in plan.ladder}
    assert reasons["state sharding"] == "it would fit, but the job has no parameter shard_optimizer"
    assert reasons["tensor parallel"] == "it would fit, but the job has no parameter tensor_parallel"
    assert reasons["beyond"] == BEYOND
    assert "state sharding would fit, but the job has no parameter shard_optimizer" in plan.refusals[0].next
    split = plan_of(with_parameters(job, SPLIT))
    assert taken(split) == "tensor parallel"


def test_a_job_that_can_share_its_weights_is_told_so_at_the_last_rung() -> None:
    plan = plan_of(with_parameters(a_job(1e13, 1e8), {"shard_weights": Parameter(default=False)}))
    assert {rung.name: rung.why for rung in plan.ladder}["beyond"] == BY_SETTING
    assert plan.refusals[0].next == BY_SETTING


def test_weights_that_are_shared_already_are_not_advised_and_are_said_not_to_be_predicted() -> None:
    shared = {"shard_weights": Parameter(default=False)}
    typed = plan_of(with_parameters(a_job(1e13, 1e8), shared), settings=(("shard_weights", "true"),))
    assert typed.refusals[0].next == SET_ALREADY and "shard_weights=true shards" not in " ".join(explanation_of(typed))
    of_the_job = plan_of(with_parameters(a_job(1e13, 1e8), {"shard_weights": Parameter(default=True)}))
    assert of_the_job.refusals[0].next == SET_ALREADY
    small = with_parameters(a_job(1e6, 1e6), shared)
    told = "shard_weights=true: its memory and traffic are not predicted"
    assert any(told in text for text in plan_of(small, settings=(("shard_weights", "true"),)).assumed)
    assert not any(told in text for text in plan_of(small).assumed)


def test_nothing_else_remains_for_a_giant() -> None:
    plan = plan_of(a_job(1e13, 1e8))
    assert not plan.feasible and plan.refusals[0].next == BEYOND


def test_typed_values_of_a_rung_are_kept() -> None:
    job, typed, _ = RUNG_OF["tensor parallel"]
    plan = plan_of(job, **typed, settings=(("tensor_parallel", "1"),), nodes=1)
    assert plan.rung is None or "tensor_parallel" not in dict(plan.rung_settings)
    whole = plan_of(job, settings=(("tensor_parallel", "4"),), node_type="gpu40")
    assert taken(whole) == "data parallel" and whole.split is not None and whole.split.gpus == 4
    assert not whole.rung_settings and whole.command.count("tensor_parallel") == 1


def test_a_typed_batch_per_rank_must_fit_as_it_is() -> None:
    """The ranks get what is typed: no rung may count on smaller micro-batches."""
    job, typed, _ = RUNG_OF["smaller micro-batch"]
    assert taken(plan_of(job, **typed)) == "smaller micro-batch"
    whole = plan_of(job, **typed, nodes=4, settings=(("batch_size_per_rank", "32"),))
    reasons = {rung.name: rung.why for rung in whole.ladder}
    assert reasons["smaller micro-batch"] == "the batch per rank is typed"
    assert reasons["data parallel"] == "too large with 32 samples"
    assert taken(whole) == "recomputation" and whole.chosen is not None and whole.chosen.batch is not None
    assert (whole.chosen.batch.per_rank, whole.chosen.batch.accumulation) == (32, 1)
    assert whole.rung is not None and whole.rung.batch == 32 and "accumulation" not in dict(whole.settings)


def test_a_parameter_with_choices_takes_only_these() -> None:
    job, typed, _ = RUNG_OF["tensor parallel"]
    job = with_parameters(job, {"tensor_parallel": Parameter(default=1, choices=(1, 2))})
    plan = plan_of(job, **typed)
    assert all(int(text) <= 2 for rung in plan.ladder for key, text in rung.settings if key == "tensor_parallel")


def test_a_job_without_stages_shares_its_layers_across_nodes() -> None:
    job = a_trained_job({"parameters": 20e9, "flops_per_sample": 1e12, "saved_bytes_per_sample": 1e8}, **SMALL_DATA)
    job = with_parameters(job, {"tensor_parallel": SPLIT["tensor_parallel"]})
    plan = plan_of(job, node_type="gpu40")
    assert taken(plan) == "model parallel" and dict(plan.rung_settings) == {"tensor_parallel": "8"}


def test_ranks_that_share_layers_divide_what_the_job_says() -> None:
    figures = {"parameters": 215e9, "flops_per_sample": 1e12, "saved_bytes_per_sample": 1e8}
    job = with_parameters(
        a_trained_job(figures, **SMALL_DATA), {"heads": Parameter(default=4), "vocabulary": Parameter(default=1024)}
    )
    typed = {"settings": (("heads", "64"), ("vocabulary", "32000")), "node_type": "gpu80"}
    shared = Parameter(default=1, at_least=1)
    free = plan_of(with_parameters(job, {"tensor_parallel": shared}), **typed)
    bound = replace(shared, divides=("heads", "vocabulary"))
    plan = plan_of(with_parameters(job, {"tensor_parallel": bound}), **typed)
    assert 64 % int(dict(free.rung_settings)["tensor_parallel"])
    assert dict(plan.rung_settings) == {"tensor_parallel": "64"}


def test_model_parallel_fills_typed_nodes_and_model_data_parallel_repeats_replicas() -> None:
    small, big = RUNG_OF["model parallel"][0], RUNG_OF["model-data parallel"][0]
    one, several = (plan_of(job, nodes=4, node_type="gpu40") for job in (small, big))
    assert one.split is not None and (one.split.pipeline_stages, one.split.replicas) == (4, 1)
    assert several.split is not None and (several.split.pipeline_stages, several.split.replicas) == (2, 2)
    assert several.split.layout.startswith("rank = (2 d + p) 4 + t: d = 0..1 the replica")
    for plan in (one, several):
        batch = plan.chosen.batch if plan.chosen else None
        assert batch is not None and batch.accumulation >= plan.split.pipeline_stages  # type: ignore[union-attr]


def test_a_typed_batch_of_a_pipeline_is_divided_as_typed() -> None:
    typed = {"pipeline_stages": "4", "tensor_parallel": "4", "batch_size_per_rank": "4", "accumulation": "2"}
    plan = plan_of(RUNG_OF["model parallel"][0], nodes=4, node_type="gpu40", settings=tuple(typed.items()))
    assert plan.chosen is not None
    assert plan.chosen.batch == Batch(per_rank=4, replicas=1, accumulation=2)


def test_too_few_typed_nodes_get_those_that_are_enough() -> None:
    plan = plan_of(RUNG_OF["model parallel"][0], nodes=1, node_type="gpu40")
    assert [fault.next for fault in plan.refusals] == ["--nodes 2 can hold one replica"]


def test_state_sharding_takes_the_nodes_that_share_enough() -> None:
    # Adam: 16 bytes of each parameter, 12 / N and 8 with sharding. gpu80 holds 7.6e9 x 9.5 bytes with 8 ranks.
    figures = {"parameters": 7.4e9, "flops_per_sample": 1e12, "saved_bytes_per_sample": 1e7, "largest_layer": 1e7}
    job = with_parameters(a_trained_job(figures), SAVING, {"optimizer": Parameter(default="adam")})
    plan = plan_of(job)
    assert taken(plan) == "state sharding" and plan.nodes >= 2
    assert all(row.nodes >= 2 for row in plan.rows if row.batch)


def test_measurements_of_a_divided_model_do_not_count_as_those_of_single_ranks() -> None:
    points = (Measured(shape=Shape(nodes=1, ranks_per_node=4, per_rank=32), samples_per_s=1.0),)
    job, typed = RUNG_OF["data parallel"][0], (("tensor_parallel", "4"),)
    measured, guessed = (plan_of(job, nodes=1, settings=typed, evidence=Evidence(points=p)) for p in (points, ()))
    assert measured.rows[0].throughput == guessed.rows[0].throughput and measured.trust == "guess"


def a_pretending_site() -> Site:
    """The test cluster, whose stand-in GPUs pretend to have 40 MB each, and their nodes 60 MB."""
    site = bundled_site("testcluster")
    small = replace(site.node_types["gpu"], stand_in_gpu_memory=40, stand_in_node_memory=60)
    return replace(site, node_types={"gpu": small})


@pytest.mark.parametrize(
    ("parameters", "sample_bytes", "rung", "strategy", "split"),
    [
        # 36.8 MB of a stand-in GPU may be used, of 12 bytes for each parameter; 36 MB of a node for the data set.
        (1e6, 25, "data parallel", "data", (1, 1)),
        (6e6, 25, "tensor parallel", "data", (2, 1)),
        (20e6, 25, "model parallel", "model", (4, 4)),
        (20e6, 250, "model-data parallel", "model-data", (4, 2)),
    ],
)
def test_a_pretended_memory_shows_all_of_it_on_four_small_nodes(
    parameters: float, sample_bytes: int, rung: str, strategy: str, split: tuple[int, int]
) -> None:
    figures = {"parameters": parameters, "flops_per_sample": 1e6, "saved_bytes_per_sample": 1e3, "largest_layer": 1e4}
    job = with_parameters(a_trained_job(figures, sample_bytes=sample_bytes), SPLIT)
    plan = plan_of(job, a_pretending_site(), nodes=4)
    assert taken(plan) == rung and plan.parallelism is not None and plan.parallelism.strategy == strategy
    found = (plan.split.tensor_parallel, plan.split.pipeline_stages) if plan.split else (1, 1)
    assert found == split
    assert plan.rung is not None and plan.rung.memory is not None
    assert plan.rung.memory.usable == pytest.approx(36.8 * 2**20)


@settings(max_examples=25)
@given(st.floats(1e8, 2e11), st.floats(1e6, 2e10), st.sampled_from(["perlmutter", "lumi", "juwels_booster"]))
def test_the_first_rung_that_fits_is_taken(parameters: float, saved_bytes: float, site: str) -> None:
    plan = plan_of(a_job(parameters, saved_bytes), site)
    possible = [rung for rung in plan.ladder if rung.verdict in ("taken", "not needed")]
    if plan.rung is None:
        assert not possible and not plan.feasible
    else:
        assert possible[0] is plan.rung and plan.rung.memory is not None and plan.rung.memory.fits
        assert plan.chosen is None or plan.chosen.batch is None or plan.chosen.ranks % plan.rung.gpus == 0


@pytest.mark.parametrize("typed", [("gradient_lag", "true"), ("update_groups", "2")])
def test_a_model_that_is_updated_in_another_way_is_not_divided(typed: tuple[str, str]) -> None:
    updates = {"gradient_lag": Parameter(default=False), "update_groups": Parameter(default=1, at_least=1)}
    job = with_parameters(a_job(2e9, 1e8), updates)
    plan = plan_of(job, nodes=2, settings=(typed,))
    whys = {rung.name: rung.why for rung in plan.ladder}
    for name in ("state sharding", "tensor parallel", "model parallel", "model-data parallel"):
        assert whys[name] == "gradient_lag and update_groups need the whole model on every rank"  # type: ignore[index]


def test_a_model_is_not_divided_for_an_optimizer_of_whole_matrices() -> None:
    choices = {"optimizer": Parameter(default="adam", choices=("adam", "muon"))}
    job = with_parameters(a_job(2e9, 1e8), choices)
    whys = {rung.name: rung.why for rung in plan_of(job, nodes=2, settings=(("optimizer", "muon"),)).ladder}
    for name in ("state sharding", "tensor parallel", "model parallel", "model-data parallel"):
        assert whys[name] == "muon needs whole weights on every rank"  # type: ignore[index]


def test_updates_that_a_plan_does_not_foresee_are_named() -> None:
    job = bundled_job("cifar")
    plain = plan_of(job, nodes=2)
    lagged = plan_of(job, nodes=2, settings=(("gradient_lag", "true"),))
    apart = plan_of(job, nodes=2, settings=(("update_groups", "4"),))
    assert not [line for line in plain.assumed if "gradient_lag" in line or "update_groups" in line]
    assert [line for line in lagged.assumed if line.startswith("gradient_lag: epochs and time are those without it")]
    assert [line for line in apart.assumed if line.startswith("update_groups=4: epochs, rates and time are those of")]
    assert "gradient_lag" not in dict(plain.settings) and "update_groups" not in dict(plain.settings)
