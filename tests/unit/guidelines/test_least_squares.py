"""Nonlinear least squares with priors: by hand, and against the closed form of linear problems."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.least_squares import least_squares, solve

NUMBERS = st.floats(-10, 10)


def test_least_squares_of_a_line_by_hand() -> None:
    # One unknown with a standard normal prior, one measurement of 2 with deviation 1: 1, with variance 1/2.
    found = least_squares(lambda place: [place[0] - 2.0], 1)
    assert found.place == (pytest.approx(1.0),)
    assert found.covariance == ((pytest.approx(0.5),),)


def test_a_linear_system_by_hand() -> None:
    assert solve([[4.0, 1.0], [1.0, 3.0]], [1.0, 2.0]) == [pytest.approx(1 / 11), pytest.approx(7 / 11)]


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=6))
def test_a_linear_problem_has_its_closed_form(rows: list[tuple[float, float, float]]) -> None:
    found = least_squares(lambda place: [a * place[0] + b * place[1] - c for a, b, c in rows], 2)
    normal = [
        [sum(a * a for a, _, _ in rows) + 1, sum(a * b for a, b, _ in rows)],
        [sum(a * b for a, b, _ in rows), sum(b * b for _, b, _ in rows) + 1],
    ]
    right = [sum(a * c for a, _, c in rows), sum(b * c for _, b, c in rows)]
    assert found.place == pytest.approx(solve(normal, right), rel=1e-3, abs=1e-4)
    for column in range(2):
        unit = [float(row == column) for row in range(2)]
        assert found.covariance[column] == pytest.approx(solve(normal, unit), rel=1e-2, abs=1e-6)


def test_a_curved_problem_is_solved_too() -> None:
    # exp(x) = 3, measured exactly: the prior at 0 pulls only a little.
    found = least_squares(lambda place: [1e3 * (2.718281828459045 ** place[0] - 3)], 1)
    assert found.place[0] == pytest.approx(1.0986, rel=1e-3)


def test_a_search_stays_in_the_valley_where_it_starts() -> None:
    def misfits(place: Sequence[float]) -> list[float]:
        return [1e3 * (place[0] ** 2 - 1)]

    right, left = (least_squares(misfits, 1, [start]) for start in (2.0, -0.5))
    assert (right.place[0], left.place[0]) == (pytest.approx(1, abs=1e-3), pytest.approx(-1, abs=1e-3))
    assert right.cost == pytest.approx(1, abs=1e-3)
