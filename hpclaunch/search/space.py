"""The space of a search: its dimensions, how many combinations they have, and the values at a place of each; pure."""

from __future__ import annotations

import math
from dataclasses import asdict
from statistics import NormalDist
from typing import Any

from hpclaunch.core.records import record

Value = bool | int | float | str
Values = dict[str, Value]
"""The values of one trial, by parameter."""


@record
class Dimension:
    """One parameter of a search: listed values, a range, or a normal distribution.

    - ``values``: the listed values; empty for a range from ``low`` to ``high``, both included.
    - ``whole``: whole numbers. ``step``: the distance of two values; 0: any number, or 1 for whole numbers.
    - ``log``: the logarithm is spread evenly; of a normal distribution, it is the logarithm that is normal.
    - ``mean``, ``deviation``: of a normal distribution, which ``low`` and ``high`` cut off if they are given.
    - ``points``: how many values a grid has at most; 0: all of them.
    """

    name: str
    values: tuple[Value, ...] = ()
    low: float | None = None
    high: float | None = None
    whole: bool = False
    step: float = 0.0
    log: bool = False
    mean: float | None = None
    deviation: float | None = None
    points: int = 0

    @property
    def count(self) -> int | None:
        """The number of distinct values; None if there are infinitely many."""
        if self.values:
            return len(self.values)
        if self.low is None or self.high is None:
            return None
        if self.whole or self.step:
            # A step such as 0.1 has no exact binary form: the last value counts if it is above high by rounding alone.
            return math.floor((self.high - self.low) / (self.step or 1) + 1e-9) + 1
        return 1 if self.low == self.high else None

    @property
    def is_even(self) -> bool:
        """Whether a random draw gives each of its values with the same chance."""
        return bool(self.values) or not (self.log or self.deviation is not None)

    def at(self, number: int) -> Value:
        """Return the value with that number, of a dimension with a count; from the lowest."""
        if self.values:
            return self.values[number]
        assert self.low is not None
        value = self.low + number * (self.step or 1)
        return round(value) if self.whole else float(f"{value:.12g}")

    def grid(self) -> tuple[Value, ...]:
        """Return the values of a grid, from the lowest; none of infinitely many without ``points``."""
        count = self.count
        if count is not None and not 0 < self.points < count:
            return tuple(self.at(number) for number in range(count))
        if not self.points:
            return ()
        places = [(number + 0.5) / self.points for number in range(self.points)]
        if self.low is not None and self.high is not None:
            places = [number / max(1, self.points - 1) for number in range(self.points)]
            return tuple(dict.fromkeys(self._value_at(place) for place in places))
        return tuple(dict.fromkeys(self.draw(place) for place in places))

    def draw(self, place: float) -> Value:
        """Return the value at a place from 0 to 1 (1 excluded) of the distribution: its quantile.

        Whole numbers with ``log`` and steps are spread as Optuna spreads them (IntDistribution, FloatDistribution).
        """
        count = self.count
        if count is not None and self.is_even:
            return self.at(min(count - 1, int(place * count)))
        if self.deviation is not None:
            return self._normal(place)
        assert self.low is not None and self.high is not None
        if self.log and self.whole:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return int(min(self.high, max(self.low, round(math.exp(low + place * (high - low))))))
        return self._value_at(place)

    def _value_at(self, place: float) -> Value:
        """Return the value at a place between low and high, on the dimension's scale."""
        assert self.low is not None and self.high is not None
        if self.log:
            value = math.exp(math.log(self.low) + place * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + place * (self.high - self.low)
        value = min(self.high, max(self.low, value))
        if self.whole or self.step:
            step = self.step or 1
            value = min(self.high, self.low + step * round((value - self.low) / step))
        return round(value) if self.whole else float(f"{value:.12g}")

    def _normal(self, place: float) -> Value:
        assert self.mean is not None and self.deviation is not None
        distribution = NormalDist(self.mean, self.deviation)
        first, last = self._limit(self.low, distribution, 0.0), self._limit(self.high, distribution, 1.0)
        quantile = first + place * (last - first)
        value = distribution.inv_cdf(min(1 - 1e-12, max(1e-12, quantile)))
        value = math.exp(value) if self.log else value
        value = value if self.low is None else max(self.low, value)
        value = value if self.high is None else min(self.high, value)
        return round(value) if self.whole else float(f"{value:.12g}")

    def _limit(self, bound: float | None, distribution: NormalDist, default: float) -> float:
        if bound is None:
            return default
        if self.log:
            return distribution.cdf(math.log(bound)) if bound > 0 else 0.0
        return distribution.cdf(bound)


@record
class SearchSpace:
    """The dimensions of a search, in the order in which they were written; the last changes fastest in a grid."""

    dimensions: tuple[Dimension, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(one.name for one in self.dimensions)

    @property
    def count(self) -> int | None:
        """The number of distinct combinations; None if there are infinitely many."""
        counts = [one.count for one in self.dimensions]
        return None if None in counts else math.prod(number for number in counts if number is not None)

    def at(self, number: int) -> Values:
        """Return the combination with that number, of a space with a count."""
        places = _places(number, [one.count or 1 for one in self.dimensions])
        return {one.name: one.at(place) for one, place in zip(self.dimensions, places, strict=True)}

    def to_json(self) -> list[dict[str, Any]]:
        """Return plain values, without those that are defaults."""
        bare = asdict(Dimension(name=""))
        return [
            {name: value for name, value in asdict(one).items() if name == "name" or value != bare[name]}
            for one in self.dimensions
        ]


def space_of_json(rows: Any) -> SearchSpace:
    """Return the space that ``to_json`` wrote. Raises ValueError or TypeError for anything else."""
    if not isinstance(rows, list) or not rows:
        raise ValueError("a space is a list of dimensions")
    return SearchSpace(dimensions=tuple(Dimension(**{**row, "values": tuple(row.get("values", ()))}) for row in rows))


def combination(axes: list[tuple[Value, ...]], number: int) -> tuple[Value, ...]:
    """Return a combination of a grid by its number; the last axis changes fastest."""
    return tuple(axis[place] for axis, place in zip(axes, _places(number, list(map(len, axes))), strict=True))


def _places(number: int, sizes: list[int]) -> list[int]:
    places = []
    for size in reversed(sizes):
        number, place = divmod(number, size)
        places.append(place)
    return places[::-1]
