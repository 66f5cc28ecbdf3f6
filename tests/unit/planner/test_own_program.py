"""Decoders as their engineers plan them: what a person of the trade expects of a plan, question by question."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.site import Site
from hpclaunch.guidelines.candidates import LONGEST_S
from hpclaunch.guidelines.choice import Objective
from hpclaunch.guidelines.hardware import MeasuredDevice
from hpclaunch.planner.explaining.words import text_of
from hpclaunch.planner.forecasting import forecast
from hpclaunch.planner.job.question import Evidence, Question
from hpclaunch.planner.job.workload import stored_figures
from hpclaunch.planner.values import Forecast
from hpclaunch.resolve.program.recipes import as_typed, sized
from tests.builders import a_case, bundled_job, bundled_site
from tests.unit.planner.questions import a_trained_job

LLAMA_7B = {"layers": 32, "hidden": 4096, "heads": 32, "context": 2048, "vocabulary": 32000}
TRILLION = 10**12


def with_gpus(model: str, memory_gb: int) -> Site:
    """A site whose nodes have four of these."""
    site = bundled_site("perlmutter")
    node = replace(site.node_types["gpu80"], gpu_model=model, gpu_memory_gb=memory_gb)
    return replace(site, node_types={**site.node_types, "gpu80": node})


def plan(site: str | Site, recipe: str | None = None, objective: Objective | None = None, **settings: Any) -> Forecast:
    """The plan of the bundled decoder at a site, with what was typed."""
    batch, devices = settings.pop("global_batch", None), settings.pop("devices", ())
    request = {name: settings.pop(name) for name in ("nodes", "node_type", "partition") if name in settings}
    typed = tuple((name, str(value)) for name, value in settings.items())
    job = bundled_job("transformer")
    found = bundled_site(site) if isinstance(site, str) else site
    case = a_case(found, job, target=job.name, recipe=recipe, settings=typed, **request)
    case = as_typed(sized(case))
    figures, objective = stored_figures(case.job), objective or Objective()
    evidence = Evidence(devices=devices)
    return forecast(Question(case=case, figures=figures, objective=objective, global_batch=batch, evidence=evidence))


def share_of(found: Forecast) -> float:
    """The expected model FLOP utilization."""
    assert found.mfu is not None
    return found.mfu.share.middle


def days_of(found: Forecast) -> float:
    """The time of the chosen row in days."""
    assert found.chosen is not None and found.chosen.candidate is not None
    return found.chosen.candidate.time_s.middle / 86400


@pytest.mark.parametrize("site", ["daint_alps", "jupiter"])
def test_seven_billion_parameters_on_grace_hoppers(site: str) -> None:
    """bfloat16, sharded data, a rate of the class of 3e-4, four million tokens a step, 35 to 50 % of the peak."""
    found = plan(site, **LLAMA_7B, corpus_tokens=TRILLION)
    program = found.program
    assert program is not None and found.feasible
    assert (program.tensor, program.pipeline) == (1, 1)
    assert program.sharded != "nothing"
    assert program.tokens_per_step == pytest.approx(4e6, rel=0.06)
    assert program.rate == pytest.approx(3e-4, rel=0.06)
    assert 0.35 <= share_of(found) <= 0.5
    assert found.precision == "bfloat16"
    assert "hpclaunch submit train.py --launcher torchrun --nodes" in found.command


def test_sixty_five_billion_parameters_on_frontier() -> None:
    """30 to 38 % of the peak, months on 64 nodes, and no plan of decades."""
    found = plan("frontier", "gpt-65b-corpus", nodes=64)
    assert found.program is not None
    assert found.program.batch_source == "that of the rate"
    assert 0.30 <= share_of(found) <= 0.38
    assert 120 < days_of(found) < 300
    assert found.program.bubble < 0.1
    assert found.program.rate == pytest.approx(1.5e-4)
    assert found.program.tokens_per_step == 2048 * 2048
    assert found.program.memory <= found.program.usable
    text = " ".join("\n".join(text_of(found, explain=True)).split())
    assert "4.2M tokens" in text and "of 191.5 TFLOP/s, the dense peak of MI250X in 16 bits" in text
    assert "arXiv 2205.10287" in text and "arXiv 2410.21676" in text  # newer rules, and where they hold


def test_a_training_of_months_goes_where_its_jobs_are_longest() -> None:
    """Frontier's extended partition has 24 hours for up to 64 nodes, its batch partition 2 hours."""
    free = plan("frontier", "gpt-65b-corpus")
    assert free.feasible and free.nodes == 64
    assert 0.30 <= share_of(free) <= 0.38
    assert free.chosen is not None and free.chosen.candidate is not None
    assert free.chosen.candidate.jobs == pytest.approx(days_of(free), abs=1)
    assert "--walltime 1-00:00:00" in free.command


