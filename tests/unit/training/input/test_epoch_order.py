"""What a rank reads in an epoch that other numbers of ranks have begun: nothing is left out."""

from __future__ import annotations

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.training.input import shards
from hpclaunch.training.input.epoch_order import Part, added, left
from hpclaunch.training.rank.failure import TrainingError


def of_all(order: np.ndarray, epoch: int, size: int, parts: tuple[Part, ...], reshuffle: bool) -> list[np.ndarray]:
    """What every rank still has to read."""
    return [left(order, 7, epoch, rank, size, parts, reshuffle) for rank in range(size)]


def read_in_turns(total: int, epoch: int, worlds: list[tuple[int, int]], reshuffle: bool) -> tuple[list[int], int]:
    """All that is read in an epoch by these worlds, each (ranks, samples that each reads), and by the last to its end.

    And how many samples may be repeated, so that ranks have equal numbers.
    """
    order, parts, read, repeats = shards.shuffled(total, 3), (), [], 0
    for number, (ranks, samples) in enumerate(worlds):
        mine = of_all(order, epoch, ranks, parts, reshuffle)
        assert len({len(one) for one in mine}) == 1, "all ranks make the same steps"
        if number == 0 or worlds[number - 1][0] != ranks:
            repeats += ranks - 1
        now = len(mine[0]) if number + 1 == len(worlds) else min(samples, len(mine[0]))
        read += [int(position) for one in mine for position in one[:now]]
        parts = added(parts, Part(ranks, now))
    return read, repeats


worlds = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 12)), min_size=1, max_size=5)


@given(total=st.integers(9, 120), epoch=st.integers(0, 3), worlds=worlds, reshuffle=st.booleans())
def test_every_sample_is_read_in_every_epoch(
    total: int, epoch: int, worlds: list[tuple[int, int]], reshuffle: bool
) -> None:
    read, repeats = read_in_turns(total, epoch, worlds, reshuffle)
    assert set(read) == set(range(total))
    assert len(read) - total <= repeats


@pytest.mark.parametrize("reshuffle", [False, True])
@pytest.mark.parametrize("second", [1, 2, 3, 4, 6])
def test_24_samples_are_read_once_by_two_ranks_and_then_by_another_number(second: int, reshuffle: bool) -> None:
    read, _ = read_in_turns(24, 1, [(2, 6), (second, 0)], reshuffle)
    assert sorted(read) == list(range(24))


@pytest.mark.parametrize("reshuffle", [False, True])
@given(samples=st.integers(0, 8), first=st.integers(1, 5), size=st.integers(1, 5))
def test_the_same_number_of_ranks_goes_on_as_an_undisturbed_epoch(
    reshuffle: bool, samples: int, first: int, size: int
) -> None:
    """Also after another number has begun the epoch."""
    order = shards.shuffled(60, 1)
    begun = (Part(first, 3),) if first != size else ()
    whole = of_all(order, 0, size, begun, reshuffle)
    rest = of_all(order, 0, size, added(begun, Part(size, samples)), reshuffle)
    for one, other in zip(whole, rest, strict=True):
        np.testing.assert_array_equal(one[samples:], other)


def test_a_shard_keeps_its_samples_and_order_of_before() -> None:
    order = shards.shuffled(11, 5)
    own = shards.training_shard(order, 1, 3).indices
    np.testing.assert_array_equal(left(order, 5, 2, 1, 3), own[shards.epoch_order(4, 5, 2, 1)])


def test_with_reshuffling_a_rank_gets_other_samples_in_every_epoch() -> None:
    order = shards.shuffled(64, 5)
    shares = [frozenset(left(order, 5, epoch, 1, 4, reshuffle=True)) for epoch in range(6)]
    assert len(set(shares)) == 6
    assert len({frozenset(left(order, 5, epoch, 1, 4)) for epoch in range(6)}) == 1


def test_a_part_without_samples_is_none_and_equal_numbers_of_ranks_are_one() -> None:
    assert added((), Part(2, 0)) == ()
    assert added((Part(2, 4),), Part(2, 3)) == (Part(2, 7),)
    assert added((Part(2, 4),), Part(3, 3)) == (Part(2, 4), Part(3, 3))


def test_fewer_samples_than_ranks_is_an_error_but_not_at_the_end_of_an_epoch() -> None:
    with pytest.raises(TrainingError, match="3 training samples are too few for 4 ranks"):
        left(shards.shuffled(3, 1), 1, 0, 0, 4)
    rest = of_all(shards.shuffled(8, 1), 0, 4, (Part(2, 3), Part(1, 1)), reshuffle=False)
    assert [len(one) for one in rest] == [1] * 4 and len({int(one[0]) for one in rest}) == 1
