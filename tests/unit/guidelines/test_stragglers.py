"""How much the slowest of several ranks varies, against tables and drawing it; and what follows for one rank."""

from __future__ import annotations

import random
import statistics

import pytest

from hpclaunch.guidelines.stragglers import of_a_rank, spread_of_slowest


@pytest.mark.parametrize(
    ("ranks", "variance"),
    # Variances of the largest order statistic of the normal distribution: Teichroew 1956, Ann. Math. Statist. 27.
    [(1, 1.0), (2, 0.6816901138), (3, 0.5594672038), (4, 0.4917152369), (5, 0.4475340691), (10, 0.3443438233)],
)
def test_the_spread_of_the_slowest_is_the_tables(ranks: int, variance: float) -> None:
    assert spread_of_slowest(ranks) ** 2 == pytest.approx(variance, abs=1e-8)


def test_a_ranks_spread_is_found_again_from_steps_that_wait_for_the_slowest() -> None:
    drawn = random.Random(7)
    steps = [max(drawn.gauss(1.0, 0.05) for _ in range(8)) for _ in range(20_000)]
    assert of_a_rank(statistics.stdev(steps), 8) == pytest.approx(0.05, rel=0.03)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be negative"):
        of_a_rank(-0.1, 4)
    with pytest.raises(ValueError, match="at least one rank"):
        spread_of_slowest(0)
