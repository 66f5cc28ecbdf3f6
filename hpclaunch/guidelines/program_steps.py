"""The step of a program of which nothing is known but measured points: fixed + per sample + communication.

No figure of a model or of a network enters. What the points do not tell apart stays a range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpclaunch.core.records import record
from hpclaunch.guidelines.intervals import Interval

NOISE = 0.05
"""The least relative half-width of a measured step: two runs of one layout differ by that much (hpclaunch's own)."""
GRID = 200
"""The fixed part is tried at so many equally spaced values."""
DOUBLINGS = 8
"""If no parts fit all points, the noise is doubled up to so often."""
CLEARLY_SHORTER = 0.85
"""A step on more nodes that takes at most so much of one on fewer divides a batch over all ranks (hpclaunch's own)."""
SOURCE = "fixed + per sample + communication; all parts that fit the measured points (hpclaunch's own)"


@record
class StepPoint:
    """A measured layout: nodes with equally many ranks, samples of a rank and step, and seconds of a step.

    ``low`` and ``high`` are the ends of its range in seconds.
    """

    nodes: int
    per_rank: float
    low: float
    high: float

    def widened(self, noise: float) -> StepPoint:
        """Return the point with a range that reaches at least ``noise`` to each side of its middle."""
        middle = (self.low * self.high) ** 0.5
        low, high = min(self.low, middle / (1 + noise)), max(self.high, middle * (1 + noise))
        return StepPoint(nodes=self.nodes, per_rank=self.per_rank, low=low, high=high)


@record
class StepParts:
    """One division of a step that fits the points, in seconds: ``fixed``, for each sample, and communication.

    ``communication``: node count -> the least and the most seconds of it, for the measured counts.
    """

    fixed: float
    per_sample: float
    communication: tuple[tuple[int, float, float], ...]

    def computing(self, per_rank: float) -> float:
        """Return the seconds of a step on the fewest nodes."""
        return self.fixed + self.per_sample * per_rank


@record
class ProgramSteps:
    """All divisions that fit the points. ``noise``: the relative half-width that the points needed to fit.

    ``fewest``: the measured node count with no communication among nodes, or whose communication counts as fixed.
    """

    parts: tuple[StepParts, ...]
    fewest: int
    noise: float

    @property
    def has_communication(self) -> bool:
        """Whether a point on more nodes than the fewest was measured."""
        return bool(self.parts[0].communication)

    def step(self, nodes: int, per_rank: float) -> Interval | None:
        """Return the seconds of a step; None for fewer nodes than were measured, and for more if only one count was.

        What fits several points may be narrower than their noise; a further run has this noise as well.
        """
        if nodes < self.fewest or (nodes > self.fewest and not self.has_communication):
            return None
        ends = [_ends(part, nodes, per_rank, self.fewest) for part in self.parts]
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        middle = (low * high) ** 0.5
        low, high = min(low, middle / (1 + self.noise)), max(high, middle * (1 + self.noise))
        return Interval(low=low, middle=middle, high=high, origin="profile")

    def part(self, name: str) -> tuple[float, float]:
        """Return the least and the most seconds of the ``fixed`` or the ``per_sample`` part."""
        values = [getattr(part, name) for part in self.parts]
        return min(values), max(values)

    def communication(self, nodes: int) -> tuple[float, float]:
        """Return the least and the most seconds of communication on so many nodes."""
        ends = [_communication(part, nodes, self.fewest) for part in self.parts]
        return min(end[0] for end in ends), max(end[1] for end in ends)


def _ends(part: StepParts, nodes: int, per_rank: float, fewest: int) -> tuple[float, float]:
    low, high = _communication(part, nodes, fewest)
    computing = part.computing(per_rank)
    return computing + low, computing + high


def _communication(part: StepParts, nodes: int, fewest: int) -> tuple[float, float]:
    """Return the range of communication on so many nodes; ``nodes`` above the fewest need a point on several.

    It does not fall with more nodes, and grows at most as their number less that of the fewest: an exchange with each
    further node in turn. A ring needs less.
    """
    if nodes == fewest:
        return 0.0, 0.0
    low, high = 0.0, float("inf")
    for count, least, most in part.communication:
        growth = (nodes - fewest) / (count - fewest)
        low = max(low, least * min(1.0, growth))
        high = min(high, most * max(1.0, growth))
    return low, max(low, high)


def divides_a_batch(few: tuple[float, float], more: tuple[float, float]) -> bool:
    """Whether a step, as a range of seconds, gets clearly shorter with more nodes at the same batch of a rank."""
    is_apart = more[1] < few[0]
    return is_apart and (more[0] * more[1]) ** 0.5 < CLEARLY_SHORTER * (few[0] * few[1]) ** 0.5


def fitted(points: Sequence[StepPoint]) -> ProgramSteps:
    """Return all divisions of a step that fit the points within their ranges.

    If none does, the noise is doubled until one does, and once more: where the points only just agree, what fits all of
    them is narrow, and says little. Raises ValueError without points, or if none fits at all.
    """
    if not points:
        raise ValueError("a step needs a measured point")
    fewest, noise = min(point.nodes for point in points), NOISE
    for _ in range(DOUBLINGS):
        parts = _parts_within(points, noise, fewest)
        if parts and noise > NOISE:
            noise *= 2
            parts = _parts_within(points, noise, fewest)
        if parts:
            return ProgramSteps(parts=parts, fewest=fewest, noise=noise)
        noise *= 2
    raise ValueError("the points contradict each other")


def _parts_within(points: Sequence[StepPoint], noise: float, fewest: int) -> tuple[StepParts, ...]:
    return tuple(_yield_parts([point.widened(noise) for point in points], fewest))


def _yield_parts(points: Sequence[StepPoint], fewest: int) -> Iterator[StepParts]:
    """Yield the divisions at the ends and in the middle of what fits, for each value of the fixed part."""
    most = min(point.high for point in points)
    for number in range(GRID + 1):
        fixed = most * number / GRID
        low, high = _bound_of_a_sample(points, fixed, fewest)
        if low > high:
            continue
        for share in (0.0, 0.5, 1.0):
            each = low + share * (high - low)
            found = _communications(points, fixed, each, fewest)
            yield StepParts(fixed=fixed, per_sample=each, communication=found)


def _bound_of_a_sample(points: Sequence[StepPoint], fixed: float, fewest: int) -> tuple[float, float]:
    """Return the least and the most seconds of a sample that fit all points at this fixed part; crossed if none fits.

    Each condition is a line in the seconds of a sample, so that its ends are exact.
    """
    low, high = 0.0, float("inf")
    for point in points:
        high = min(high, (point.high - fixed) / point.per_rank)
        if point.nodes == fewest:
            low = max(low, (point.low - fixed) / point.per_rank)
    for one in points:
        for other in points:
            if one is other or one.nodes > other.nodes or one.nodes == fewest:
                continue
            # What the fewer nodes exchange at least is not more than what the more nodes exchange at most.
            least, most = _half_line(one.per_rank - other.per_rank, one.low - other.high)
            low, high = max(low, least), min(high, most)
            # The more nodes exchange at most so many times as much as the fewer.
            growth = (other.nodes - fewest) / (one.nodes - fewest)
            rest = other.low - fixed - growth * (one.high - fixed)
            least, most = _half_line(other.per_rank - growth * one.per_rank, rest)
            low, high = max(low, least), min(high, most)
    return low, high


def _half_line(slope: float, least: float) -> tuple[float, float]:
    """Return the range of x with slope * x >= least."""
    if slope > 0:
        return least / slope, float("inf")
    if slope < 0:
        return float("-inf"), least / slope
    return (float("inf"), float("-inf")) if least > 0 else (float("-inf"), float("inf"))


def _communications(
    points: Sequence[StepPoint], fixed: float, each: float, fewest: int
) -> tuple[tuple[int, float, float], ...]:
    """Return (nodes, least, most seconds of communication) of the measured node counts."""
    found: dict[int, tuple[float, float]] = {}
    for point in points:
        if point.nodes == fewest:
            continue
        computing = fixed + each * point.per_rank
        low, high = found.get(point.nodes, (0.0, float("inf")))
        found[point.nodes] = max(low, point.low - computing), min(high, point.high - computing)
    return tuple((nodes, low, max(low, high)) for nodes, (low, high) in sorted(found.items()))
