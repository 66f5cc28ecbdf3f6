"""What holds for the plans of a few dozen random jobs and sites; ``random_plans`` tries as many as are wanted."""

from __future__ import annotations

import pytest

from tests.property.random_plans import faults_of

FEW = 5
FOUND = {384: "its walltime led to another partition, whose jobs are longer"}
"""Seeds whose plans once broke their word, and how."""


@pytest.mark.parametrize("first", range(0, 60, FEW))
def test_a_random_plan_keeps_its_word(first: int) -> None:
    """No exception, no typed alternative that is better, the same epochs everywhere, and a command that repeats it."""
    ended = {seed: faults_of(seed) for seed in range(first, first + FEW)}
    assert not {seed: faults for seed, (_, faults) in ended.items() if faults}
    assert any(word == "planned" for word, _ in ended.values())


@pytest.mark.parametrize("seed", FOUND)
def test_a_random_plan_that_once_broke_its_word_keeps_it(seed: int) -> None:
    word, faults = faults_of(seed)
    assert word == "planned" and not faults
