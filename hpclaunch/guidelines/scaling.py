"""Speed-up, efficiency and the parts of a step of measured runs on several node counts; it measures nothing."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, stdev

from hpclaunch.core.json_values import finite
from hpclaunch.core.records import record
from hpclaunch.guidelines.distribution import HARDLY_FASTER, verdict_of
from hpclaunch.guidelines.reasoning import positive

COMMUNICATION, WAITING, INPUT = "communication", "waiting for the slowest rank", "waiting for input"
COMPUTING, OUTSIDE = "computing that more ranks do not shorten", "the time outside the measured steps"
"""What can cost a distributed run its speed-up, in words."""


@record
class StepSplit:
    """Mean seconds of a step: its computing, its exchange of gradients, the wait for the slowest rank, and for input.

    ``communication_s`` is what no computing hides, without the wait. The training library measures all of them
    (docs/training.md, the parts of a step).
    """

    compute_s: float
    communication_s: float
    waiting_s: float
    input_s: float

    @property
    def total_s(self) -> float:
        """Seconds of the whole step."""
        return self.compute_s + self.communication_s + self.waiting_s + self.input_s


def mean_split(splits: Sequence[StepSplit]) -> StepSplit | None:
    """Return the means of the parts, which add up to the mean step; None without any."""
    if not splits:
        return None
    names = ("compute_s", "communication_s", "waiting_s", "input_s")
    return StepSplit(**{name: sum(getattr(split, name) for split in splits) / len(splits) for name in names})


def median_split(measured: Sequence[tuple[float, StepSplit]]) -> StepSplit | None:
    """Return the split that belongs to the median of samples/s: that of the middle (rate, split), or of the middle two.

    So the parts are those of the step whose speed is reported, and not of a disturbed one. None without any.
    """
    ranked = [split for _, split in sorted(measured, key=lambda pair: pair[0])]
    middle = (len(ranked) - 1) // 2
    return mean_split(ranked[middle : len(ranked) - middle])


@record
class MeasuredPoint:
    """One layout and the samples/s of each of its runs; ``split``: the mean parts of their steps, None if not known.

    ``per_rank``: samples of a rank in a micro-batch; ``accumulation``: micro-batches in a step.
    """

    nodes: int
    ranks: int
    per_rank: int
    accumulation: int
    rates: tuple[float, ...]
    split: StepSplit | None = None

    def __post_init__(self) -> None:
        positive(nodes=self.nodes, ranks=self.ranks, per_rank=self.per_rank, runs=len(self.rates))

    @property
    def batch(self) -> int:
        """The global batch size in samples."""
        return self.ranks * self.per_rank * self.accumulation

    @property
    def samples_per_s(self) -> float:
        """The median of the runs."""
        return median(self.rates)

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the runs' samples/s relative to their median; None for a single run."""
        return stdev(self.rates) / self.samples_per_s if len(self.rates) > 1 else None

    @property
    def step_s(self) -> float:
        """Seconds of a step, from samples/s: everything in an epoch counts."""
        return self.batch / self.samples_per_s


@record
class Cause:
    """A part of a step, and the seconds by which it is longer than with an ideal speed-up."""

    name: str
    seconds: float


@record
class ScaledPoint:
    """A point beside one process: speed-up with its lowest and highest value over all pairs of runs, and efficiency.

    Efficiency is speed-up / ranks. ``ideal_s``: seconds of a step with the ideal speed-up. ``causes``: what makes the
    step longer, the largest first; empty if the parts of the steps are not known.
    """

    point: MeasuredPoint
    speed_up: float
    low: float
    high: float
    ideal_s: float
    causes: tuple[Cause, ...]

    @property
    def efficiency(self) -> float:
        """The share of the ideal speed-up."""
        return self.speed_up / self.point.ranks

    @property
    def verdict(self) -> str:
        """``slower`` or ``hardly faster`` than one process, else ``faster``; the limit is hpclaunch's own."""
        return verdict_of(self.speed_up)

    @property
    def is_worth_it(self) -> bool:
        """Whether the ranks are more than hardly faster than one process, or are one process."""
        return self.point.ranks == 1 or self.speed_up >= HARDLY_FASTER


def scale(points: Sequence[MeasuredPoint]) -> list[ScaledPoint]:
    """Return every point beside the one with one rank. Raises ValueError if there is none.

    Speed-up = samples/s / samples/s of one process. With the global batch kept this is the ratio of the times of a
    step (strong scaling); with the batch per rank kept, the scaled speed-up (Gustafson 1988).
    """
    alone = next((point for point in points if point.ranks == 1), None)
    if alone is None:
        raise ValueError("a speed-up needs a measured run of one process")
    return [_compare(point, alone) for point in points]


def _compare(point: MeasuredPoint, alone: MeasuredPoint) -> ScaledPoint:
    share = point.batch / alone.batch / point.ranks  # of the work of one process's step, that a rank has
    ideal = alone.step_s * share
    return ScaledPoint(
        point=point,
        speed_up=point.samples_per_s / alone.samples_per_s,
        low=min(point.rates) / max(alone.rates) if point is not alone else 1.0,
        high=max(point.rates) / min(alone.rates) if point is not alone else 1.0,
        ideal_s=ideal,
        causes=_causes(point, alone, share) if point is not alone else (),
    )


def _causes(point: MeasuredPoint, alone: MeasuredPoint, share: float) -> tuple[Cause, ...]:
    split, one = point.split, alone.split
    if split is None or one is None:
        return ()
    outside, outside_one = point.step_s - split.total_s, alone.step_s - one.total_s
    found = [
        Cause(name=COMMUNICATION, seconds=split.communication_s - share * one.communication_s),
        Cause(name=WAITING, seconds=split.waiting_s - share * one.waiting_s),
        Cause(name=INPUT, seconds=split.input_s - share * one.input_s),
        Cause(name=COMPUTING, seconds=split.compute_s - share * one.compute_s),
        Cause(name=OUTSIDE, seconds=outside - share * outside_one),
    ]
    return tuple(sorted(found, key=lambda cause: cause.seconds, reverse=True))


def split_of_event(event: dict[str, object]) -> StepSplit | None:
    """Return the parts of the steps of an ``epoch`` event of metrics.jsonl; None if it has none, or damaged ones.

    The wait for the slowest rank is the distance between its own step and the mean one. All ranks have steps of equal
    length, so ranks that are faster wait for so long in the exchange of gradients.
    """
    parts, own = event.get("step_seconds"), event.get("step_seconds_by_rank")
    if not isinstance(parts, dict):
        return None
    found = [_seconds(parts.get(name)) for name in ("compute", "communication", "input")]
    compute, communication, waits = found
    if compute is None or communication is None or waits is None:
        return None
    waiting = min(communication, _wait_for_slowest(own))
    return StepSplit(compute_s=compute, communication_s=communication - waiting, waiting_s=waiting, input_s=waits)


def _wait_for_slowest(own: object) -> float:
    """Return the mean wait for the slowest rank; 0 if the steps of each rank are not known."""
    steps = [_seconds(value) for value in own] if isinstance(own, list) else []
    known = [step for step in steps if step is not None]
    return max(known) - sum(known) / len(known) if known and len(known) == len(steps) else 0.0


def _seconds(value: object) -> float | None:
    found = finite(value)
    return found if found is not None and found >= 0 else None
