"""What holds for the plans of a few dozen random jobs and sites; ``random_plans`` tries as many as are wanted."""

from __future__ import annotations

import pytest

from tests.property.random_plans import faults_of

FEW = 5


@pytest.mark.parametrize("first", range(0, 60, FEW))
def test_a_random_plan_keeps_its_word(first: int) -> None:
    """No exception, no typed alternative that is better, the same epochs everywhere, and a command that repeats it."""
    ended = {seed: faults_of(seed) for seed in range(first, first + FEW)}
    assert not {seed: faults for seed, (_, faults) in ended.items() if faults}
    assert any(word == "planned" for word, _ in ended.values())
