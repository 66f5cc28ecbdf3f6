"""The plan of a job at a site: strategy, batch, nodes, what was typed, what is impossible, what is not known."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.config.catalog import SITE
from hpclaunch.config.job import Job
from hpclaunch.config.parameters import Parameter
from hpclaunch.config.site import Defaults, Nics, NodeType, Site
from hpclaunch.core.errors import Refused
from hpclaunch.core.units import parse_walltime
from hpclaunch.guidelines.batch import Batch
from hpclaunch.guidelines.calibration import Measured
from hpclaunch.guidelines.choice import Objective
from hpclaunch.guidelines.efficiency import NoiseScale
from hpclaunch.guidelines.figures import LayerFigures
from hpclaunch.guidelines.throughput import Shape
from hpclaunch.planner.explaining.words import WIDTH, explanation_of, table_of
from hpclaunch.planner.forecasting import forecast
from hpclaunch.planner.job.question import Evidence, Question, Queue, trials_of
from hpclaunch.planner.job.recipe import recipe_at
from hpclaunch.planner.job.workload import stored_figures, workload_of
from hpclaunch.planner.values import Forecast
from hpclaunch.resolve.program.recipes import as_typed
from tests.builders import BUNDLED, a_case, a_job, a_site, bundled_job, bundled_site
from tests.unit.planner.questions import SAVING, SPLIT, a_trained_job, ask, plan_of, with_parameters

SITES = [found.name for found in BUNDLED.names(SITE)]
HUGE = {"parameters": 7e9, "flops_per_sample": 1e12, "saved_bytes_per_sample": 4e9, "largest_layer": 1e6}
GIANT = {**HUGE, "parameters": 60e9}


def a_slow_cluster() -> Site:
    """Twelve nodes with a V100 each, and Gigabit Ethernet."""
    node = NodeType(
        title="x",
        nodes=12,
        cores_per_node=16,
        gpus_per_node=1,
        gpu_model="NVIDIA V100",
        gpu_memory_gb=32,
        memory_gb=256,
        nics=Nics(model="Ethernet", count=1, gbytes_per_s_each=0.125),
    )
    return a_site(node_types={"gpu": node}, partitions={}, defaults=Defaults(node_type="gpu", walltime=3600))


def value_of(plan: Forecast, name: str) -> str | None:
    return dict(plan.settings).get(name)


def test_cifar_stays_within_what_was_measured_on_one_gpu() -> None:
    plan = plan_of(bundled_job("cifar"))
    assert plan.nodes == 1
    assert plan.chosen is not None and plan.chosen.batch is not None
    assert 512 <= plan.chosen.batch.total <= 4096  # the job's own, and this project's largest with the same epochs
    assert (plan.ranks_per_node, "--tasks-per-node 1" in plan.command) == (1, True)  # steps are too short for several
    (note,) = plan.notes
    assert "is above the rule of thumb, sqrt(N) = 224: up to 4096 samples have the same epochs" in note


def test_an_unknown_task_stays_below_the_square_root() -> None:
    plan = plan_of(a_trained_job(task=None))
    assert plan.chosen is not None and plan.chosen.batch is not None
    assert plan.chosen.batch.total <= 1131 and not any("rule of thumb" in note for note in plan.notes)


def test_few_samples_for_each_rank_are_no_wall_but_are_told() -> None:
    plan = plan_of(a_trained_job(task=None), objective=Objective(weight=0.9))
    assert plan.chosen is not None and plan.chosen.batch is not None
    assert plan.chosen.batch.per_rank < 32 and plan.chosen.batch.total <= 1131
    assert any("samples for each rank are fewer than the 32 that are advised" in note for note in plan.notes)
    assert plan.warnings == ()


def above_bound(batch: int, published: int, root: int, critical: int) -> str:
    words = f"the global batch size B = {batch} is above {published} samples, published with the same epochs"
    return f"{words} (sqrt(N) = {root}, B_crit = {critical}): a larger batch gains less from each sample"


MEASURED_RECIPE = {"scale_learning_rate": "sqrt", "warmup_epochs": "2", "decay": "cosine"}


def test_the_batch_that_this_project_measured_gets_the_recipe_that_it_measured() -> None:
    plan = plan_of(bundled_job("cifar"), "testcluster", nodes=4, tasks_per_node=2)
    assert plan.chosen is not None and plan.chosen.batch is not None and plan.chosen.batch.total == 4096
    assert dict(plan.settings) == MEASURED_RECIPE  # the job's own: Adam, 0.001 for one rank, 12 epochs
    assert list(plan.warnings) == []


def test_a_doubling_beyond_it_keeps_the_optimizer_takes_longer_and_says_so() -> None:
    plan = plan_of(bundled_job("cifar"), nodes=4)
    assert (plan.nodes, plan.typed) == (4, True)
    assert list(plan.warnings) == [
        above_bound(8192, 4096, 224, 900),
        "B = 8192 is beyond what was measured: adam on cifar-10 up to 4096 samples",
    ]
    # 12 (1 + 8192 / 900) / (1 + 4096 / 900) epochs, a fifth of them warm-up: 134 steps, and 156 at 4096.
    assert dict(plan.settings) == {**MEASURED_RECIPE, "epochs": "22", "warmup_epochs": "4.4"}


@pytest.mark.parametrize(
    ("job", "nodes", "per_rank", "epochs", "settings"),
    [
        # Goyal et al. 2017, whose recipe is the job's own
        ("resnet50", 64, 32, (81, 99), {}),
        ("resnet50", 256, 32, (30, 90), {"optimizer": "lars", "learning_rate": "25", "warmup_epochs": "10"}),
        # MLPerf HPC v0.7: 102 epochs at 512 and 161 at 1024, with the same warm-up and decay at every batch size
        ("cosmoflow", 32, 4, (92, 112), {"learning_rate": "0.008"}),
        ("cosmoflow", 64, 4, (145, 177), {"learning_rate": "0.016"}),
    ],
)
def test_published_recipes_come_out(
    job: str, nodes: int, per_rank: int, epochs: tuple[float, float], settings: dict[str, str]
) -> None:
    plan = plan_of(bundled_job(job), nodes=nodes, settings=(("batch_size_per_rank", str(per_rank)),))
    assert plan.chosen is not None and plan.chosen.candidate is not None
    assert epochs[0] <= plan.chosen.candidate.epochs.middle <= epochs[1]
    assert settings.items() <= dict(plan.settings).items()
    assert "optimizer" in settings or not {"optimizer", "warmup_epochs", "decay"} & set(dict(plan.settings))


def test_a_million_parameters_with_a_billion_samples_stay_with_their_optimizer() -> None:
    figures = {"parameters": 1e6, "flops_per_sample": 1e7, "saved_bytes_per_sample": 1e5, "largest_layer": 1e5}
    job = a_trained_job(figures, samples=10**9, task=None)
    for nodes in (None, 16):
        plan = plan_of(job, nodes=nodes)
        assert value_of(plan, "optimizer") is None
        assert plan.chosen is not None and plan.chosen.batch is not None and plan.chosen.batch.total <= 31_622


def test_a_measured_noise_scale_moves_the_epochs_too() -> None:
    noise = NoiseScale(value=2000, low=1500, high=2500, steps=5000)
    typed = {"job": bundled_job("cosmoflow"), "nodes": 64}
    known, measured = plan_of(**typed), plan_of(**typed, evidence=Evidence(noise=noise))
    assert known.chosen is not None and known.chosen.candidate is not None
    assert measured.chosen is not None and measured.chosen.candidate is not None
    assert measured.chosen.candidate.epochs.middle == round(50 * (1 + 1024 / 2000) / (1 + 64 / 2000))
    assert measured.chosen.candidate.epochs.middle < 0.5 * known.chosen.candidate.epochs.middle
    assert not any("is above the" in warning for warning in measured.warnings)  # the bound is 2000 too


def the_epochs(plan: Forecast) -> str:
    """What is assumed of the epochs."""
    return next(line for line in plan.assumed if line.startswith("epochs: "))


def test_what_an_unknown_critical_batch_may_need_is_told_and_the_jobs_epochs_stay() -> None:
    known = plan_of(a_trained_job(critical_batch=3200, task=None), nodes=8)
    # 8 x 4 x 256 = 8192 samples: 90 (1 + 8192 / 3200) / (1 + 256 / 3200) epochs
    assert (value_of(known, "epochs"), the_epochs(known)[:12]) == ("297", "epochs: 297;")
    unknown = plan_of(a_trained_job(task=None), nodes=8)
    assert value_of(unknown, "epochs") is None
    said = re.fullmatch(r"epochs: the job's own 90; .* the target may need (\d+) to (\d+), .*", the_epochs(unknown))
    assert said is not None and 90 < int(said[1]) < 297 < int(said[2])


@pytest.mark.parametrize("further", [{}, {"critical_batch": 3200, "task": None}, {"task": None}])
@pytest.mark.parametrize("nodes", [None, 1, 8, 64])
def test_the_epochs_that_are_priced_are_those_that_are_set(further: dict[str, Any], nodes: int | None) -> None:
    for epochs in (1, 3, 90):
        plan = plan_of(with_default("epochs", epochs, a_trained_job(**further)), nodes=nodes)
        assert plan.chosen is not None and plan.chosen.candidate is not None and plan.recipe is not None
        set_to = float(value_of(plan, "epochs") or epochs)
        priced = plan.chosen.candidate.epochs
        assert priced.low == priced.middle == priced.high == set_to == plan.recipe.epochs


def test_a_fraction_of_an_epoch_is_trained_as_steps_where_the_job_counts_them() -> None:
    job = with_parameters(
        with_default("epochs", 1, a_trained_job(critical_batch=32_000, task=None)), {"max_steps": Parameter(default=0)}
    )
    assert job.training is not None
    counts = replace(job, training=replace(job.training, names={"steps": "max_steps"}))
    plan, whole = plan_of(counts, nodes=2), plan_of(job, nodes=2)
    assert plan.chosen is not None and plan.chosen.candidate is not None
    # 2048 samples: (1 + 2048 / 32000) / (1 + 256 / 32000) = 1.0556 epochs
    steps = math.ceil(1281167 / 2048 * (1 + 2048 / 32000) / (1 + 256 / 32000))
    assert (value_of(plan, "max_steps"), value_of(plan, "epochs")) == (str(steps), None)
    assert plan.chosen.candidate.epochs.middle == pytest.approx(steps * 2048 / 1281167)
    assert value_of(whole, "epochs") is None  # less than what differs from run to run
    typed = plan_of(counts, nodes=2, settings=(("max_steps", "100"),))
    assert typed.chosen is not None and typed.chosen.candidate is not None
    assert typed.chosen.candidate.epochs.middle == pytest.approx(100 * 2048 / 1281167)
    assert value_of(typed, "max_steps") is None


def with_default(name: str, default: Any, job: Job | None = None) -> Job:
    job = job or bundled_job("cifar")
    return replace(job, parameters={**job.parameters, name: replace(job.parameters[name], default=default)})


def rate_in_training(plan: Forecast, rule: str, factor: float, base: float = 0.001) -> float:
    """What the ranks make of the settings; ``factor``: of that rule, where they apply it."""
    known = dict(plan.settings)
    return float(known.get("learning_rate", base)) * (factor if known.get("scale_learning_rate", rule) == rule else 1)


@pytest.mark.parametrize(("rule", "factor"), [("linear", 16.0), ("sqrt", 4.0), ("power23", 16 ** (2 / 3))])
@pytest.mark.parametrize(("per_rank", "scaled"), [(512, 16.29), (256, 11.52), (32, 0.001)])
def test_a_typed_or_default_rule_of_the_ranks_is_not_applied_twice(
    rule: str, factor: float, per_rank: int, scaled: float
) -> None:
    batch, job = ("batch_size_per_rank", str(per_rank)), with_default("optimizer", "sgd")  # LARS from 3600 samples on
    typed = plan_of(job, nodes=4, settings=(batch, ("scale_learning_rate", rule)))
    own = plan_of(with_default("scale_learning_rate", rule, job), nodes=4, settings=(batch,))
    assert "scale_learning_rate" not in dict(typed.settings)
    assert rate_in_training(own, rule, factor) == pytest.approx(scaled, rel=1e-3)
    assert rate_in_training(typed, rule, factor) == pytest.approx(scaled, rel=1e-3)


def test_a_typed_learning_rate_is_kept_and_what_the_rule_says_is_told() -> None:
    plan = plan_of(settings=(("learning_rate", "0.5"),))
    assert plan.nodes == 64 and value_of(plan, "learning_rate") is None
    assert "learning rate kept as typed: 0.5 in training; the rule for B = 8192 gives 3.2" in plan.warnings
    free = plan_of(nodes=8)  # 32 x 256: linear, by the ranks themselves
    assert value_of(free, "scale_learning_rate") == "linear"
    typed = plan_of(nodes=8, settings=(("learning_rate", "0.5"),))
    assert value_of(typed, "scale_learning_rate") is None
    assert any("kept as typed: 0.5 in training" in warning for warning in typed.warnings)
    by_rule = plan_of(nodes=8, settings=(("learning_rate", "0.1"), ("scale_learning_rate", "linear")))
    assert not any("kept as typed" in warning for warning in by_rule.warnings)


@pytest.mark.parametrize("asked", [{}, {"nodes": 2}, {"settings": (("optimizer", "lars"),)}])
def test_the_rate_of_a_plan_typed_again_is_that_of_the_rule(asked: dict[str, Any]) -> None:
    plan = plan_of(**asked)
    assert plan.recipe is not None and plan.recipe.rate is not None
    rate = ("learning_rate", f"{plan.recipe.rate.scaled:.4g}")
    given = (*asked.get("settings", ()), ("batch_size_per_rank", str(plan.recipe.batch.per_rank)), rate)
    again = plan_of(nodes=plan.nodes, settings=(*given, ("scale_learning_rate", "none")))
    assert not any("kept as typed" in warning for warning in again.warnings)
    rates = [next(line for line in found.headlines if line.name == "rate") for found in (plan, again)]
    assert [rates[0].low, rates[0].high] == pytest.approx([rates[1].low, rates[1].high], rel=1e-3)


@pytest.mark.parametrize("rule", [None, "linear", "adascale"])
def test_a_rate_of_another_optimizer_is_neither_scaled_nor_named(rule: str | None) -> None:
    """No rule makes a rate of SGD one of AdamW, not even a typed one: it was scaled to 0.07 and to 0.2."""
    typed = (("scale_learning_rate", rule),) if rule else ()
    plan = plan_of(bundled_job("resnet50"), settings=(("optimizer", "adamw"), *typed))
    assert value_of(plan, "learning_rate") is None
    assert value_of(plan, "scale_learning_rate") == (None if rule else "none")
    line = next(one for one in plan.headlines if one.name == "rate")
    assert line.value == "not known" and line.number is None
    assert any("was tuned for sgd, not for adamw" in text for text in plan.warnings)


def test_a_typed_rule_starts_from_the_rate_that_leads_to_that_of_lamb() -> None:
    """The ranks apply the typed rule; SGD's rate was scaled by it instead."""
    settings = (("optimizer", "lamb"), ("scale_learning_rate", "linear"))
    plan = plan_of(bundled_job("resnet50"), nodes=4, settings=settings)
    line = next(one for one in plan.headlines if one.name == "rate")
    assert line.number == pytest.approx(0.005 * math.sqrt(512 / 32768))
    assert float(value_of(plan, "learning_rate") or 0) * 16 == pytest.approx(line.number, rel=1e-3)


