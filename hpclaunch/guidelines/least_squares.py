"""Nonlinear least squares with a standard normal prior on every unknown, and the covariance of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hpclaunch.core.records import record

STEP = 1e-4
"""The step of a numerical derivative, in standard deviations of the prior."""
ROUNDS = 60
ENOUGH = 1e-9
"""The search ends if a round improves the sum of squares by less than this share."""
LEAST_DAMPING, MOST_DAMPING = 1e-9, 1e9


@record
class Fit:
    """The most probable place, and the covariance around it (Laplace approximation).

    ``cost``: the sum of squared misfits and coordinates there.
    """

    place: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    cost: float


def least_squares(
    misfits: Callable[[Sequence[float]], Sequence[float]], unknowns: int, start: Sequence[float] = ()
) -> Fit:
    """Return the place with the least sum of squared ``misfits(place)`` and coordinates, searched from ``start``.

    ``start``: empty: the origin. It matters where ``misfits`` has several valleys, as the search stays in its own.
    Misfits are in standard deviations of the measurements, coordinates in those of their priors.
    Source: Levenberg and Marquardt; the covariance is (J^T J + 1)^-1.
    """
    place, damping = list(start) or [0.0] * unknowns, 1e-3
    found = list(misfits(place))
    cost = _squares(found) + _squares(place)
    for _ in range(ROUNDS):
        normal, slope = _normal_equations(misfits, place, found)
        damped = [
            [value * (1 + damping * (row == column)) for column, value in enumerate(line)]
            for row, line in enumerate(normal)
        ]
        trial = [value + change for value, change in zip(place, solve(damped, slope), strict=True)]
        fresh = list(misfits(trial))
        new = _squares(fresh) + _squares(trial)
        if new < cost:
            small = cost - new < ENOUGH * cost
            place, found, cost, damping = trial, fresh, new, max(LEAST_DAMPING, damping / 5)
            if small:
                break
        elif damping > MOST_DAMPING:
            break
        else:
            damping *= 5
    normal, _ = _normal_equations(misfits, place, found)
    columns = [solve(normal, [float(row == column) for row in range(unknowns)]) for column in range(unknowns)]
    return Fit(place=tuple(place), covariance=tuple(map(tuple, columns)), cost=cost)


def _squares(values: Sequence[float]) -> float:
    return sum(value * value for value in values)


def _normal_equations(
    misfits: Callable[[Sequence[float]], Sequence[float]], place: Sequence[float], found: Sequence[float]
) -> tuple[list[list[float]], list[float]]:
    """Return J^T J + 1, and the direction of descent."""
    jacobian = []
    for index in range(len(place)):
        nudged = [value + STEP * (index == other) for other, value in enumerate(place)]
        jacobian.append([(after - before) / STEP for after, before in zip(misfits(nudged), found, strict=True)])
    normal = [
        [sum(a * b for a, b in zip(one, other, strict=True)) + (row == column) for column, other in enumerate(jacobian)]
        for row, one in enumerate(jacobian)
    ]
    slope = [
        -sum(a * b for a, b in zip(line, found, strict=True)) - value
        for line, value in zip(jacobian, place, strict=True)
    ]
    return normal, slope


def solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Return the solution of a linear system with a positive definite matrix (Gaussian elimination)."""
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for pivot in range(size):
        for below in range(pivot + 1, size):
            share = rows[below][pivot] / rows[pivot][pivot]
            if share:
                rows[below] = [value - share * above for value, above in zip(rows[below], rows[pivot], strict=True)]
    solution = [0.0] * size
    for row in reversed(range(size)):
        known = sum(rows[row][column] * solution[column] for column in range(row + 1, size))
        solution[row] = (rows[row][size] - known) / rows[row][row]
    return solution
