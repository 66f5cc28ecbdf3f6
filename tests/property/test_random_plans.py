"""What holds for the plans of a few dozen random jobs and sites; ``random_plans`` tries as many as are wanted."""

from __future__ import annotations

import re

import pytest

from tests.property.random_plans import faults_of, random_plan

FEW = 5
FOUND = {
    384: "its walltime led to another partition, whose jobs are longer",
    1360: "two ranks on each typed node were better, and its free-text number format was faster",
    1397: "a typed bfloat16 was better than the job's own format",
    1406: "64 nodes read again and again what 87 keep in their memory",
}
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


def test_a_note_names_fewer_ranks_on_typed_nodes_where_they_are_better() -> None:
    asked = random_plan(1393)
    plan = asked.plan()
    assert plan is not None
    (note,) = (one for one in plan.notes if one.startswith("typed nodes use every GPU"))
    found = re.search(r"; --tasks-per-node (\d) \(B = \d+\) would make it", note)
    assert found is not None
    fewer = asked.plan(request={"tasks_per_node": int(found[1])})
    assert fewer is not None and fewer.chosen is not None and plan.chosen is not None
    assert fewer.chosen.candidate is not None and plan.chosen.candidate is not None
    assert fewer.chosen.candidate.time_s.middle < plan.chosen.candidate.time_s.low
    assert fewer.chosen.candidate.cost.middle < plan.chosen.candidate.cost.low


def test_nodes_whose_memory_holds_the_data_set_are_planned_where_fewer_are_slower_and_dearer() -> None:
    plan = random_plan(1406).plan()
    assert plan is not None and plan.nodes > 64
    assert any("their memory holds the data set" in note for note in plan.notes)
    others = [row.candidate for row in plan.rows if row.candidate is not None and row.nodes <= 64]
    chosen = plan.chosen.candidate if plan.chosen else None
    assert chosen is not None
    assert all(one.done_s > chosen.done_s and one.cost.middle > chosen.cost.middle for one in others)