def test_lars_in_place_of_sgd_brings_its_rate_and_its_decay() -> None:
    job = a_trained_job()
    job = replace(job, parameters={**job.parameters, "decay_power": Parameter(default=1.0)})
    plan = plan_of(job, nodes=16)
    assert plan.chosen is not None and plan.chosen.batch is not None and plan.chosen.batch.total == 16_384
    wanted = {"optimizer": "lars", "learning_rate": "23.04", "decay": "polynomial", "decay_power": "2"}
    assert wanted.items() <= dict(plan.settings).items()


@pytest.mark.parametrize(
    ("name", "text"), [("batch_size_per_rank", "0"), ("epochs", "-1"), ("accumulation", "0"), ("learning_rate", "0")]
)
def test_what_must_be_above_zero_is_refused_without_bounds_too(name: str, text: str) -> None:
    job = bundled_job("cifar")
    without = replace(job, parameters={**job.parameters, name: Parameter(default=job.parameters[name].default)})
    with pytest.raises(Refused) as refused:
        plan_of(without, settings=((name, text),))
    assert [(fault.where, fault.allowed) for fault in refused.value.faults] == [(f"--set {name}", "a number above 0")]


def test_nodes_too_few_for_a_replica_get_those_that_are_enough() -> None:
    job = with_parameters(a_trained_job({**HUGE, "parameters": 200e9}), SPLIT)
    short = {"settings": (("epochs", "1"),)}  # 90 of them would take years, which is no plan
    plan = plan_of(job, nodes=2, **short)
    assert len(plan.refusals) == 1
    enough = re.fullmatch(r"--nodes (\d+) can hold one replica", plan.refusals[0].next)
    assert enough is not None
    assert plan_of(job, nodes=int(enough[1]), **short).feasible
    assert not plan_of(job, nodes=int(enough[1]) - 1, **short).feasible


