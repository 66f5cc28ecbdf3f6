"""The key of a measurement: what the values of parameters are counts, not how they are typed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.planner.measured.calibrations import key_of
from tests.builders import a_case, a_context, bundled_job, bundled_site

RESNET = bundled_job("resnet50")


def key(*settings: str, job: Any = RESNET, **typed: Any) -> str:
    """The key for ``--set`` with these words."""
    pairs = tuple((name, value) for name, _, value in (word.partition("=") for word in settings))
    here = a_context(environment={"SCRATCH": "/scratch"})
    return key_of(a_case(bundled_site("perlmutter"), job, context=here, settings=pairs, **typed))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["weight_decay=0.10"], ["weight_decay=1e-1"]),
        (["xla=TRUE"], ["xla=true"]),
        (["steps_per_execution=010"], ["steps_per_execution=10"]),
        (["decay_epochs=30.0, 60"], ["decay_epochs=30,60"]),
        (["xla=true", "precision=bfloat16"], ["precision=bfloat16", "xla=true"]),
        (["xla=false", "xla=true"], ["xla=true"]),
        (["precision=float32", "crop=16", "decay_epochs=30,60,80"], []),  # the job's own values
        (["batch_size_per_rank=8", "epochs=1", "learning_rate=3"], []),  # a plan chooses them
        (["synthetic=true"], []),
        (["seed=7"], []),
    ],
)
def test_values_that_are_the_same_have_one_key(one: list[str], other: list[str]) -> None:
    assert key(*one) == key(*other)


@pytest.mark.parametrize("word", ["precision=bfloat16", "crop=15", "xla=true", "image_size=64", "crop=x"])
def test_another_value_has_another_key(word: str) -> None:
    assert key(word) != key()


def test_synthetic_is_one_value_however_it_is_typed() -> None:
    assert key(synthetic=True) == key("synthetic=true")


def test_a_job_with_another_default_has_another_key() -> None:
    crop = replace(RESNET.parameters["crop"], default=8)
    other = replace(RESNET, parameters={**RESNET.parameters, "crop": crop})
    assert key(job=other) == key("crop=8") != key()