def test_more_nodes_are_planned_where_64_would_need_thousands_of_jobs() -> None:
    """64 nodes of Frontier's batch partition get 2 hours for each job: 2,600 jobs. 256 get 12 hours."""
    typed = plan("frontier", "gpt-65b-corpus", nodes=64, partition="batch")
    (refusal,) = typed.refusals
    assert "a chain of 2" in refusal.what and "365 are allowed" in refusal.what
    enough = re.match(r"--nodes (\d+) would take \d+ d in a chain of \d+ jobs", refusal.next)
    assert enough is not None
    free = plan("frontier", "gpt-65b-corpus", partition="batch")
    assert free.feasible and free.nodes == int(enough[1]) == 256
    assert any("more than the 64 nodes that the guidelines recommend: with 64" in note for note in free.notes)
    assert plan("frontier", "gpt-65b-corpus", nodes=256, partition="batch").command == free.command


def test_a_deadline_finds_the_nodes_that_meet_it() -> None:
    found = plan("frontier", "gpt-65b-corpus", Objective(deadline_s=90 * 86400))
    assert found.feasible and days_of(found) < 90


def test_the_command_follows_what_the_centre_says_of_launchers() -> None:
    assert "--framework pytorch --launcher srun" in plan("frontier", "gpt-65b-corpus").command


def test_a_global_batch_above_the_data_is_refused_and_never_reduced() -> None:
    case = as_typed(sized(a_case(bundled_site("perlmutter"), bundled_job("transformer"), recipe="gpt-65b-corpus")))
    found = forecast(Question(case=case, figures=stored_figures(case.job), global_batch=10**12))
    assert not found.feasible
    assert any("larger than the data set" in fault.what for fault in found.refusals)


def test_a_plan_of_years_says_what_it_would_take() -> None:
    found = plan("frontier", "gpt-65b-corpus", nodes=8)
    assert not found.feasible
    assert found.command == ""
    (refusal,) = found.refusals
    assert refusal.what.startswith("8 nodes cannot be recommended") and "longer than a year is no plan" in refusal.what
    assert refusal.next.startswith("--nodes 64 would take ")


def test_the_gate_holds_for_a_program_that_trains_as_it_is() -> None:
    """A small decoder on a text that one node would read for centuries."""
    found = plan("perlmutter", "gpt-small", nodes=1, corpus_tokens=10**16)
    assert days_of(found) * 86400 > LONGEST_S
    assert not found.feasible and found.command == ""


def test_a_long_context_is_recomputed_or_divided() -> None:
    """32,768 tokens: recomputation, flash attention, sequence or context parallelism; not sharded data alone."""
    long = {**LLAMA_7B, "context": 32768}
    found = plan("perlmutter", **long, corpus_tokens=TRILLION)
    program = found.program
    assert program is not None
    assert program.recompute or program.context > 1 or program.tensor > 1
    assert program.memory <= program.usable
    assert any("flash attention" in line for line in found.assumed)


def test_a_model_that_no_layout_holds_is_no_recommendation() -> None:
    found = plan("perlmutter", layers=128, hidden=25600, heads=160, context=2048, vocabulary=50304, nodes=1)
    assert not found.feasible