def test_a_job_that_cannot_be_told_its_batch_must_take_it_itself() -> None:
    job = a_trained_job()
    rest = {name: one for name, one in job.parameters.items() if name != "batch_size_per_rank"}
    plan = plan_of(replace(job, parameters=rest))
    assert plan.chosen is not None and plan.chosen.batch is not None
    said = f"the program itself must use {plan.chosen.batch.per_rank} samples per rank and step"
    assert any(said in warning for warning in plan.warnings)
    assert not any("itself must" in warning for warning in plan_of(job).warnings)


def test_a_typed_batch_and_a_typed_optimizer_are_kept() -> None:
    plan = plan_of(nodes=8, settings=(("batch_size_per_rank", "300"), ("optimizer", "sgd")))
    assert all(row.batch.per_rank == 300 for row in plan.rows if row.batch)
    assert plan.nodes == 8
    assert any(warning == above_bound(9600, 8192, 1132, 15000) for warning in plan.warnings)
    assert any("sgd kept as typed" in warning for warning in plan.warnings)
    assert not {"batch_size_per_rank", "optimizer"} & set(dict(plan.settings))


@pytest.mark.parametrize(("per_rank", "most"), [(300, 4800), (64, 8192)])
def test_a_typed_batch_per_rank_bounds_the_node_count(per_rank: int, most: int) -> None:
    plan = plan_of(settings=(("batch_size_per_rank", str(per_rank)),))
    totals = [row.batch.total for row in plan.rows if row.batch]
    assert max(totals) <= most and plan.feasible
    said = f"leaves each rank fewer than the {per_rank} samples that were typed"
    assert plan.rows[-1].obstacles[-1].endswith(said)


