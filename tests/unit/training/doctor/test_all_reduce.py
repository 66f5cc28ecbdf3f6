"""How often an all-reduce of each size is repeated, and what is reported of it, on a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hpclaunch.training.doctor import all_reduce
from hpclaunch.training.doctor.all_reduce import BUDGET_S, FEWEST, MOST, SIZES, measure, repeats_of


class Clock:
    """A clock that only the simulated all-reduces move."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def prepare(self, bytes_per_s: float, latency_s: float = 0.0) -> Callable[[int], Callable[[], None]]:
        def prepare(size: int) -> Callable[[], None]:
            def once() -> None:
                self.now += latency_s + size / bytes_per_s

            return once

        return prepare


def test_the_sizes_are_powers_of_four_from_1_kib_to_64_mib() -> None:
    assert (SIZES[0], SIZES[-1]) == (2**10, 2**26)
    assert list(SIZES) == [4**power for power in range(5, 14)]


def test_every_size_has_the_time_of_one() -> None:
    clock = Clock()
    rows = measure(clock.prepare(1e9, latency_s=1e-3), lambda number: number, clock)
    assert [row["bytes"] for row in rows] == list(SIZES)
    assert [row["seconds"] for row in rows] == pytest.approx([1e-3 + size / 1e9 for size in SIZES])
    assert {row["n"] for row in rows} <= set(range(FEWEST, MOST + 1))


def test_a_slow_network_leaves_out_the_largest_sizes() -> None:
    clock = Clock()
    rows = measure(clock.prepare(1e6), lambda number: number, clock)
    assert 2 <= len(rows) < len(SIZES)
    assert clock.now <= BUDGET_S


def test_all_ranks_repeat_as_often_as_the_first() -> None:
    asked: list[int] = []

    def agree(number: int) -> int:
        asked.append(number)
        return 4 if len(asked) < 3 else 0

    clock = Clock()
    rows = measure(clock.prepare(1e9), agree, clock)
    assert [row["n"] for row in rows] == [4, 4]
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("warm_s", "left_s", "repeats"),
    [(1e-6, 60, MOST), (0.05, 60, 10), (2.0, 60, FEWEST), (2.0, 9.9, 0), (0.0, 60, MOST), (1.0, -1, 0)],
)
def test_repeats_fit_the_time(warm_s: float, left_s: float, repeats: int) -> None:
    assert repeats_of(warm_s, left_s) == repeats


def test_a_wrong_sum_is_an_error() -> None:
    all_reduce.check_sum(4.0, 4)
    with pytest.raises(ArithmeticError, match="over 4 ranks is 1"):
        all_reduce.check_sum(1.0, 4)
