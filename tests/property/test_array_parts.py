"""However the runs of an array are divided: each is queued once, and never more than the limit run at a time."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.runs.array_parts import ArrayPart, divide

INDICES = st.one_of(
    st.integers(1, 400).map(range),
    st.lists(st.integers(0, 100_000), min_size=1, max_size=60, unique=True),
)
LIMITS = st.one_of(st.just(0), st.integers(1, 8), st.integers(1, 500))


def most_at_once(parts: list[ArrayPart]) -> int:
    """The most runs that can run at a time: a part and the one that it waits for never run side by side."""
    lane_of: dict[int, int] = {}
    most: dict[int, int] = defaultdict(int)
    for number, part in enumerate(parts):
        lane = lane_of[number] = number if part.after is None else lane_of[part.after]
        most[lane] = max(most[lane], min(part.at_once or len(part.indices), len(part.indices)))
    return sum(most.values())


@given(indices=INDICES, largest=st.one_of(st.none(), st.integers(1, 150), st.just(1001)), at_once=LIMITS)
def test_every_run_is_in_one_part_and_together_they_keep_to_the_limit(
    indices: range | list[int], largest: int | None, at_once: int
) -> None:
    parts = divide(indices, largest, at_once)
    assert sorted(index for part in parts for index in part.indices) == sorted(indices)
    for number, part in enumerate(parts):
        tasks = [index - part.offset for index in part.indices]
        assert min(tasks) >= 0
        assert largest is None or max(tasks) < largest
        assert part.after is None or part.after < number
        assert (part.at_once > 0) is (at_once > 0)
    if at_once:
        assert most_at_once(parts) <= at_once
        if len(parts) <= at_once:  # nothing of the limit is left unused
            assert sum(part.at_once for part in parts) == at_once


@given(indices=INDICES, at_once=LIMITS)
def test_what_fits_into_one_array_is_one(indices: range | list[int], at_once: int) -> None:
    (part,) = divide(indices, max(indices) + 1, at_once)
    assert (part.offset, part.at_once, part.after) == (0, at_once, None)
