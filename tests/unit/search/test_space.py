"""Dimensions and spaces: how many values they have, those of a grid, and where a draw lands."""

from __future__ import annotations

import pytest

from hpclaunch.search.space import Dimension, SearchSpace, space_of_json

WHOLE = Dimension(name="n", low=1, high=9, whole=True, step=2)


def test_a_range_of_whole_numbers_has_its_steps() -> None:
    assert WHOLE.count == 5
    assert WHOLE.grid() == (1, 3, 5, 7, 9)


def test_steps_of_a_tenth_reach_the_end_in_spite_of_rounding() -> None:
    assert Dimension(name="m", low=0.1, high=0.7, step=0.1).grid() == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)


def test_a_grid_takes_points_from_a_range_without_steps_on_its_scale() -> None:
    assert Dimension(name="lr", low=1e-4, high=1e-1, log=True, points=4).grid() == (1e-4, 1e-3, 1e-2, 1e-1)
    assert Dimension(name="lr", low=0.0, high=1.0, points=3).grid() == (0.0, 0.5, 1.0)
    assert Dimension(name="lr", low=0.0, high=1.0).grid() == ()


def test_points_do_not_repeat_a_whole_number() -> None:
    assert Dimension(name="n", low=1, high=3, whole=True, points=10).grid() == (1, 2, 3)
    assert Dimension(name="n", low=1, high=100, whole=True, points=3).grid() == (1, 51, 100)


@pytest.mark.parametrize("place", [0.0, 0.25, 0.5, 0.999999])
def test_a_draw_stays_within_the_ends(place: float) -> None:
    for one in (
        WHOLE,
        Dimension(name="x", low=-2, high=3),
        Dimension(name="x", low=1e-5, high=10, log=True),
        Dimension(name="x", low=1, high=512, whole=True, log=True),
        Dimension(name="x", low=-1, high=1, mean=0.0, deviation=5.0),
    ):
        value = one.draw(place)
        assert one.low is not None and one.high is not None
        assert isinstance(value, int | float)
        assert one.low <= value <= one.high


def test_a_normal_distribution_has_its_mean_in_the_middle() -> None:
    assert Dimension(name="x", mean=3.0, deviation=2.0).draw(0.5) == 3.0
    assert Dimension(name="x", mean=0.0, deviation=2.0, log=True).draw(0.5) == 1.0
    assert Dimension(name="x", mean=0.0, deviation=1.0, low=0.0).draw(0.0) == 0.0


def test_a_space_counts_its_combinations_and_numbers_them_with_the_last_one_fastest() -> None:
    space = SearchSpace(dimensions=(Dimension(name="a", values=("x", "y")), WHOLE))
    assert space.count == 10
    assert space.at(0) == {"a": "x", "n": 1}
    assert space.at(6) == {"a": "y", "n": 3}
    assert SearchSpace(dimensions=(Dimension(name="f", low=0, high=1),)).count is None


def test_a_space_survives_its_record() -> None:
    space = SearchSpace(
        dimensions=(WHOLE, Dimension(name="b", values=(True, 2, "c")), Dimension(name="f", low=0, high=1))
    )
    assert space_of_json(space.to_json()) == space
    with pytest.raises(ValueError, match="list of dimensions"):
        space_of_json({})
