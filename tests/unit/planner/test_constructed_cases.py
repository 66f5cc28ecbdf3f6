"""Ten constructed jobs, each with the verdict that the guidelines give; no figure of time is asserted."""

from __future__ import annotations

from typing import Any

from hpclaunch.config.job import Job
from hpclaunch.planner.values import Forecast, PlanRow
from tests.builders import bundled_job
from tests.unit.planner.questions import SPLIT, a_trained_job, plan_of, with_parameters


def a_job_with(parameters: float, flops: float, saved_bytes: float, largest: float, **training: Any) -> Job:
    """A job with a model of these figures, per sample where they are; ImageNet unless ``training`` says otherwise."""
    figures = {
        "parameters": parameters,
        "flops_per_sample": flops,
        "saved_bytes_per_sample": saved_bytes,
        "largest_layer": largest,
    }
    return with_parameters(a_trained_job(figures, **training), SPLIT)


def chosen(plan: Forecast) -> PlanRow:
    """The chosen row, which has a batch and a prediction."""
    row = plan.chosen
    assert row is not None and row.batch is not None and row.candidate is not None and row.throughput is not None
    return row


def total_of(plan: Forecast) -> int:
    batch = chosen(plan).batch
    assert batch is not None
    return batch.total


def verdicts_of(plan: Forecast, title: str) -> str:
    sections = [section for section in plan.sections if section.title == title]
    return " ".join(reason.verdict for section in sections for reason in section.reasons)


def test_a_big_model_with_small_data_is_model_parallel_and_wants_more_data() -> None:
    plan = plan_of(a_job_with(60e9, 1e12, 4e9, 1e6, samples=10_000, sample_bytes=100_000, task=None))
    assert plan.parallelism is not None and plan.split is not None
    # "If DL model is too large to run on one node and dataset can fit one node, choose model parallel"
    assert (plan.parallelism.strategy, plan.parallelism.extent) == ("model", "several nodes")
    assert plan.split.replicas == 1 and plan.nodes * 4 == plan.split.gpus
    assert (plan.split.tensor_parallel, plan.split.pipeline_stages) == (4, plan.nodes)
    assert total_of(plan) < 100
    assert "the data set is small for 60,000.0 million parameters" in plan.warnings


def test_a_small_model_with_huge_data_is_data_parallel_below_the_root_with_its_own_optimizer() -> None:
    plan = plan_of(a_job_with(1e6, 1e7, 1e5, 1e5, samples=10**9, sample_bytes=1000, task=None))
    assert plan.parallelism is not None and plan.split is None
    assert (plan.parallelism.strategy, plan.parallelism.extent) == ("data", "one GPU")
    assert 8192 < total_of(plan) <= 31_622 and "optimizer" not in dict(plan.settings)
    assert "as large as that of CosmoFlow" in verdicts_of(plan, "data set")
    assert all(row.marginal is not None and row.marginal < 0.6 for row in plan.rows if row.nodes > 1)
    assert plan.nodes == 1  # more nodes are not necessarily better


def test_a_model_just_over_one_gpu_is_split_inside_a_node() -> None:
    # SGD with momentum: 12 bytes of each of 3.2e9 parameters are 38.4 GB, and 36.8 GB of a GPU may be used.
    job = a_job_with(3.2e9, 2e11, 2e8, 1e7)
    plan = plan_of(job, node_type="gpu40")
    assert plan.parallelism is not None and plan.split is not None
    assert (plan.parallelism.strategy, plan.parallelism.extent, plan.split.gpus) == ("data", "one node", 2)
    assert plan.split.memory.fits and dict(plan.settings)["tensor_parallel"] == "2"
    # A larger GPU comes first, where none is typed.
    assert all(plan_of(job, node_type=typed).split is None for typed in (None, "gpu80"))


def test_a_cpu_site_trains_on_cpus_with_the_same_rules() -> None:
    plan = plan_of(bundled_job("cifar"), "perlmutter", node_type="cpu")
    assert plan.gpus_per_node == 0 and plan.feasible
    assert plan.parallelism is not None and plan.parallelism.strategy == "data"
    row = plan.chosen
    assert row is not None and row.batch is not None and row.batch.total <= 4096
    assert not any("GPU" in line for line in (plan.command, plan.summary))