def test_too_few_typed_nodes_get_those_that_hold_it() -> None:
    found = plan("perlmutter", "gpt-65b-corpus", nodes=2)
    assert not found.feasible
    enough = re.match(r"--nodes (\d+) can hold it, for a program of yours: ", found.refusals[0].next)
    assert enough is not None
    assert plan("perlmutter", "gpt-65b-corpus", nodes=int(enough[1])).program is not None


def test_minutes_of_training_stay_with_the_job() -> None:
    found = plan("perlmutter", "gpt-small")
    assert found.program is None and found.feasible
    assert found.command.startswith("hpclaunch submit transformer")
    assert "precision=bfloat16" in found.command  # where the device has it
    assert "tokens/s" in "\n".join(text_of(found))
    assert found.mfu is not None and found.mfu.peak == 312


def test_float32_that_is_typed_stays() -> None:
    found = plan("perlmutter", "gpt-small", precision="float32")
    assert "precision=float32" in found.command
    assert found.mfu is not None and found.mfu.arithmetic == "TF32"


def test_cpus_and_old_gpus_stay_in_float32() -> None:
    assert "precision" not in plan("perlmutter", node_type="cpu").command
    assert "precision" not in plan("marconi100").command  # V100


def test_weeks_of_training_are_for_a_faster_program() -> None:
    found = plan("perlmutter", "gpt-small", corpus_tokens=3 * 10**11)
    assert found.program is not None and "times as fast as with transformer itself" in found.program.why


def test_a_rate_far_above_its_class_is_doubted() -> None:
    typed = {**LLAMA_7B, "tensor_parallel": 4, "recompute": "true", "learning_rate": 0.0098, "shard_optimizer": "true"}
    found = plan("perlmutter", node_type="gpu80", nodes=16, **typed)
    if found.program is None:
        assert any("times the highest that was published" in text for text in found.warnings)
    else:
        assert found.program.rate <= 0.0098


def test_the_jobs_of_a_chain_are_a_limit_beside_the_expected_ones() -> None:
    found = plan("frontier", "gpt-65b-corpus")
    assert found.chosen is not None and found.chosen.candidate is not None
    expected = found.chosen.candidate.jobs
    assert 1 < expected < found.jobs
    text = " ".join(" ".join(text_of(found)).split())
    assert f"chain: up to {found.jobs} jobs in sequence ({expected} expected), joined" in text


def test_the_batch_of_a_rate_is_that_of_its_recipe() -> None:
    job = bundled_job("transformer")
    assert job.with_rate_of("gpt-65b").training.base_batch == 2048  # type: ignore[union-attr]
    assert job.with_rate_of("plan") is job
    cifar = bundled_job("cifar")  # its recipes say how ranks scale the rate
    assert cifar.with_rate_of("recommended").training.base_batch == cifar.training.base_batch  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("gpu", "memory", "peak"),
    [("NVIDIA B200", 180, 2250), ("AMD Instinct MI300A", 128, 980.6), ("AMD Instinct MI325X", 256, 1307.4)],
)
def test_newer_accelerators_are_answered_with_their_range(gpu: str, memory: int, peak: float) -> None:
    found = plan(with_gpus(gpu, memory), node_type="gpu80", **LLAMA_7B, corpus_tokens=TRILLION)
    assert found.mfu is not None and found.mfu.peak == peak
    assert 0.1 < share_of(found) < 0.7
    assert found.mfu.share.high / found.mfu.share.low == pytest.approx(4)  # nothing was compared: a factor of two
    assert any("it was compared with no published training" in line for line in found.assumed)


