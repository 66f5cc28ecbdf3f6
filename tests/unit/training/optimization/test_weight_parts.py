"""The parts of the weights: all ranks together have every weight once, in equal shares."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines import memory
from hpclaunch.training.optimization.weight_parts import BUCKET_BYTES, buckets

SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=12)


@given(SIZES, st.integers(1, 100))
def test_buckets_hold_every_variable_in_order_and_no_more_than_the_most(sizes: list[int], most: int) -> None:
    found = buckets(sizes, most)
    assert [index for bucket in found for index in bucket.variables] == list(range(len(sizes)))
    assert [size for bucket in found for size in bucket.sizes] == sizes
    for bucket in found:
        assert len(bucket.sizes) == 1 or sum(bucket.sizes) <= most
    for before, after in itertools.pairwise(found):
        assert sum(before.sizes) + after.sizes[0] > most  # no bucket ends early


@given(SIZES, st.integers(1, 100), st.integers(1, 9))
def test_each_weight_belongs_to_one_rank_and_shares_differ_by_one(sizes: list[int], most: int, ranks: int) -> None:
    for bucket in buckets(sizes, most):
        of_ranks = [bucket.parts(rank, ranks) for rank in range(ranks)]
        for index, size in enumerate(bucket.sizes):
            held = [range(parts[index].begin, parts[index].end) for parts in of_ranks]
            assert [element for part in held for element in part] == list(range(size))
        shares = [sum(part.size for part in parts) for parts in of_ranks]
        assert shares == sorted(shares, reverse=True) and shares[0] - shares[-1] <= 1


def test_the_plan_counts_the_bucket_that_training_copies() -> None:
    assert memory.BUCKET_BYTES == BUCKET_BYTES