def test_an_amd_site_gets_the_same_batch_as_an_nvidia_site() -> None:
    amd, nvidia = plan_of(site="lumi"), plan_of(site="perlmutter")
    assert total_of(amd) == total_of(nvidia) == 8192
    assert amd.parallelism is not None and amd.parallelism.extent == "one GPU"
    of_amd, of_nvidia = (dict(plan.settings) | {"batch_size_per_rank": ""} for plan in (amd, nvidia))
    assert of_amd == of_nvidia  # LUMI has twice as many ranks
    assert any("MI250X" in line for line in amd.assumed)
    assert amd.unit.lower() == "gpu-hour"


def test_a_replica_of_several_gpus_is_the_unit_of_data_parallelism() -> None:
    plan = plan_of(a_job_with(7e9, 1e12, 4e9, 1e6))
    assert plan.parallelism is not None and plan.split is not None
    assert (plan.parallelism.strategy, plan.split.gpus) == ("data", 4)
    assert plan.split.replicas == plan.nodes
    assert all(row.ranks == 4 * row.nodes for row in plan.rows)  # no part of a node holds a replica
    assert all(row.batch.replicas * 4 == row.ranks for row in plan.rows if row.batch)


def test_a_tiny_perceptron_gets_one_gpu_of_a_shared_node() -> None:
    job = a_job_with(5e4, 1e5, 1e4, 4e4, samples=60_000, sample_bytes=784, task="mnist")
    plan = plan_of(job)
    assert (plan.nodes, plan.ranks_per_node, chosen(plan).ranks) == (1, 1, 1)
    assert "--tasks-per-node 1" in plan.command
    assert plan.summary.startswith("1 of the 4 GPUs of a shared node, B = ")
    whole = plan_of(job, tasks_per_node=4)
    assert any(warning.startswith("slower than one process (") for warning in whole.warnings)


def test_a_large_embedding_is_not_spread_over_a_network() -> None:
    # 490 of 500 million parameters in one layer: every step would send 2 GB of gradients, for hardly any work.
    plan = plan_of(a_job_with(5e8, 1e7, 1e5, 4.9e8, samples=10**8, sample_bytes=100, task=None))
    assert (plan.nodes, plan.split) == (1, None)
    two = next(row for row in plan.rows if row.nodes == 2)
    assert two.throughput is not None and two.marginal is not None
    assert two.marginal < 0.2 and two.throughput.reason.verdict.endswith("the largest loss is all-reduce")


def test_an_unknown_sample_size_counts_as_data_that_no_node_holds() -> None:
    plan = plan_of(a_trained_job(sample_bytes=None))
    assert plan.parallelism is not None and plan.parallelism.shards_dataset
    assert plan.parallelism.strategy == "data"
    assert "the data set may not fit one node" in plan.parallelism.reason.verdict
    assert any("the size of a sample is not known (training.sample_bytes)" in line for line in plan.assumed)
    giant = plan_of(a_job_with(60e9, 1e12, 4e9, 1e6, sample_bytes=None))
    assert giant.parallelism is not None and giant.parallelism.strategy == "model-data"


def test_a_small_data_set_needs_a_part_of_a_node() -> None:
    plan = plan_of(bundled_job("chips"))  # 3,924 photographs: sqrt(N) = 63, and 64 is the job's own
    assert plan.nodes == 1 and chosen(plan).ranks <= 2
    assert 32 <= total_of(plan) <= 64


def test_where_nodes_are_charged_as_a_whole_one_process_may_still_be_faster() -> None:
    plan = plan_of(bundled_job("mnist"), "juwels_booster")
    row = chosen(plan)
    assert (plan.nodes, row.ranks, row.whole_nodes) == (1, 1, True)
    assert plan.summary.startswith("1 of the 4 GPUs of a node, B = ")
    # For a model with more work, all four GPUs cost no more than one.
    assert all(row.ranks % 4 == 0 for row in [chosen(plan_of(site="juwels_booster"))])
