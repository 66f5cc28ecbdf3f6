"""The order of the work in a pipeline."""

from __future__ import annotations

import pytest

from hpclaunch.training.model_parallel.schedule import BACKWARD, FORWARD, one_forward_one_backward


@pytest.mark.parametrize("stages", [1, 2, 3, 8])
@pytest.mark.parametrize("micro_batches", [1, 2, 5, 16])
def test_every_micro_batch_goes_through_all_stages_and_back(stages: int, micro_batches: int) -> None:
    """No stage waits for ever, work is in the order of the micro-batches, and few activations are kept."""
    orders = [one_forward_one_backward(stage, stages, micro_batches) for stage in range(stages)]
    for stage, order in enumerate(orders):
        for what in (FORWARD, BACKWARD):
            assert [number for kind, number in order if kind == what] == list(range(micro_batches))
        kept = most = 0
        for kind, _ in order:
            kept += 1 if kind == FORWARD else -1
            most = max(most, kept)
        assert most == min(stages - stage, micro_batches)
    assert all_can_finish(orders)


def all_can_finish(orders: list[list[tuple[str, int]]]) -> bool:
    """Whether the stages come to an end, if each waits for what its neighbours send."""
    done: set[tuple[int, str, int]] = set()
    left, last = [list(order) for order in orders], len(orders) - 1
    moved = True
    while moved:
        moved = False
        for stage, order in enumerate(left):
            while order:
                kind, number = order[0]
                neighbour = stage - 1 if kind == FORWARD else stage + 1
                if 0 <= neighbour <= last and (neighbour, kind, number) not in done:
                    break
                done.add((stage, *order.pop(0)))
                moved = True
    return not any(left)


def test_the_last_stage_takes_turns() -> None:
    assert one_forward_one_backward(1, 2, 2) == [(FORWARD, 0), (BACKWARD, 0), (FORWARD, 1), (BACKWARD, 1)]
    first = one_forward_one_backward(0, 2, 2)
    assert first == [(FORWARD, 0), (FORWARD, 1), (BACKWARD, 0), (BACKWARD, 1)]