def test_a_typed_global_batch_is_shared_out_or_said_not_to_be() -> None:
    plan = plan_of(global_batch=1000)
    assert [row.batch.total if row.batch else None for row in plan.rows[:2]] == [1000, 1000]
    assert any("1000 cannot be divided evenly among 16 replicas" in text for row in plan.rows for text in row.obstacles)


def test_a_rank_rule_is_named_where_it_leads_to_the_rate() -> None:
    job = replace(bundled_job("cifar"), parameters=bundled_job("cifar").parameters)
    plan = plan_of(job, nodes=1)  # 4 ranks x 512 = 2048, below 4 x B_crit: Adam by the root
    assert value_of(plan, "scale_learning_rate") == "sqrt"
    assert value_of(plan, "learning_rate") is None


@pytest.mark.parametrize(
    ("figures", "sample_bytes", "strategy", "extent"),
    [
        ({}, 110_000, "data", "one GPU"),
        ({}, 10**7, "data", "one GPU"),
        (HUGE, 1_000, "data", "one node"),
        (HUGE, 10**7, "data", "one node"),
        (GIANT, 1_000, "model", "several nodes"),
        (GIANT, 10**7, "model-data", "several nodes"),
    ],
)
def test_every_cell_of_the_decision_table(
    figures: dict[str, float], sample_bytes: int, strategy: str, extent: str
) -> None:
    job = with_parameters(a_trained_job(figures or None, sample_bytes=sample_bytes), SPLIT)
    plan = plan_of(job, settings=(("epochs", "1"),))
    assert plan.parallelism is not None
    assert (plan.parallelism.strategy, plan.parallelism.extent) == (strategy, extent)
    assert (plan.split is None) == (extent == "one GPU")
    if plan.split is not None:
        assert plan.split.memory.fits
        assert plan.split.gpus * plan.split.replicas <= plan.nodes * 4
        assert f"--set tensor_parallel={plan.split.tensor_parallel}" in plan.command


