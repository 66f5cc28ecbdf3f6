"""Grid and random searches: every combination once, the same ones for every worker."""

from __future__ import annotations

from hpclaunch.search.sampling import GRID, RANDOM, size_of, values_by_number
from hpclaunch.search.space import Dimension, SearchSpace, Values

BATCHES = SearchSpace(dimensions=(Dimension(name="batch_size", values=(8, 32, 128, 512)),))
LOGARITHMIC = SearchSpace(dimensions=(Dimension(name="n", low=1, high=40, whole=True, log=True),))
CONTINUOUS = SearchSpace(dimensions=(Dimension(name="x", low=0, high=1), Dimension(name="c", values=("a", "b"))))


def first(space: SearchSpace, sampler: str, count: int, seed: int = 0) -> list[Values | None]:
    values = values_by_number(space, sampler, seed)
    return [values(number) for number in range(count)]


def test_a_grid_has_every_point_once_and_ends() -> None:
    space = SearchSpace(dimensions=(Dimension(name="a", low=0, high=5, whole=True), *BATCHES.dimensions))
    found = first(space, GRID, 25)
    assert found[24] is None
    assert len({tuple(values.items()) for values in found if values}) == 24 == size_of(space, GRID)


def test_a_random_search_of_a_finite_space_tries_every_combination_once() -> None:
    found = first(BATCHES, RANDOM, 5)
    assert found[4] is None
    assert sorted(values["batch_size"] for values in found if values) == [8, 32, 128, 512]
    assert first(BATCHES, RANDOM, 4, seed=1) != first(BATCHES, RANDOM, 4, seed=2)


def test_unevenly_spread_values_are_all_tried_in_the_end() -> None:
    found = first(LOGARITHMIC, RANDOM, 41)
    assert found[40] is None
    assert sorted(values["n"] for values in found if values) == list(range(1, 41))


def test_a_space_that_is_too_large_for_a_list_is_drawn_without_repetitions() -> None:
    space = SearchSpace(dimensions=tuple(Dimension(name=f"x{n}", low=1, high=1000, whole=True) for n in range(4)))
    found = first(space, RANDOM, 500)
    assert len({tuple(values.items()) for values in found if values}) == 500


def test_any_worker_computes_the_same_trial_alone() -> None:
    values = values_by_number(CONTINUOUS, RANDOM, 7)
    assert values(90) == first(CONTINUOUS, RANDOM, 91, seed=7)[90]
    assert values_by_number(LOGARITHMIC, RANDOM, 7)(30) == first(LOGARITHMIC, RANDOM, 31, seed=7)[30]
