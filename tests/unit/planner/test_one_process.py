"""The warning about ranks that are hardly faster than one process: both times, the cause, and what to type instead."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.actions.preparing.advice import advised
from hpclaunch.guidelines.calibration import Measured
from hpclaunch.guidelines.throughput import Shape
from hpclaunch.planner.job.question import Evidence, Question
from hpclaunch.planner.job.workload import stored_figures, workload_of
from hpclaunch.planner.speed.one_process import one_process_warning
from hpclaunch.planner.speed.prediction import PlannedTraining
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.sizing import sizing_of
from tests.builders import a_case, a_context, bundled_job, bundled_site
from tests.unit.planner.questions import plan_of

ABOUT = "than one process with the same global batch"
EIGHT = (("batch_size_per_rank", "8"),)
SITES = ("perlmutter", "frontier", "leonardo_booster", "daint_alps")


def warnings(name: str = "cifar", site: str = "perlmutter", **typed: Any) -> list[str]:
    return [text for text in advised(case_of(name, site, **typed)).advice.warnings if ABOUT in text]


def case_of(name: str, site: str, **typed: Any) -> Case:
    context = a_context(environment={"SCRATCH": "/scratch/ada"})
    words = {"target": name, "account": "m1", "accept_unverified": True, **typed}
    return a_case(bundled_site(site), bundled_job(name), context=context, **words)


def test_a_small_batch_on_four_ranks_is_warned_of_once() -> None:
    (warning,) = warnings(nodes=1, tasks_per_node=4, settings=EIGHT)
    assert warning.startswith("4 ranks x 8 samples are predicted to be slower than one process with the same global")
    assert re.search(r"batch of 32: \d+ s instead of \d+ s an epoch \(nothing is measured\)", warning)
    assert re.search(r"; \d+% of a step is communication, and \d+% does not depend on the batch; ", warning)
    assert "; one process: --nodes 1 --tasks-per-node 1 --set batch_size_per_rank=32; " in warning


def test_what_it_says_to_type_is_not_warned_of() -> None:
    (warning,) = warnings(nodes=1, tasks_per_node=4, settings=EIGHT)
    enough = re.search(r"these ranks are faster from (\d+) samples per rank on", warning)
    assert enough is not None
    assert warnings(nodes=1, tasks_per_node=4, settings=(("batch_size_per_rank", enough[1]),)) == []
    assert warnings(nodes=1, tasks_per_node=4, settings=(("batch_size_per_rank", str(int(enough[1]) // 2)),))
    assert warnings(nodes=1, tasks_per_node=1, settings=(("batch_size_per_rank", "32"),)) == []


@pytest.mark.parametrize("recipe", [None, "job"])
def test_of_a_sweep_the_run_that_gains_least_counts(recipe: str | None) -> None:
    typed = {"nodes": 1, "tasks_per_node": 4, "recipe": recipe}
    (warning,) = warnings(**typed, sweep=(("batch_size_per_rank", "512,8"),))
    assert [warning] == warnings(**typed, settings=EIGHT)


@pytest.mark.parametrize("name", ["chips", "cifar", "cosmoflow", "ddp", "jax", "mnist", "resnet50", "transformer"])
@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("nodes", [None, 1, 4])
def test_an_ordinary_run_gets_no_warning(name: str, site: str, nodes: int | None) -> None:
    assert warnings(name, site, nodes=nodes) == []


@pytest.mark.parametrize("more", [{"synthetic": True}, {"strategy": "mirrored"}])
def test_where_the_models_do_not_hold_nothing_is_said(more: dict[str, Any]) -> None:
    assert warnings(nodes=1, tasks_per_node=4, settings=EIGHT, **more) == []


def test_a_machine_of_unknown_speed_is_not_judged_before_it_is_measured() -> None:
    assert warnings("cifar", "local", account=None, nodes=1, tasks_per_node=4, settings=EIGHT) == []
    case = case_of("cifar", "local", account=None, nodes=1, tasks_per_node=4, settings=EIGHT)
    sizing, figures = sizing_of(replace(case, needs_account=False), Decisions()), stored_figures(case.job)
    assert figures is not None and case.job.training is not None
    work = workload_of(case.job, case.job.training, EIGHT)
    row = plan_of(case.job, "local", nodes=1, tasks_per_node=4, settings=EIGHT).chosen
    assert row is not None and row.batch is not None
    runs = [PlannedTraining(work=work, batch=row.batch)]
    one = Measured(shape=Shape(nodes=1, ranks_per_node=1, per_rank=32), samples_per_s=2000.0)
    four = Measured(shape=Shape(nodes=1, ranks_per_node=4, per_rank=8), samples_per_s=700.0)
    question = Question(case=case, figures=figures, evidence=Evidence(points=(one, four)))
    warning = one_process_warning(question, sizing, runs)
    assert "4 ranks x 8 samples are predicted to be slower" in warning and "(from measured runs)" in warning
    times = re.search(r": (\d+) s instead of (\d+) s an epoch", warning)
    assert times is not None and [int(text) for text in times.groups()] == pytest.approx([71, 25], rel=0.1)
    fast = replace(four, samples_per_s=7600.0)
    assert one_process_warning(replace(question, evidence=Evidence(points=(one, fast))), sizing, runs) == ""


def test_one_process_that_was_measured_has_all_that_a_node_gives_it() -> None:
    case = case_of("cifar", "local", account=None, nodes=1, tasks_per_node=4, settings=EIGHT)
    sizing, figures = sizing_of(replace(case, needs_account=False), Decisions()), stored_figures(case.job)
    assert figures is not None and case.job.training is not None
    row = plan_of(case.job, "local", nodes=1, tasks_per_node=4, settings=EIGHT).chosen
    assert row is not None and row.batch is not None
    runs = [PlannedTraining(work=workload_of(case.job, case.job.training, EIGHT), batch=row.batch)]
    four = Measured(shape=Shape(nodes=1, ranks_per_node=4, per_rank=8), samples_per_s=700.0)
    one = Measured(shape=Shape(nodes=1, ranks_per_node=1, per_rank=32), samples_per_s=2500.0)
    known = Question(case=case, figures=figures, evidence=Evidence(points=(four,), alone=(one,)))
    warning = one_process_warning(known, sizing, runs)
    times = re.search(r"slower .*: (\d+) s instead of (\d+) s an epoch \(from measured runs\)", warning)
    assert times is not None and [int(text) for text in times.groups()] == pytest.approx([71, 20], rel=0.1)
    slow = replace(one, samples_per_s=350.0)
    assert one_process_warning(replace(known, evidence=Evidence(points=(four,), alone=(slow,))), sizing, runs) == ""


def test_the_plan_of_typed_ranks_says_the_same() -> None:
    typed: dict[str, Any] = {"nodes": 1, "tasks_per_node": 4, "settings": EIGHT}
    (warning,) = (text for text in plan_of(bundled_job("cifar"), **typed).warnings if ABOUT in text)
    assert [warning] == warnings(**typed)
    assert not any(ABOUT in text for text in plan_of(bundled_job("cifar")).warnings)


def test_a_batch_that_one_process_cannot_hold_at_once_is_accumulated() -> None:
    settings = (("batch_size_per_rank", "1"), ("accumulation", "1024"))
    (warning,) = warnings("resnet50", nodes=1, tasks_per_node=4, settings=settings)
    assert warning.startswith("4 ranks x 1 sample x 1024 micro-batches are predicted to be slower than one process")
    alone = re.search(r"--tasks-per-node 1 --set batch_size_per_rank=(\d+) --set accumulation=(\d+)", warning)
    assert alone is not None and int(alone[1]) * int(alone[2]) == 4096 and int(alone[2]) > 1