def test_what_the_layers_of_a_split_model_say_by_hand() -> None:
    figures = stored_figures(a_trained_job(HUGE))
    assert figures is not None
    dense = [LayerFigures(name=str(n), layer_class="Dense", parameters=1_000_000, outputs=1000) for n in range(8)]
    norm = LayerFigures(name="n", layer_class="LayerNormalization", parameters=2000, outputs=1000)
    known = replace(figures, layers=(norm, *dense))
    plan = plan_of(with_parameters(a_trained_job(HUGE), SPLIT), figures=known)
    assert plan.split is not None and plan.split.gpus == 4 and plan.chosen is not None and plan.chosen.batch is not None
    # Four pairs, one all-reduce each way: 8 x (214 us + 1.5 x B x 4000 bytes / 240 GB/s).
    batch, parts = plan.chosen.batch.per_rank, plan.chosen.batch.accumulation
    assert plan.split.communication_s == pytest.approx(parts * 8 * (214e-6 + 1.5 * batch * 4000 / 240e9), rel=0.01)
    guessed = plan_of(with_parameters(a_trained_job(HUGE), SPLIT))
    assert guessed.split is not None and guessed.split.communication_guessed
    # 3500 pairs of layers of a million parameters; every second of 4 GB, each way.
    assert guessed.chosen is not None and guessed.chosen.batch is not None
    said = 7000 * 214e-6 + 1.5 * guessed.chosen.batch.per_rank * 4e9 / 240e9
    said *= guessed.chosen.batch.accumulation
    assert guessed.split.communication_s == pytest.approx(said, rel=0.01)
    assert "communication between layers: at most about" in "\n".join(table_of(guessed))


def test_what_must_be_read_is_said_where_no_node_can_keep_it_and_nothing_was_measured() -> None:
    told = [text for text in plan_of(nodes=1).assumed if text.startswith("reading samples")]
    assert told == []  # ImageNet: 141 GB of 256 GB x 0.6
    large = plan_of(a_trained_job(sample_bytes=1_000_000), nodes=1)
    assert large.chosen is not None and large.chosen.throughput is not None
    # 1.3 TB do not fit the node, which reads 2 GB/s.
    assert large.chosen.throughput.samples_per_s.middle == pytest.approx(2000)
    assert [text for text in large.assumed if text.startswith("reading samples")] == [
        "reading samples: needs 2 GB/s of a node, which can read and decode about 2 GB/s, within a factor of 2"
    ]
    points = (Measured(shape=Shape(nodes=1, ranks_per_node=4, per_rank=64), samples_per_s=2000),)
    measured = plan_of(a_trained_job(sample_bytes=1_000_000), nodes=1, evidence=Evidence(points=points))
    assert not any("reading samples" in text for text in measured.assumed)


def test_where_the_site_takes_no_more_that_is_why() -> None:
    points = (Measured(shape=Shape(nodes=1, ranks_per_node=1, per_rank=64), samples_per_s=500),)
    plan = plan_of(bundled_job("mnist"), "local", evidence=Evidence(points=points))
    assert (
        plan.summary == "1 node, B = 256; more ranks are not possible: 2 nodes requested, but local is a single machine"
    )


def test_a_replica_of_several_nodes_is_planned_in_whole_ones() -> None:
    plan = plan_of(with_parameters(a_trained_job(GIANT, sample_bytes=10**7), SPLIT))
    assert plan.split is not None
    nodes = plan.split.gpus // 4
    up_to_64 = [row.nodes for row in plan.rows if row.nodes <= 64]
    assert nodes > 1 and up_to_64 == [nodes * n for n in (1, 2, 4, 8) if nodes * n <= 64]
    assert all(row.ranks == row.batch.replicas * plan.split.gpus for row in plan.rows if row.batch)


def test_typed_nodes_of_a_job_without_a_model_get_the_same_warning() -> None:
    plan = plan_of(a_trained_job({}), nodes=64)
    assert (plan.known, plan.nodes) == (False, 64)
    assert list(plan.warnings) == [above_bound(65536, 8192, 1132, 15000)]
    assert plan_of(a_trained_job({})).warnings == ()


def proposed(plan: Forecast) -> Objective:
    """What a refusal proposes, as plan would read it."""
    typed = dict(re.findall(r"--(deadline|budget) (\S+)", plan.refusals[0].next))
    assert plan.refusals[0].next.endswith(" is feasible") and typed
    return Objective(
        deadline_s=parse_walltime(typed["deadline"]) if "deadline" in typed else None,
        budget=float(typed["budget"]) if "budget" in typed else None,
    )


