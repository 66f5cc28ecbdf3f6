"""A data set against the guidelines' table of known projects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.dataset import LEAST_TRAINED, PROJECTS, WAYS_TO_MORE, judge_dataset, judge_text


@pytest.mark.parametrize(
    ("samples", "parameters", "nearest", "verdict"),
    [
        (1_280_000, 25e6, "ImageNet", "as large"),
        (60_000, 490_378, "CosmoFlow", "smaller"),  # small, but a model of half a million parameters
        (50_000, 25e6, "ImageNet", "small"),
        (3_000_000, 157e6, "Etalumis (3 million)", "as large"),
        (3_000_000, 171e6, "Etalumis (15 million)", "small"),
        (198_912, 7e6, "CosmoFlow", "as large"),
        (198_911, 7e6, "CosmoFlow", "smaller"),
    ],
)
def test_verdicts(samples: int, parameters: float, nearest: str, verdict: str) -> None:
    found = judge_dataset(samples, parameters)
    assert (found.nearest.name, found.verdict) == (nearest, verdict)
    assert found.advice == (() if verdict == "as large" else WAYS_TO_MORE)
    assert bool(found.reason.warning) == (verdict == "small" and samples / parameters < LEAST_TRAINED)


def test_every_project_is_as_large_as_itself() -> None:
    assert {judge_dataset(one.samples, one.parameters).verdict for one in PROJECTS} == {"as large"}


@given(st.integers(1, 10**8), st.integers(1, 10**8), st.floats(1e3, 1e12))
def test_more_samples_are_never_worse(one: int, other: int, parameters: float) -> None:
    order = ["small", "smaller", "as large"]
    few, many = sorted((one, other))
    assert order.index(judge_dataset(few, parameters).verdict) <= order.index(judge_dataset(many, parameters).verdict)


@pytest.mark.parametrize(
    ("tokens", "parameters", "words", "is_small"),
    [
        (1.4e12, 65e9, "22 tokens for every parameter", False),  # LLaMA-65B
        (103e6, 257e6, "0.4 tokens for every parameter are few", False),  # Transformer-XL on WikiText-103
        (620_608, 163e6, "0.0038 tokens for every parameter are few", True),
        (15e12, 8e9, "more make a model that is cheaper to use", False),
    ],
)
def test_a_text_is_judged_by_its_tokens(tokens: float, parameters: float, words: str, is_small: bool) -> None:
    found = judge_text(tokens, parameters)
    assert words in found.verdict
    assert found.warning.startswith("the text is small for ") is is_small
