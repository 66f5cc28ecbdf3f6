"""The published rates of decoders by their size, and what is said of a rate far above them."""

from __future__ import annotations

import pytest

from hpclaunch.guidelines.published_decoders import class_of, doubt_of, tokens_words, usual_of


@pytest.mark.parametrize(
    ("parameters", "rate", "tokens"),
    [(163e6, 6e-4, 0.5e6), (6.7e9, 3e-4, 4e6), (65e9, 1.5e-4, 4e6), (70e9, 1.5e-4, 4e6), (1e12, 0.8e-4, 16e6)],
)
def test_the_usual_rate_of_a_size(parameters: float, rate: float, tokens: float) -> None:
    found = usual_of(parameters)
    assert (found.rate, found.tokens) == (rate, tokens)


def test_a_class_is_a_factor_of_two_in_size() -> None:
    assert {row.name for row in class_of(7e9)} == {"GPT-3 6.7B", "LLaMA-7B", "LLaMA-13B", "GPT-3 13B"}
    assert [row.name for row in class_of(1e6)] == ["GPT-3 Small"]


def test_a_rate_beyond_twice_the_published_ones_is_doubted() -> None:
    assert doubt_of(7e9, 6e-4) == ""
    doubt = doubt_of(7e9, 0.0098)
    assert "33 times the highest that was published for a decoder of this size: 0.0003" in doubt
    assert "arXiv 2302.13971" in doubt


def test_tokens_by_parameters() -> None:
    assert "few" in tokens_words(7e9, 1e9)
    assert "22 tokens" in tokens_words(65e9, 1.4e12)
    assert "cheaper to use" in tokens_words(8e9, 15e12)