def test_impossible_wishes_get_the_nearest_feasible_plan() -> None:
    plan = plan_of(objective=Objective(deadline_s=60, budget=0.1))
    fault = plan.refusals[0]
    assert "the deadline is in 00:01:00" in fault.what and "the budget is 0.1" in fault.what
    objective = proposed(plan)
    assert objective.deadline_s is not None and objective.budget is not None
    assert plan_of(objective=objective).feasible


@pytest.mark.parametrize("nodes", [None, 4])
@pytest.mark.parametrize(
    "objective", [Objective(budget=1e-9), Objective(deadline_s=1), Objective(deadline_s=1, budget=1e9)]
)
@pytest.mark.parametrize("job", ["cifar", "mnist", "resnet"])
def test_a_proposal_is_feasible_and_a_little_less_is_not(job: str, objective: Objective, nodes: int | None) -> None:
    asked = {"job": a_trained_job() if job == "resnet" else bundled_job(job), "nodes": nodes}
    asked["evidence"] = Evidence(overhead_s=12.3)  # so that no deadline of a second can be kept
    plan = plan_of(**asked, objective=objective)
    enough = proposed(plan)
    assert plan_of(**asked, objective=replace(objective, deadline_s=enough.deadline_s, budget=enough.budget)).feasible
    tight = replace(
        enough,
        deadline_s=enough.deadline_s and 0.98 * enough.deadline_s - 1,
        budget=enough.budget and 0.98 * enough.budget,
    )
    assert not plan_of(**asked, objective=tight).feasible


def test_a_deadline_asks_for_more_nodes_and_a_budget_for_fewer() -> None:
    free = plan_of(objective=Objective(weight=0.1))
    hurried = plan_of(objective=Objective(weight=0.1, deadline_s=3000))
    thrifty = plan_of(objective=Objective(weight=2 / 3, budget=7.3))
    assert hurried.nodes > free.nodes
    assert thrifty.nodes < plan_of(objective=Objective(weight=2 / 3)).nodes


def test_a_long_wait_for_many_nodes_makes_them_fewer() -> None:
    waits = {nodes: 3600.0 * nodes * nodes for nodes in (1, 2, 4, 8, 16)}
    assert plan_of(queue=Queue(waits=waits)).nodes < plan_of().nodes


def the_walltime(plan: Forecast) -> int:
    (typed,) = re.findall(r"--walltime (\S+)", plan.command)
    return parse_walltime(typed)


def high_s(plan: Forecast) -> float:
    assert plan.chosen is not None and plan.chosen.candidate is not None
    return plan.chosen.candidate.time_s.high


def test_the_command_asks_for_walltime_enough_where_the_usual_one_is_not() -> None:
    plan = plan_of(nodes=1)
    assert 0 <= the_walltime(plan) - high_s(plan) <= 300
    assert plan.jobs == 1 and not any("takes up to" in text for text in plan.warnings)
    assert "--walltime" not in plan_of(bundled_job("cifar")).command  # 30 minutes are enough


def test_a_count_that_nobody_knows_the_wait_of_gets_that_of_the_next() -> None:
    queue = Queue(waits={2: 60.0, 8: 600.0})
    assert [queue.wait_s(nodes) for nodes in (1, 2, 3, 8, 64)] == [60, 60, 600, 600, 600]
    assert Queue().wait_s(4) == 0


