"""Shards: disjoint, complete, equal, reproducible."""

from __future__ import annotations

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.training.input import shards
from hpclaunch.training.rank.failure import TrainingError

sizes = st.integers(1, 64)


@given(size=sizes, extra=st.integers(0, 500), seed=st.integers(0, 2**32))
def test_training_shards_are_disjoint_complete_and_equally_long(size: int, extra: int, seed: int) -> None:
    total = size + extra
    order = shards.shuffled(total, seed)
    parts = [shards.training_shard(order, rank, size) for rank in range(size)]
    own = np.concatenate([part.indices[: part.samples] for part in parts])
    assert sorted(own) == list(range(total))
    assert len({len(part.indices) for part in parts}) == 1
    assert all(part.padding in (0, 1) for part in parts)
    assert all(part.indices[-1] == part.indices[0] for part in parts if part.padding)


@given(size=sizes, total=st.integers(0, 500))
def test_evaluation_shards_are_disjoint_and_complete(size: int, total: int) -> None:
    parts = [shards.evaluation_shard(total, rank, size) for rank in range(size)]
    assert sorted(np.concatenate(parts)) == list(range(total))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(size=sizes, batch=st.integers(1, 600), total=st.integers(64, 3000))
def test_all_ranks_make_the_same_steps_with_the_same_batches(size: int, batch: int, total: int) -> None:
    order = shards.shuffled(total, 1)
    batches = set()
    for rank in range(size):
        length = len(shards.training_shard(order, rank, size).indices)
        steps = shards.steps_per_epoch(length, batch)
        batches.add((steps, length - (steps - 1) * batch))
    assert len(batches) == 1
    assert 1 <= batches.pop()[1] <= batch


def test_fewer_samples_than_ranks_is_an_error() -> None:
    with pytest.raises(TrainingError, match="3 training samples are too few for 4 ranks"):
        shards.training_shard(shards.shuffled(3, 0), 0, 4)


def test_limit_takes_the_first_of_the_shuffled() -> None:
    whole = shards.shuffled(100, 5)
    assert list(shards.shuffled(100, 5, limit=7)) == list(whole[:7])
    assert sorted(whole) == list(range(100)) != list(whole)


def test_order_is_new_every_epoch_and_the_same_for_the_same_arguments() -> None:
    first = shards.epoch_order(50, 3, 0, 1)
    assert list(first) == list(shards.epoch_order(50, 3, 0, 1))
    others = [shards.epoch_order(50, 3, 1, 1), shards.epoch_order(50, 3, 0, 2), shards.epoch_order(50, 4, 0, 1)]
    assert all(list(first) != list(other) for other in others)
    assert sorted(first) == list(range(50))


def test_the_shuffle_is_the_same_on_every_machine() -> None:
    assert list(shards.shuffled(8, 1337)) == [2, 7, 6, 1, 4, 5, 3, 0]


def test_summary_describes_the_own_samples_only() -> None:
    part = shards.training_shard(np.array([4, 0, 3, 1, 2]), 1, 2)
    summary = part.summary()
    assert (summary["samples"], summary["padding"], summary["first"], summary["sum"]) == (2, 1, [0, 1], 1)


@given(size=sizes, counts=st.lists(st.integers(0, 40), min_size=1, max_size=130), seed=st.integers(0, 2**32))
def test_record_shards_are_disjoint_complete_and_equally_long(size: int, counts: list[int], seed: int) -> None:
    total = sum(counts)
    if total < size:
        with pytest.raises(TrainingError, match=f"{total} training samples are too few for {size} ranks"):
            shards.record_shard(counts, seed, 0, size)
        return
    parts = [shards.record_shard(counts, seed, rank, size) for rank in range(size)]
    own = [part.indices[: part.samples] for part in parts]
    assert sorted(np.concatenate(own)) == list(range(total))
    assert {len(part.indices) for part in parts} == {-(-total // size)}
    assert all(part.padding in (0, 1) for part in parts)
    # What is read file by file is the same samples, each file as one run.
    starts = np.cumsum([0, *counts])
    for indices in own:
        runs = shards.runs(indices, counts)
        found = [starts[r.file] + r.first + r.stride * np.arange(r.samples) for r in runs]
        assert list(np.concatenate(found)) == sorted(indices)
        assert len({r.file for r in runs}) == len(runs)


@pytest.mark.parametrize("size", range(1, 65))
def test_with_enough_files_a_rank_opens_its_own_and_at_most_two_shared_ones(size: int) -> None:
    counts = [100] * 128
    opened = [
        {run.file for run in shards.runs(shards.record_shard(counts, 1, rank, size).indices, counts)}
        for rank in range(size)
    ]
    assert max(map(len, opened)) <= 128 // size + 2
    assert sum(map(len, opened)) <= 128 + size - 1  # every cut shares one file at most
    if 128 % size == 0:
        assert sum(map(len, opened)) == 128


def test_with_few_files_every_rank_takes_every_size_th_sample() -> None:
    parts = [shards.record_shard([5, 6], 1, rank, 3) for rank in range(3)]
    assert [list(part.indices[: part.samples]) for part in parts] == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8]]


@given(step=st.integers(0, 10**6), steps=st.integers(1, 5000))
def test_a_step_has_one_place(step: int, steps: int) -> None:
    epoch, within = shards.place_of(step, steps)
    assert epoch * steps + within == step and 0 <= within < steps


@pytest.mark.parametrize("size", range(1, 65))
def test_every_world_size_shares_out_uneven_totals(size: int) -> None:
    for total in (size, size + 1, 2 * size - 1, 997):
        order = shards.shuffled(total, size)
        for parts in (
            [shards.training_shard(order, rank, size) for rank in range(size)],
            [shards.record_shard([total // 2, 0, total - total // 2], 1, rank, size) for rank in range(size)],
        ):
            own = np.concatenate([part.indices[: part.samples] for part in parts])
            assert (np.sort(own) == np.arange(total)).all()
            assert {len(part.indices) for part in parts} == {-(-total // size)}