def test_a_gpu_of_which_no_peak_is_known_is_planned_by_what_was_measured_of_it() -> None:
    one = MeasuredDevice(
        ranks_per_node=4, on_gpus=True, float32=40, tf32=300, mixed=600, copy_gbytes_per_s=2500, origin="doctor-1, 2026"
    )
    asked: dict[str, Any] = {"node_type": "gpu80", **LLAMA_7B, "corpus_tokens": TRILLION}
    unknown = with_gpus("Experimental X1", 80)
    assert plan(unknown, **asked).program is None
    assert plan(unknown, devices=(replace(one, mixed=0.0),), **asked).program is None
    found = plan(unknown, devices=(one,), **asked)
    slower = plan(unknown, devices=(replace(one, mixed=300),), **asked)
    assert found.program is not None and slower.program is not None
    assert slower.program.tokens_per_s.middle < found.program.tokens_per_s.middle
    assert found.mfu is None  # no peak is known
    basis = "a factor of 2 from the measured matrix product and copy rate (doctor-1, 2026)"
    assert any(basis in line for line in found.assumed)
    known = with_gpus("NVIDIA H100 (SXM5)", 80)
    assert plan(known, devices=(one,), **asked).program == plan(known, **asked).program


def test_experts_are_planned_from_the_figures_of_a_job() -> None:
    """Mixtral 8x7B (Jiang et al. 2024): 46.7 billion parameters, of which a token meets 12.9."""
    figures = {
        "parameters": 46.7e9,
        "flops_per_sample": 2 * 12.9e9 * 4096,
        "saved_bytes_per_sample": 4096 * 32 * 68 * 4096,
        "decoder_layers": 32,
        "decoder_hidden": 4096,
        "decoder_heads": 32,
        "decoder_key_heads": 8,
        "decoder_dense": 3 * 4096 * 14336,
        "decoder_context": 4096,
        "decoder_vocabulary": 32000,
        "decoder_experts": 8,
        "decoder_active_experts": 2,
    }
    job = a_trained_job(figures, samples=10**8, sample_bytes=8192, task=None)
    site = with_gpus("NVIDIA H100 (SXM5)", 80)
    case = as_typed(a_case(site, job, target=job.name, node_type="gpu80", settings=(("epochs", "1"),)))
    found = forecast(Question(case=case, figures=stored_figures(job)))
    assert found.program is not None
    assert found.program.experts == 4
    assert 0.15 < share_of(found) < 0.6  # of the operations that a token needs, not of all experts
    assert "experts on 4 ranks" in found.program.layout


def test_gpus_without_bfloat16_keep_the_jobs_own_plan() -> None:
    found = plan(with_gpus("NVIDIA V100 (SXM2)", 32), "gpt-small", corpus_tokens=TRILLION, node_type="gpu80")
    assert found.program is None and found.precision != "bfloat16"


def test_an_optimizer_that_is_typed_is_not_replaced() -> None:
    assert plan("frontier", "gpt-65b-corpus").program is not None
    assert plan("frontier", "gpt-65b-corpus", optimizer="sgd").program is None


def test_a_large_model_is_no_recommendation_where_the_memory_of_a_gpu_is_not_known() -> None:
    found = plan("aws_parallelcluster", "gpt-65b")
    assert "the memory of a GPU is not known" in found.refusals[-1].what and not found.command
    assert "gpu_memory_gb" in found.refusals[-1].next
    assert not plan("aws_parallelcluster", "gpt-small").refusals


def test_the_command_of_a_long_training_asks_for_its_chain() -> None:
    found = plan("frontier", "gpt-65b-corpus")
    assert found.program is not None and found.jobs > 1
    assert f"--restarts {found.jobs - 1}" in found.command and "--walltime 1-00:00:00" in found.command
    assert found.chosen is not None and found.chosen.candidate is not None
    assert found.jobs == math.ceil(found.chosen.candidate.time_s.high / 86400)  # enough in nine of ten cases


@pytest.mark.parametrize("typed", [{}, {"global_batch": 512}])
def test_a_typed_rate_is_that_of_the_batch_which_is_chosen_without_it(typed: dict[str, int]) -> None:
    asked = {**LLAMA_7B, **typed, "corpus_tokens": TRILLION}
    free, found = plan("clariden", **asked), plan("clariden", **asked, learning_rate=0.0002)
    assert free.program is not None and found.program is not None
    assert found.program.tokens_per_step == free.program.tokens_per_step
    assert (found.program.rate, found.program.rate_source) == (0.0002, "rate: as typed, for this batch")
