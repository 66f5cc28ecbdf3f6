"""The warning about a walltime that a training may exceed: both times, what happens then, and what is enough."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.actions.preparing.advice import advised
from hpclaunch.core.units import parse_walltime
from hpclaunch.guidelines.calibration import Measured
from hpclaunch.guidelines.throughput import Shape
from hpclaunch.planner.job.question import Evidence, Question
from hpclaunch.planner.job.workload import stored_figures, workload_of
from hpclaunch.planner.speed.prediction import PlannedTraining
from hpclaunch.planner.speed.walltime import predict_trainings, walltime_warning
from hpclaunch.resolve import resolve
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.sizing import sizing_of
from tests.builders import a_case, a_context, bundled_job, bundled_site
from tests.unit.planner.questions import plan_of

ABOUT = "longer than the walltime of"


def warnings(name: str = "cosmoflow", site: str = "perlmutter", **typed: Any) -> list[str]:
    """The warnings about the walltime that a submission gets."""
    return [text for text in advised(case_of(name, site, **typed)).advice.warnings if ABOUT in text]


def case_of(name: str, site: str, **typed: Any) -> Case:
    context = a_context(environment={"SCRATCH": "/scratch/ada"})
    words = {"target": name, "account": "m1", "accept_unverified": True, **typed}
    return a_case(bundled_site(site), bundled_job(name), context=context, **words)


def test_a_training_that_takes_longer_is_warned_about_once_with_both_times() -> None:
    (warning,) = warnings(nodes=4)
    assert warning.startswith("the training takes longer than the walltime of 04:00:00: ")
    row = plan_of(bundled_job("cosmoflow"), nodes=4).chosen
    assert row is not None and row.candidate is not None
    assert f"{row.candidate.time_s.middle / 3600:.2g} h (" in warning and "; nothing is measured)" in warning
    assert "the run would continue in up to 5 jobs, one after the other" in warning


def test_the_proposed_walltime_is_enough() -> None:
    enough = re.search(r"--walltime (\S+) is enough", warnings(nodes=4)[0])
    assert enough is not None
    assert warnings(nodes=4, walltime=parse_walltime(enough[1])) == []
    assert warnings(nodes=4, walltime=parse_walltime(enough[1]) - 600)[0].startswith("the training may take longer")


@pytest.mark.parametrize(
    ("typed", "ending"),
    [
        ({"restarts": 0}, "the job would end before its training"),
        ({"restarts": 2}, "the run may need 5 jobs, more than its 2 restarts allow"),
    ],
)
def test_what_happens_at_the_end_of_the_walltime_depends_on_the_restarts(typed: dict[str, Any], ending: str) -> None:
    assert ending in warnings(nodes=4, **typed)[0]


def test_the_number_of_epochs_that_a_recipe_sets_is_not_in_doubt() -> None:
    batch = ("batch_size_per_rank", "64")  # more epochs than the job's own, by a critical batch size that is uncertain
    recipe = advised(case_of("cosmoflow", "perlmutter", nodes=4, settings=(batch,))).advice.recipe
    assert recipe is not None
    epochs = ("epochs", dict(recipe.applied)["epochs"])
    by_recipe, typed = (warnings(nodes=4, settings=settings) for settings in ((batch,), (batch, epochs)))
    assert by_recipe == typed != []


def test_a_walltime_that_the_site_does_not_allow_is_not_proposed() -> None:
    (warning,) = warnings("cosmoflow", "frontier", nodes=2)
    assert "is enough" not in warning


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("cifar", {"nodes": 4}),
        ("cosmoflow", {}),
        ("cosmoflow", {"nodes": 4, "synthetic": True}),
        ("cosmoflow", {"nodes": 4, "recipe": "job"}),
        ("cosmoflow", {"nodes": 4, "settings": (("epochs", "1"),)}),
        ("resnet50", {"nodes": 4, "settings": (("train_samples", "20000"),)}),
    ],
)
def test_nothing_is_said_of_a_run_that_ends_in_time(name: str, typed: dict[str, Any]) -> None:
    assert warnings(name, **typed) == []


def test_of_a_sweep_the_longest_run_counts() -> None:
    assert warnings(nodes=4, sweep=(("epochs", "1,2"),)) == []
    (warning,) = warnings(nodes=4, sweep=(("epochs", "1,100"),))
    assert warning == warnings(nodes=4, settings=(("epochs", "100"),))[0]


@pytest.mark.parametrize("swept", ["8192,524288", "524288,8192"])
def test_of_a_sweep_over_the_number_of_samples_the_longest_run_counts(swept: str) -> None:
    (warning,) = warnings(nodes=4, sweep=(("train_samples", swept),))
    assert warning == warnings(nodes=4, settings=(("train_samples", "524288"),))[0]
    assert warnings(nodes=4, settings=(("train_samples", "8192"),)) == []


def test_a_machine_of_unknown_speed_is_not_judged() -> None:
    assert warnings("cifar", "testcluster", nodes=4, account=None, walltime=60) == []


def test_measurements_take_the_place_of_the_guess() -> None:
    case = case_of("cosmoflow", "perlmutter", nodes=4, walltime=12 * 3600)
    sizing = sizing_of(replace(case, needs_account=False), Decisions())
    figures, training = stored_figures(case.job), case.job.training
    assert figures is not None and training is not None
    work = workload_of(case.job, training, ())
    row = plan_of(case.job, nodes=4).chosen
    assert row is not None and row.batch is not None
    shape = Shape(nodes=4, ranks_per_node=4, per_rank=4)
    slow, fast = (
        Question(case=case, figures=figures, evidence=Evidence(points=(Measured(shape=shape, samples_per_s=rate),)))
        for rate in (200.0, 1000.0)
    )
    runs = [PlannedTraining(work=work, batch=row.batch)]
    (slowly,), (quickly,) = (predict_trainings(question, sizing, runs) for question in (slow, fast))
    assert slowly.rate.measured and slowly.rate.samples_per_s == pytest.approx(200.0, rel=0.05)
    assert "from measured runs" in walltime_warning([slowly], sizing)
    assert walltime_warning([quickly], sizing) == ""


def test_a_measurement_that_no_prediction_uses_is_none() -> None:
    case = case_of("cosmoflow", "perlmutter", nodes=4, walltime=12 * 3600)
    sizing = sizing_of(replace(case, needs_account=False), Decisions())
    figures, training = stored_figures(case.job), case.job.training
    assert figures is not None and training is not None
    row = plan_of(case.job, nodes=4).chosen
    assert row is not None and row.batch is not None
    shared = Measured(shape=Shape(nodes=4, ranks_per_node=4, per_rank=4), samples_per_s=1.0, ranks_per_replica=2)
    question = Question(case=case, figures=figures, evidence=Evidence(points=(shared,)))
    training_run = PlannedTraining(work=workload_of(case.job, training, ()), batch=row.batch)
    (found,) = predict_trainings(question, sizing, [training_run])
    assert not found.rate.measured


def test_a_submission_records_the_predicted_speed() -> None:
    spec, _ = resolve(advised(case_of("cosmoflow", "perlmutter", nodes=4, walltime=12 * 3600)))
    assert spec.predicted is not None and not spec.predicted.measured
    assert 0 < spec.predicted.low < spec.predicted.samples_per_s < spec.predicted.high


@pytest.mark.parametrize(
    ("name", "site", "typed"),
    [
        ("cifar", "testcluster", {"account": None}),
        ("cosmoflow", "perlmutter", {"sweep": (("epochs", "1,100"),)}),
        ("cosmoflow", "perlmutter", {"sweep": (("train_samples", "4096,65536"),)}),
        ("cosmoflow", "perlmutter", {"recipe": "job"}),
    ],
)
def test_nothing_is_recorded_where_nothing_is_predicted(name: str, site: str, typed: dict[str, Any]) -> None:
    assert advised(case_of(name, site, nodes=4, **typed)).advice.predicted is None
