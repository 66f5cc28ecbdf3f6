"""Formulas of a job file: arithmetic over its parameters, and nothing else."""

from __future__ import annotations

import re

import pytest

from hpclaunch.config.formulas import LONGEST, evaluate
from tests.builders import bundled_job

VALUES = {"layers": 3, "rate": 0.5, "name": "text", "flag": True}


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), ("layers * (2 + layers) - 1", 14), ("layers / 2 * rate", 0.75), ("10 - layers - 2", 5), ("0.5e3", 500)],
)
def test_a_formula_has_a_value(text: str, value: float) -> None:
    assert evaluate(text, VALUES) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layers ** 9", "'layers ** 9' is not allowed in a formula; allowed: numbers"),
        ("__import__('os')", "is not allowed in a formula"),
        ("layers.real", "'layers.real' is not allowed"),
        ("-layers", "'-layers' is not allowed"),
        ("True", "'True' is not allowed"),
        ("[x for x in y]", "is not allowed"),
        ("layers if rate else 1", "is not allowed"),
        ("hidden", "no parameter 'hidden' of the job is a number"),
        ("name", "no parameter 'name' of the job is a number"),
        ("flag", "no parameter 'flag' of the job is a number"),
        ("1 +", "'1 +' is not a formula"),
        ("", "is not a formula"),
        ("(" * 300 + "1" + ")" * 300, "is not a formula"),
        ("1 / (layers - 3)", "has no value that is zero or above"),
        ("1 - layers", "has no value that is zero or above"),
        ("1e308 * 10", "has no value that is zero or above"),
        ("1 + " * LONGEST + "1", f"at most {LONGEST} characters"),
    ],
)
def test_what_is_no_formula_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        evaluate(text, VALUES)


def test_the_figures_of_a_job_follow_its_settings() -> None:
    job = bundled_job("transformer")
    assert job.training is not None
    (before, samples) = job.training.figures["parameters"], job.training.samples
    sized = job.sized((("layers", "4"), ("context", "128"), ("hidden", "no number"), ("unknown", "1"))).training
    assert sized is not None
    assert sized.figures["parameters"] == before + 2 * (12 * 128 * 128 + 13 * 128) + 64 * 128
    assert (sized.samples, sized.sample_bytes, samples) == (samples // 2, 256, 620658 // 64)
    assert job.sized((("layers", "4"),)).sized() == job


def test_a_preset_has_the_size_that_it_says() -> None:
    """2.15 billion: 48 blocks of 12 x 1920^2 + 13 x 1920, and 13,312 rows and two vectors of 1920."""
    job = bundled_job("transformer")

    def parameters(recipe: str) -> float:
        settings = job.recipes[recipe].settings
        training = job.sized((name, str(value)) for name, value in settings.items()).training
        assert training is not None
        return training.figures["parameters"]

    assert parameters("gpt-2b") == 2_150_127_360
    assert parameters("gpt-small") == pytest.approx(163e6, rel=0.01)
    assert parameters("gpt-65b") == parameters("gpt-65b-corpus") == pytest.approx(65e9, rel=0.01)


def test_the_figures_of_cosmoflow_follow_its_volumes() -> None:
    """1,403,300 parameters do not depend on the size; a dense layer of 128 units has 512 inputs for each cube of 32."""
    job = bundled_job("cosmoflow")
    assert job.training is not None
    half = job.sized((("volume_size", "64"),)).training
    assert half is not None
    assert job.training.figures["parameters"] == 5_597_604
    assert half.figures["parameters"] == 1_403_300 + 8 * 512 * 128
    assert (job.training.sample_bytes, half.sample_bytes) == (16_777_216, 2_097_152)
    assert half.figures["flops_per_sample"] * 8 == job.training.figures["flops_per_sample"] == 20_498_891_856
