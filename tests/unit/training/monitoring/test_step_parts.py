"""The parts of a step: their arithmetic on known figures, and the clocks on one rank; Horovod is not started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.training.monitoring.step_parts import MOST_RANKS, OwnSteps, Waits, Window, event_values, gathered
from hpclaunch.training.rank.world import World
from tests.unit.training.several_ranks import on_ranks


def test_the_parts_add_up_to_the_step_and_the_slow_rank_is_seen() -> None:
    """Ten steps of 100 ms: rank 1 computes 80 ms and reads 10 ms, rank 0 computes 30 ms, and both send for 10 ms."""
    ranks = [OwnSteps(10, 1.0, 0.0, 0.7), OwnSteps(10, 1.0, 0.1, 0.1)]
    found = event_values(ranks)
    assert found["step_seconds"] == {"compute": 0.055, "communication": 0.04, "input": 0.005}
    assert found["step_seconds_by_rank"] == [0.03, 0.09]
    own = found["step_seconds_by_rank"]
    waiting = max(own) - sum(own) / len(own)
    assert found["step_seconds"]["communication"] - waiting == pytest.approx(0.01)  # what the slow rank sends


def test_without_the_exchange_only_the_wait_for_input_is_known() -> None:
    assert event_values([OwnSteps(4, 2.0, 0.4, 0.1), OwnSteps(4, 2.0, 0.8, None)]) == {"input_s": 0.15}


def test_a_list_of_too_many_ranks_is_left_out() -> None:
    one = OwnSteps(1, 1.0, 0.0, 0.5)
    assert len(event_values([one] * MOST_RANKS)["step_seconds_by_rank"]) == MOST_RANKS
    assert "step_seconds_by_rank" not in event_values([one] * (MOST_RANKS + 1))


def test_all_ranks_get_the_same_values_or_none(tmp_path: Path) -> None:
    def measured(world: World) -> dict[str, Any]:
        return gathered(world, OwnSteps(2, 1.0, 0.0, 0.2 * world.rank))

    def without_steps(world: World) -> dict[str, Any]:
        return gathered(world, OwnSteps(2, 1.0, 0.0, 0.0) if world.is_root else None)

    first, second = on_ranks(2, tmp_path, measured)
    assert first == second and first["step_seconds_by_rank"] == [0.5, 0.4]
    assert on_ranks(2, tmp_path, without_steps) == [{}, {}]


def test_a_loops_waits_are_those_of_its_iterator() -> None:
    now = [0.0]

    def batches() -> Iterator[int]:
        for number in range(3):
            now[0] += 0.05
            yield number

    waits = Waits(lambda: now[0])
    for _ in waits.of(batches()):
        now[0] += 1.0  # the step
    assert waits.seconds == pytest.approx(0.15)


def test_the_first_execution_of_an_epoch_does_not_count() -> None:
    now, waited, exchanged = [0.0], [0.0], [0.0]
    window = Window(lambda: waited[0], lambda: exchanged[0], lambda: now[0])

    def execute(last_step: int, seconds: float) -> None:
        now[0], waited[0], exchanged[0] = now[0] + seconds, waited[0] + 0.5, exchanged[0] + 0.25
        window.step_ended(last_step)

    for _ in range(2):
        window.begin()
        assert window.own() is None
        execute(4, 60.0)  # five steps in one execution, and the compilation
        assert window.own() is None
        execute(9, 2.0)
        execute(14, 3.0)
        assert window.own() == OwnSteps(10, 5.0, 1.0, 0.5)
        now[0] += 100  # the validation