def test_what_one_job_may_not_run_is_a_chain_if_the_job_can_go_on() -> None:
    long = {"flops_per_sample": 7.73e11}
    plan = plan_of(replace(a_trained_job(long), restarts=50), nodes=1)
    assert plan.jobs == -(-the_walltime(plan) // (48 * 3600)) > 1
    assert f"chain: up to {plan.jobs} jobs in sequence (3 expected)" in "\n".join(table_of(plan))
    unable = plan_of(a_trained_job(long), nodes=1)
    assert (unable.jobs, the_walltime(unable)) == (1, 48 * 3600)
    assert any("one job may run only 2-00:00:00, and train cannot continue" in text for text in unable.warnings)


def test_typed_restarts_are_a_limit_also_if_they_are_none() -> None:
    long = {"flops_per_sample": 7.73e11}
    job = replace(a_trained_job(long), restarts=50)
    assert plan_of(job, nodes=1, restarts=50).refusals == ()
    (refusal,) = plan_of(job, nodes=1, restarts=0).refusals
    assert "cannot start again" in str(refusal)


def test_a_typed_walltime_is_kept_and_what_it_means_is_said() -> None:
    plan = plan_of(replace(a_trained_job(), restarts=50), nodes=1, walltime=3600)
    assert the_walltime(plan) == 3600
    assert plan.jobs == -(-high_s(plan) // 3600)
    unable = plan_of(nodes=1, walltime=3600)
    assert any("one job may run only 01:00:00, and train cannot continue" in text for text in unable.warnings)


@pytest.mark.parametrize(("batch", "nodes", "nearest"), [(100, 3, 96), (103, 3, 108), (5, 3, 12), (3, 1, 4)])
def test_a_batch_that_cannot_be_shared_out_gets_the_nearest_that_can(
    batch: int, nodes: int | None, nearest: int
) -> None:
    refused = plan_of(nodes=nodes, global_batch=batch)
    assert refused.refusals[0].next == f"--global-batch {nearest} divides evenly"
    assert plan_of(nodes=nodes, global_batch=nearest).feasible


def test_a_distributed_plan_slower_than_one_process_is_said_so() -> None:
    wide = {"parameters": 1e9, "flops_per_sample": 1e9, "saved_bytes_per_sample": 1e6, "largest_layer": 1e6}
    plan = plan_of(a_trained_job(wide), a_slow_cluster(), nodes=2)
    assert any(text.startswith("slower than one process (") for text in plan.warnings)


def test_a_measured_noise_scale_takes_the_place_of_the_square_root() -> None:
    measured = Evidence(noise=NoiseScale(value=6000, low=5000, high=7000, steps=2000))
    job = a_trained_job(task=None)
    plan = plan_of(job, evidence=measured)
    assert plan.nodes > plan_of(job).nodes
    assert plan.chosen is not None and plan.chosen.batch is not None
    assert 1131 < plan.chosen.batch.total <= 6000


def test_a_job_without_a_model_is_unknown_on_one_node() -> None:
    for job in (a_job(), a_trained_job({})):
        plan = plan_of(job)
        assert (plan.nodes, plan.known, plan.feasible) == (1, False, True)
        assert "the figures of its model are not known" in plan.summary
        assert any("up to 64 nodes" in reason.rule for part in plan.sections for reason in part.reasons)


def test_more_than_64_nodes_are_kept_as_typed_with_a_warning() -> None:
    plan = plan_of(nodes=128)
    assert plan.nodes == 128
    assert any("128 nodes kept as typed" in warning for warning in plan.warnings)


def test_the_sites_limit_between_powers_of_two_is_tried() -> None:
    trials = trials_of(ask(site=a_slow_cluster()))
    assert [trial.nodes for trial in trials if not trial.faults] == [1, 2, 4, 8, 12]


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ({"nodes": 4000}, "4000 nodes requested"),
        ({"node_type": "gup40"}, "no node type 'gup40'"),
        ({"settings": (("epohcs", "3"),)}, "no parameter 'epohcs'"),
        ({"settings": (("epochs", "many"),)}, "'many' is not a whole number"),
        ({"qos": "regluar"}, "no qos 'regluar'"),
    ],
)
def test_what_the_site_or_the_job_does_not_take_is_refused(typed: dict[str, object], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        plan_of(**typed)


def test_the_speed_of_an_unknown_gpu_is_not_made_up() -> None:
    node = replace(a_slow_cluster().node_types["gpu"], gpu_model="NVIDIA B900")
    plan = plan_of(site=replace(a_slow_cluster(), node_types={"gpu": node}))
    assert plan.nodes == 1
    assert "speed of NVIDIA B900 is not known" in plan.summary
    assert all(row.throughput is None for row in plan.rows)


def test_where_memory_is_not_known_no_larger_batch_than_the_jobs_own_is_planned() -> None:
    row = plan_of(bundled_job("cosmoflow"), "local").rows[0]
    assert row.batch is not None and row.batch.per_rank == 4


def test_measured_points_take_its_place() -> None:
    points = (Measured(shape=Shape(nodes=1, ranks_per_node=1, per_rank=64), samples_per_s=1500.0),)
    own = (("batch_size_per_rank", "64"),)
    plan = plan_of(site="vista", settings=own, evidence=Evidence(points=points, overhead_s=100.0))
    row = plan.rows[0]
    assert row.throughput is not None and row.throughput.samples_per_s.middle == pytest.approx(1500, rel=0.05)
    assert not any("outside the steps" in text for text in plan.assumed)


def test_adascale_and_a_job_without_rates_get_no_rate() -> None:
    job = ask().case.job
    assert job.training is not None
    work = workload_of(job, job.training, (("scale_learning_rate", "adascale"),))
    recipe = recipe_at(Batch(per_rank=256, replicas=8), work, None)
    assert not {"learning_rate", "scale_learning_rate"} & set(dict(recipe.settings))


@given(
    site=st.sampled_from(SITES),
    job=st.sampled_from(["cifar", "mnist", "resnet", "huge", "giant", "unknown"]),
    nodes=st.sampled_from([None, None, 1, 2, 3, 8, 100]),
    weight=st.floats(0.05, 0.95),
    deadline=st.sampled_from([None, 1, 600, 86_400]),
    budget=st.sampled_from([None, 0.001, 5.0, 1e4]),
    batch=st.sampled_from([None, 1, 64, 1000, 100_000]),
    precision=st.sampled_from(["float32", "bfloat16"]),
)
def test_whatever_is_asked_the_choice_is_feasible_or_refused(
    site: str,
    job: str,
    nodes: int | None,
    weight: float,
    deadline: int | None,
    budget: float | None,
    batch: int | None,
    precision: str,
) -> None:
    bundled = {name: bundled_job(name) for name in ("cifar", "mnist")}
    huge, giant = a_trained_job(HUGE), with_parameters(a_trained_job(GIANT), SPLIT, SAVING)
    models = {"resnet": a_trained_job(), "huge": huge, "giant": giant}
    chosen_job = {**bundled, **models, "unknown": a_job()}[job]
    settings = (("precision", precision),) if chosen_job.parameters else ()
    objective = Objective(weight=weight, deadline_s=deadline, budget=budget)
    try:
        plan = plan_of(chosen_job, site, nodes=nodes, objective=objective, global_batch=batch, settings=settings)
    except Refused as refusal:
        assert refusal.faults
        return
    json.dumps(plan.to_json(), allow_nan=False)
    assert all(len(line) <= WIDTH for line in table_of(plan) + explanation_of(plan))
    if nodes is not None and plan.feasible:
        assert plan.nodes == nodes
    # Of what cannot be, the nodes that it would take are told; more than 64 are chosen only for a deadline.
    assert plan.nodes <= (nodes or 64) or not plan.feasible or deadline is not None
    row = plan.chosen
    assert row is not None
    if plan.feasible:
        assert not row.obstacles
    if plan.feasible and row.candidate is not None:
        assert deadline is None or row.candidate.done_s <= deadline
        assert budget is None or row.candidate.cost.middle <= budget


def test_every_optimizer_and_decay_of_the_guidelines_is_named_and_when_to_measure_the_noise() -> None:
    usual = " ".join(" ".join(explanation_of(plan_of())).split())
    assert "SGD with momentum has the best accuracy" in usual and "Adam works well in most cases" in usual
    assert all(f"another decay to try: {name}," in usual for name in ("step", "exponential", "1/t", "polynomial"))
    assert "more complex tasks have noisier gradients" in usual
    extreme = " ".join(" ".join(explanation_of(plan_of(nodes=16))).split())
    assert all(f"note {name}: " in extreme for name in ("LARS", "LARC", "LAMB"))
    noise = NoiseScale(value=900, low=800, high=1000, steps=5000)
    assert "noisier gradients" not in " ".join(explanation_of(plan_of(evidence=Evidence(noise=noise))))


def with_optimizer(parameter: Parameter | None) -> Job:
    job = a_trained_job()
    rest = {name: one for name, one in job.parameters.items() if name != "optimizer"}
    return replace(job, parameters={**rest, **({"optimizer": parameter} if parameter else {})})


def test_a_job_is_told_no_optimizer_that_it_does_not_take_nor_its_rate() -> None:
    told = plan_of(with_optimizer(Parameter(default="sgd", choices=("sgd", "lars"))), nodes=16)
    assert (value_of(told, "optimizer"), value_of(told, "learning_rate")) == ("lars", "23.04")
    bound = plan_of(with_optimizer(Parameter(default="sgd", choices=("sgd", "adam"))), nodes=16)
    assert (value_of(bound, "optimizer"), value_of(bound, "learning_rate")) == (None, "5.859")  # linear up to B_crit
    assert any("sgd kept because the job does not offer lars" in warning for warning in bound.warnings)


@pytest.mark.parametrize(
    ("parameter", "said"), [(Parameter(default="sgd"), True), (Parameter(default="rmsprop"), False), (None, False)]
)
def test_an_optimizer_that_nobody_named_is_counted_as_adam_and_that_is_told(
    parameter: Parameter | None, said: bool
) -> None:
    plan = plan_of(with_optimizer(parameter))
    assert any(line.startswith("optimizer: ") for line in plan.assumed) is not said
    assert value_of(plan, "optimizer") is None


def test_a_typed_batch_per_rank_stays_beside_a_typed_global_batch() -> None:
    plan = plan_of(a_trained_job(), nodes=1, global_batch=512, settings=(("batch_size_per_rank", "32"),))
    assert plan.chosen is not None and plan.chosen.batch == Batch(per_rank=32, replicas=4, accumulation=4)
    odd = plan_of(a_trained_job(), nodes=1, global_batch=500, settings=(("batch_size_per_rank", "32"),))
    assert not odd.feasible and "does not consist of 32 samples for each of 4 ranks" in odd.refusals[0].what


def test_ranks_that_hardly_wait_for_samples_get_no_warning() -> None:
    plan = plan_of(bundled_job("cosmoflow"))
    assert plan.chosen is not None and plan.chosen.throughput is not None
    step = plan.chosen.throughput.step
    assert 0 < step.input_s < 0.1 * step.total_s
    assert not any("input pipeline" in text for text in plan.warnings)
    few = plan_of(bundled_job("cosmoflow"), nodes=1)
    assert any("input pipeline" in text for text in few.warnings)


def test_the_command_names_the_recipe_and_what_is_beyond_it() -> None:
    job = bundled_job("cifar")
    case = as_typed(a_case(bundled_site("perlmutter"), job, target="cifar", recipe="recommended"))
    plan = forecast(Question(case=case, figures=stored_figures(job)))
    assert "--recipe recommended" in plan.command
    assert "optimizer" not in plan.command  # the recipe's


def test_a_number_format_of_free_text_is_suggested_by_its_usual_name() -> None:
    free = with_parameters(a_trained_job(), {"precision": Parameter(default="float32")})
    assert "(--set precision=bfloat16)" in plan_of(free).precision_words
    chosen = Parameter(default="float32", choices=("float32", "fp8"))
    of_its_own = with_parameters(a_trained_job(), {"precision": chosen})
    assert "--set" not in plan_of(of_its_own).precision_words
