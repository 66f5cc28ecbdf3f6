"""The layouts of a study, the plan's prediction for each, and the words of its warnings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpclaunch.guidelines.scaling import MeasuredPoint, StepSplit, scale
from hpclaunch.planner.job.question import Question
from hpclaunch.planner.job.workload import Workload, stored_figures, workload_of
from hpclaunch.planner.speed.scaling import KeptBatch, largest_alone, layouts_of, predicted, undivided, warnings_of
from tests.builders import a_case, a_context, bundled_job, bundled_site

SHAPES = [(1, 1), (1, 4), (2, 4)]


def question(**typed: object) -> tuple[Question, Workload]:
    job = bundled_job("cifar")
    context = a_context(environment={"SCRATCH": "/scratch/ada"})
    words = {"target": "cifar", "account": "m1", "accept_unverified": True, **typed}
    case = a_case(bundled_site("perlmutter"), job, context=context, **words)
    assert job.training is not None
    return Question(case=case, figures=stored_figures(job)), workload_of(job, job.training, case.request.settings)


def test_strong_scaling_divides_one_batch_and_weak_scaling_keeps_that_of_a_rank() -> None:
    _, work = question()
    strong = layouts_of(SHAPES, work, KeptBatch(mode="strong", samples=512, largest=None))
    assert [(one.ranks, one.batch.per_rank, one.batch.total) for one in strong] == [
        (1, 512, 512),
        (4, 128, 512),
        (8, 64, 512),
    ]
    weak = layouts_of(
        SHAPES, replace(work, per_rank=32, accumulation=2), KeptBatch(mode="weak", samples=64, largest=None)
    )
    assert [(one.batch.per_rank, one.batch.accumulation, one.batch.total) for one in weak] == [
        (32, 2, 64),
        (32, 2, 256),
        (32, 2, 512),
    ]


def test_what_one_process_cannot_hold_becomes_micro_batches_if_the_job_has_them() -> None:
    _, work = question()
    assert "accumulation" in work.names
    alone, four, _ = layouts_of(SHAPES, work, KeptBatch(mode="strong", samples=512, largest=200))
    assert (alone.batch.per_rank, alone.batch.accumulation) == (128, 4)
    assert (four.batch.per_rank, four.batch.accumulation) == (128, 1)
    names = {role: name for role, name in work.names.items() if role != "accumulation"}
    assert (
        layouts_of(SHAPES, replace(work, names=names), KeptBatch(mode="strong", samples=512, largest=200))[
            0
        ].batch.accumulation
        == 1
    )


@pytest.mark.parametrize(
    ("total", "message", "nearest"), [(100, "8 ranks", "96"), (3, "4 ranks", "8"), (510, "4 ranks", "512")]
)
def test_a_batch_that_does_not_divide_is_refused_with_the_nearest_that_does(
    total: int, message: str, nearest: str
) -> None:
    fault = undivided(SHAPES, total)
    assert fault is not None and message in fault.what and "a multiple of 8 for 1, 4, 8 ranks" in fault.allowed
    assert fault.next.startswith(f"--global-batch {nearest};")
    assert undivided(SHAPES, 16) is None


def test_the_plan_predicts_every_layout_and_more_ranks_are_faster() -> None:
    asked, work = question()
    rates = [
        predicted(asked, work, layout)
        for layout in layouts_of(SHAPES, work, KeptBatch(mode="weak", samples=512, largest=None))
    ]
    assert all(rate is not None and rate.low < rate.samples_per_s < rate.high and not rate.measured for rate in rates)
    assert (
        rates[0] and rates[1] and rates[2] and rates[0].samples_per_s < rates[1].samples_per_s < rates[2].samples_per_s
    )
    assert largest_alone(asked, work) is not None


def test_without_the_models_figures_nothing_is_predicted() -> None:
    asked, work = question()
    unknown = replace(asked, figures=None)
    assert (
        predicted(unknown, work, layouts_of(SHAPES, work, KeptBatch(mode="weak", samples=512, largest=None))[0]) is None
    )
    assert largest_alone(unknown, work) is None


def point(ranks: int, step_s: float, split: StepSplit | None = None, accumulation: int = 1) -> MeasuredPoint:
    rate = 8 / step_s
    per_rank = 8 // ranks // accumulation
    return MeasuredPoint(
        nodes=ranks, ranks=ranks, per_rank=per_rank, accumulation=accumulation, rates=(rate,), split=split
    )


def split(compute: float, communication: float) -> StepSplit:
    return StepSplit(compute_s=compute, communication_s=communication, waiting_s=0.0, input_s=0.0)


def test_a_layout_that_is_slower_is_warned_of_with_both_times_and_the_part_that_costs_it() -> None:
    scaled = scale([point(1, 0.0146, split(0.0146, 0.0)), point(4, 0.0886, split(0.0046, 0.084))])
    (warning,) = warnings_of(scaled, 40_000, "strong")
    assert warning == (
        "4 ranks on 4 nodes x 2 samples are slower than one process with the same global batch of 8: 7.4 min instead of"
        " 73 s an epoch (measured, speed-up 0.16); a step takes 88.6 ms, with the ideal speed-up 3.65 ms; what costs"
        " most is communication: 84 ms"
    )


def test_a_layout_that_is_hardly_faster_is_warned_of_and_a_faster_one_is_not() -> None:
    alone = point(1, 0.010, split(0.010, 0.0), accumulation=2)
    scaled = scale([alone, point(2, 0.009, split(0.007, 0.002)), point(4, 0.004, split(0.003, 0.001))])
    (warning,) = warnings_of(scaled, 40_000, "weak")
    assert "2 ranks on 2 nodes x 4 samples are hardly faster than one process with a batch of 8" in warning
    # Both parts matter: 2 ms of computing that is not halved, and 2 ms of communication.
    assert "2 ms, then " in warning
    assert warnings_of(scaled[1:], 40_000, "weak") == ()
    unknown = scale([alone, point(2, 0.02)])
    assert "do not report the parts of their steps" in warnings_of(unknown, 40_000, "strong")[0]
