"""Our grid and random searches beside Optuna's own samplers: the same points, and the same distributions."""

from __future__ import annotations

import itertools
import math
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hpclaunch.search.sampling import GRID, RANDOM, values_by_number
from hpclaunch.search.space import Dimension, SearchSpace

if find_spec("optuna") is None:
    pytest.skip("group search: needs Optuna (the extra 'search')", allow_module_level=True)

import optuna

from hpclaunch.search.adaptive import distribution_of

optuna.logging.set_verbosity(optuna.logging.WARNING)

listed = st.lists(st.integers(-50, 50) | st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5, unique_by=str)
names = st.sampled_from(["x", "y", "z"])


@st.composite
def whole(draw: st.DrawFn, name: str = "x") -> Dimension:
    low = draw(st.integers(1, 40))
    log = draw(st.booleans())
    step = 0 if log else draw(st.integers(1, 5))
    return Dimension(name=name, low=low, high=low + draw(st.integers(0, 30)), whole=True, log=log, step=step)


@st.composite
def broken(draw: st.DrawFn, name: str = "x") -> Dimension:
    low = draw(st.floats(1e-6, 10))
    log = draw(st.booleans())
    high = low * draw(st.floats(1.5, 1e4)) if log else low + draw(st.floats(0.5, 100))
    return Dimension(name=name, low=low, high=high, log=log)


@given(st.lists(listed, min_size=1, max_size=3))
def test_a_grid_is_that_of_optunas_grid_sampler(axes: list[list[Any]]) -> None:
    space = SearchSpace(dimensions=tuple(Dimension(name=f"p{n}", values=tuple(one)) for n, one in enumerate(axes)))
    sampler = optuna.samplers.GridSampler({f"p{n}": one for n, one in enumerate(axes)})
    theirs = {tuple(map(str, point)) for point in sampler._all_grids}
    values = values_by_number(space, GRID, 0)
    ours = [values(number) for number in range(len(theirs) + 1)]
    assert ours[-1] is None
    assert {tuple(map(str, one.values())) for one in ours if one} == theirs


@given(whole())
def test_a_whole_range_has_the_values_that_optuna_allows(one: Dimension) -> None:
    allowed = distribution_of(optuna, one)
    assert all(allowed._contains(allowed.to_internal_repr(value)) for value in one.grid())
    steps = range(int(one.low or 0), int(one.high or 0) + 1, int(one.step) or 1)
    assert list(one.grid()) == list(steps)


@given(whole() | broken(), st.integers(0, 2**31))
def test_a_draw_is_a_value_that_optuna_allows(one: Dimension, seed: int) -> None:
    allowed = distribution_of(optuna, one)
    values = values_by_number(SearchSpace(dimensions=(one,)), RANDOM, seed)
    for number in range(20):
        found = values(number)
        if found is not None:
            assert allowed._contains(allowed.to_internal_repr(found["x"]))


@settings(max_examples=15)
@given(whole() | broken(), st.integers(0, 1000))
def test_a_random_search_is_distributed_as_optunas_random_sampler(one: Dimension, seed: int) -> None:
    """The largest distance of the two distributions (Kolmogorov and Smirnov), with samples of fixed seeds."""
    count = 400
    assume(one.low != one.high)
    sampler = optuna.samplers.RandomSampler(seed=seed)
    study = optuna.create_study(sampler=sampler)
    allowed = distribution_of(optuna, one)
    theirs = sorted(study.ask({"x": allowed}).params["x"] for _ in range(count))
    places = [(number * 0.6180339887 + seed / 1000) % 1 for number in range(count)]  # evenly spread: no chance of ours
    ours = sorted(float(one.draw(place)) for place in places)
    points = sorted({*theirs, *ours})
    distance = max(abs(_share(theirs, point) - _share(ours, point)) for point in points)
    # Of one sample with 400 numbers, a larger distance has a chance of 1 in 10 million (Massart: 2 exp(-2 n d^2)).
    assert distance < math.sqrt(math.log(2e7) / (2 * count)) + 1 / count


def _share(numbers: list[Any], point: float) -> float:
    return sum(1 for _ in itertools.takewhile(lambda number: number <= point, numbers)) / len(numbers)
