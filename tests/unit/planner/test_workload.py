"""A job's numbers as the planner reads them: defaults, typed values, what they decide, and what cannot be read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpclaunch.config.job import Job, Training
from hpclaunch.config.parameters import Parameter
from hpclaunch.core.spec import Request
from hpclaunch.guidelines.efficiency import TASKS
from hpclaunch.planner.job.workload import Workload, divided_batch, nothing_typed, workload_of
from tests.builders import a_job, bundled_job
from tests.unit.planner.questions import a_trained_job


def read(job: Job | None = None, **typed: str) -> Workload:
    job = job or a_trained_job()
    assert job.training is not None
    return workload_of(job, job.training, tuple(typed.items()))


def test_without_typed_values_the_defaults_of_the_job_count() -> None:
    work = read()
    assert (work.per_rank, work.accumulation, work.epochs, work.learning_rate) == (256, 1, 90, 0.1)
    assert (work.samples, work.optimizer, work.precision, work.decay) == (1_281_167, "momentum", "float32", "")
    assert work.typed == frozenset()


def test_typed_values_stand_above_the_defaults_and_are_known_as_typed() -> None:
    work = read(epochs="30", batch_size_per_rank="64", momentum="0", scale_learning_rate="sqrt")
    assert (work.epochs, work.per_rank, work.optimizer) == (30, 64, "sgd")
    assert (work.scaling, work.rule) == ("sqrt", "sqrt")
    assert work.typed == {"epochs", "batch_size_per_rank", "momentum", "scale_learning_rate"}


def test_a_rule_of_the_job_file_is_not_a_typed_one() -> None:
    job = a_trained_job()
    rows = {**job.parameters, "scale_learning_rate": Parameter(default="linear")}
    work = read(replace(job, parameters=rows))
    assert (work.scaling, work.rule) == ("linear", None)


@pytest.mark.parametrize("text", ["many", "1e999", "-4", "0", ""])
def test_what_cannot_be_read_counts_as_not_typed_and_what_is_not_positive_as_unknown(text: str) -> None:
    work = read(batch_size_per_rank=text)
    readable = text in ("-4", "0")
    assert work.per_rank == (None if readable else 256)
    assert ("batch_size_per_rank" in work.typed) == readable
    assert work.total_of(8) == (None if readable else 2048)


def test_a_total_counts_ranks_and_micro_batches() -> None:
    assert read(batch_size_per_rank="32", accumulation="4").total_of(16) == 32 * 4 * 16


def test_names_of_the_job_replace_those_of_the_roles() -> None:
    job = a_job(
        parameters={"bs": Parameter(default=8), "passes": Parameter(default=3), "epochs": Parameter(default=99)},
        training=Training(samples=1000, names={"batch_size_per_rank": "bs", "epochs": "passes"}),
    )
    work = read(job, bs="16")
    assert (work.per_rank, work.epochs, work.names) == (16, 3, {"batch_size_per_rank": "bs", "epochs": "passes"})
    assert work.rows["epochs"].default == 3
    assert (work.learning_rate, work.optimizers, work.task) == (None, (), None)


def test_fewer_samples_of_a_data_set_are_counted_but_never_more_than_it_has() -> None:
    rows = {"train_samples": Parameter(default=0)}
    job = a_job(parameters=rows, training=Training(samples=1000))
    assert [read(job, train_samples=text).samples for text in ("0", "64", "5000")] == [1000, 64, 1000]
    assert read(job).dataset_bytes is None
    assert read(a_trained_job(sample_bytes=10)).dataset_bytes == 12_811_670


@pytest.mark.parametrize(
    ("typed", "decided"),
    [
        ({"warmup_steps": "50"}, {"warmup_epochs"}),
        ({"warmup_steps": "0"}, set()),
        ({"decay_epochs": "30,60"}, {"decay", "decay_power"}),
        ({"decay_factor": "0.0"}, set()),
        ({"scale_learning_rate": "adascale"}, {"scale_learning_rate", "warmup_epochs"}),
    ],
)
def test_a_typed_technique_decides_the_roles_that_its_program_refuses_beside_it(
    typed: dict[str, str], decided: set[str]
) -> None:
    assert read(bundled_job("cifar"), **typed).typed == decided


@pytest.mark.parametrize(
    ("facts", "critical"),
    [
        ({"task": "imagenet"}, (TASKS["imagenet"], "default")),
        ({"task": "imagenet", "critical_batch": 512}, (512.0, "given")),
        ({"task": None}, (None, "default")),
    ],
)
def test_the_critical_batch_is_the_jobs_own_else_that_of_its_task(
    facts: dict[str, str | int | None], critical: tuple[float | None, str]
) -> None:
    work = read(a_trained_job(**facts))
    assert (work.critical_batch, work.critical_origin) == critical


@pytest.mark.parametrize(
    ("base", "default", "expected"), [(1024, 256, 1024), (None, 256, 256), (None, 0, None), (None, "x", None)]
)
def test_the_base_batch_is_the_jobs_own_else_its_default_per_rank_whatever_was_typed(
    base: int | None, default: int | str, expected: int | None
) -> None:
    job = a_trained_job(base_batch=base)
    job = replace(job, parameters={**job.parameters, "batch_size_per_rank": Parameter(default=default)})
    assert read(job, batch_size_per_rank="64").base_batch == expected


def test_a_divided_batch_is_read_from_the_request() -> None:
    rows = {"global_batch_size": Parameter(default=1024)}
    assert read(a_job(parameters=rows, training=Training(samples=1000))).global_batch == 1024
    assert divided_batch(a_job(), Request(target="train")) is None
    assert divided_batch(a_job(parameters=rows, training=Training(samples=1000)), Request(target="train")) == 1024


def test_optimizers_are_those_that_the_job_offers_and_an_unknown_one_counts_as_adam() -> None:
    job = a_trained_job()
    rows = {**job.parameters, "optimizer": Parameter(default="shampoo", choices=("shampoo", "SGD"))}
    work = read(replace(job, parameters=rows))
    assert (work.optimizer, work.optimizer_known, work.optimizers) == ("adam", False, ("shampoo", "SGD"))
    assert read(replace(job, parameters=rows), optimizer="SGD").optimizer_known


@pytest.mark.parametrize(("text", "precision"), [("float32", "float32"), ("float16", "mixed"), ("bfloat16", "mixed")])
def test_every_number_format_but_float32_is_mixed_precision(text: str, precision: str) -> None:
    work = read(precision=text)
    assert (work.precision, work.number_format) == (precision, text)


def test_values_that_a_plan_cannot_use_are_all_told() -> None:
    job = a_trained_job()
    assert job.training is not None
    typed = (("epochs", "0"), ("learning_rate", "-1"), ("accumulation", "2"), ("batch_size_per_rank", "x"))
    faults = nothing_typed(job, job.training, typed)
    assert [fault.where for fault in faults] == ["--set epochs", "--set learning_rate"]
    assert {fault.allowed for fault in faults} == {"a number above 0"}
