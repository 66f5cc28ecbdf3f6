"""Fits the step-time model to measured throughputs: most probable values under priors; it measures nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hpclaunch.core.records import record
from hpclaunch.guidelines.expected_timing import NOTHING, Prior, timing_before
from hpclaunch.guidelines.least_squares import Fit, least_squares
from hpclaunch.guidelines.reasoning import Number, Reason, positive
from hpclaunch.guidelines.throughput import Machine, Shape, Work, step_time
from hpclaunch.guidelines.timing import QUANTITIES, Timing

RESIDUAL = 0.015
"""Relative standard deviation of a measured throughput."""
STRAINED = 0.05
"""Residuals above this are reported: the points contradict each other, or come from a disturbed run."""
FAR, FAR_STRAIN = 3.0, 0.1
"""Deviations from its prior at which a fitted quantity is implausible, and the error that is then added to a step."""
HIDDEN = 0.8
"""The shorter of two times, relative to the longer one, where a search starts that leaves it hidden."""
UNUSUAL = 1.0
"""What the sum of both times costs beside the longer one, in squared deviations, for a job that launches ahead. In
sight of ResNet-50 on an H200: from 32 images alone, the sum makes 128 images 1.7 times too slow."""
NOTICEABLE = 0.01
"""The least probability of a rival, relative to the most probable timing."""
MEASURED_STRAGGLING = 0.2
"""Standard deviation of the logarithm of the spread of a rank's steps where it was measured."""
WORDS: dict[str, str] = {
    "per_sample_s": "time per sample",
    "fixed_s": "fixed time",
    "joining_s": "fixed time of several ranks",
    "inside": "bandwidth inside a node",
    "between": "bandwidth between nodes",
    "slowdown": "slow-down on several nodes",
    "straggling": "variation of a rank's steps",
    "reading": "speed of the input",
    "dependent_s": "time of a dependent all-reduce",
}
SOURCE = "maximum a posteriori; priors from published TensorFlow + Horovod tables"


@record
class Measured:
    """One measured point: its layout, samples/s of all ranks, and the relative standard deviation of its steps.

    ``shape`` counts replicas, each of ``ranks_per_replica`` ranks.
    """

    shape: Shape
    samples_per_s: float
    straggling: float | None = None
    ranks_per_replica: int = 1

    @property
    def step_s(self) -> float:
        """Seconds of a step."""
        return self.shape.samples / self.samples_per_s


def calibrate(points: Sequence[Measured], work: Work, machine: Machine, prior: Prior = NOTHING) -> Timing:
    """Return the most probable timing, given measured throughputs of one job on one node type.

    Every quantity of the timing has a prior, and moves as far from it as the points require. Two batch sizes per rank
    separate a step's fixed time from its time per sample; several nodes show bandwidth and slow-down. What the points
    leave open keeps the prior's uncertainty (``Timing.covariance``). If the prior launches ahead, the sum of both times
    is tried as well, since the host may have to wait for the GPU: the most probable timing is returned, with its
    rivals. Raises ValueError without a point.
    Source: ``SOURCE``; Gauss-Newton with the Laplace approximation of the posterior.
    """
    if not points:
        raise ValueError("calibrating needs at least one measured point")
    for point in points:
        positive(samples_per_s=point.samples_per_s)

    found, fit, rivals = _most_probable(_fits(points, work, machine, prior), prior)
    residuals = residuals_of(points, work, machine, found)
    worst = max(abs(residual) for residual in residuals)
    return replace(
        found,
        covariance=fit.covariance,
        most_ranks=max(point.shape.group.ranks for point in points),
        batches=tuple(sorted({point.shape.per_rank for point in points})),
        rivals=rivals,
        strain=max(worst if worst > STRAINED else 0.0, FAR_STRAIN if implausible(fit.place) else 0.0),
        origin="fitted",
        reasons=(_reason(found, points, residuals, implausible(fit.place), work.arranged is not None),),
    )


def _fits(points: Sequence[Measured], work: Work, machine: Machine, prior: Prior) -> Iterator[tuple[Timing, Fit]]:
    """Yield the fitted timings of every form that a micro-batch may have, and of every part that may bound it."""
    forms = [prior]
    if prior.launches_ahead:
        forms.append(replace(prior, launches_ahead=False))
    for form in forms:
        start = _start(points, machine, form)

        def misfits(place: Sequence[float], start: Timing = start) -> list[float]:
            residuals = residuals_of(points, work, machine, _timing_at(start, place))
            return [residual / RESIDUAL for residual in residuals]

        for place in _starting_places(points, start):
            fit = least_squares(misfits, len(QUANTITIES), place)
            yield _timing_at(start, fit.place), fit


def _most_probable(
    fits: Iterable[tuple[Timing, Fit]], prior: Prior
) -> tuple[Timing, Fit, tuple[tuple[float, Timing], ...]]:
    """Return the most probable timing with its fit, and its rivals with their probabilities."""
    distinct: dict[tuple[float, ...], tuple[float, Timing, Fit]] = {}
    for timing, fit in fits:
        cost = fit.cost if timing.launches_ahead == prior.launches_ahead else fit.cost + UNUSUAL
        # Searches from several places may end at the same one, which must count once.
        distinct.setdefault((timing.launches_ahead, *(round(value, 1) for value in fit.place)), (cost, timing, fit))
    (least, found, best), *others = sorted(distinct.values(), key=lambda one: one[0])
    weights = [math.exp((least - cost) / 2) for cost, _, _ in others]
    total = 1 + sum(weights)
    rivals = tuple(
        (weight / total, timing) for weight, (_, timing, _) in zip(weights, others, strict=True) if weight > NOTICEABLE
    )
    return found, best, rivals


def _starting_places(points: Sequence[Measured], start: Timing) -> list[list[float]]:
    """Return where searches start: at the prior; of the longer of two times, also where each of them is the longer one.

    What the longer time hides has no slope there, so that no search from the prior alone would find it.
    """
    places = [[0.0] * len(QUANTITIES)]
    if not start.launches_ahead:
        return places
    alone = sorted((point.shape.per_rank, point.step_s / point.shape.accumulation) for point in points)
    (smallest, least_s), (largest, most_s) = alone[0], alone[-1]
    sample_s = most_s / largest
    hidden_s = HIDDEN * min(sample_s * smallest, start.fixed_s)
    hidden_sample_s = min(HIDDEN * least_s / largest, start.per_sample_s)
    for fixed_s, per_sample_s in ((hidden_s, sample_s), (least_s, hidden_sample_s), (least_s, sample_s)):
        wanted = {"fixed_s": fixed_s, "per_sample_s": per_sample_s}
        places.append(
            [
                math.log(wanted[name] / getattr(start, name)) / deviation if name in wanted else 0.0
                for name, deviation in zip(QUANTITIES, start.deviations, strict=True)
            ]
        )
    return places


def implausible(place: Sequence[float]) -> tuple[str, ...]:
    """Return, in words, the quantities that are more than three deviations from their priors."""
    return tuple(WORDS[name] for name, steps in zip(QUANTITIES, place, strict=True) if abs(steps) > FAR)


def residuals_of(points: Sequence[Measured], work: Work, machine: Machine, timing: Timing) -> list[float]:
    """Return the logarithm of measured over predicted step time of every point."""
    return [math.log(point.step_s / step_time(point.shape, work, machine, timing).total_s) for point in points]


def _timing_at(start: Timing, place: Sequence[float]) -> Timing:
    moved = {
        name: getattr(start, name) * math.exp(steps * deviation)
        for name, steps, deviation in zip(QUANTITIES, place, start.deviations, strict=True)
    }
    return replace(start, **moved)


def _start(points: Sequence[Measured], machine: Machine, prior: Prior) -> Timing:
    """Return the prior's timing; if the time of a sample is not known, that of the point with the fewest ranks."""
    smallest = min(points, key=lambda point: (point.shape.group.ranks, -point.shape.per_rank))
    micro_s = smallest.step_s / smallest.shape.accumulation
    left_s = micro_s if prior.launches_ahead else max(micro_s - prior.fixed_s, 0.1 * micro_s)
    per_sample_s = left_s / smallest.shape.per_rank
    start = timing_before(prior, machine, prior.compute.sample_s.middle if prior.compute else per_sample_s)
    known = [point.straggling for point in points if point.straggling]
    if not known:
        return start
    from statistics import median  # takes 5 ms, which a submission without measurements does not need

    index = QUANTITIES.index("straggling")
    deviations = (*start.deviations[:index], MEASURED_STRAGGLING, *start.deviations[index + 1 :])
    return replace(start, straggling=median(known), straggling_origin="profile", deviations=deviations)


def _reason(
    timing: Timing, points: Sequence[Measured], residuals: Sequence[float], far: Sequence[str], shared: bool
) -> Reason:
    """Return the reason: the fitted values, the points, the residuals, and the quantities ``far`` from their priors.

    ``shared``: ranks share a model, or compute its activations again.
    """
    dependent = Number(
        name="time of a dependent all-reduce", value=timing.dependent_s * 1e6, unit="us", origin="fitted"
    )
    worst = max(abs(residual) for residual in residuals)
    sizes = ", ".join(str(nodes) for nodes in sorted({point.shape.nodes for point in points}))
    strained = ""
    if worst > STRAINED:
        strained = (
            f"the measured points differ by up to {worst:.1%} from the fitted model: predictions are less certain"
        )
    elif far:
        strained = f"the measured points need an implausible {' and '.join(far)}: repeat them, if a run was disturbed"
    return Reason(
        rule="most probable compute time, all-reduce bandwidth and slow-down, given the measured points",
        numbers=(
            Number(name="fixed time of a micro-batch", value=timing.fixed_s, unit="s", origin="fitted"),
            Number(name="time per sample", value=timing.per_sample_s, unit="s", origin="fitted"),
            Number(name="fixed time of several ranks", value=timing.joining_s, unit="s", origin="fitted"),
            Number(name="bandwidth inside a node", value=timing.inside / 1e9, unit="GB/s", origin="fitted"),
            Number(name="bandwidth between nodes", value=timing.between / 1e9, unit="GB/s", origin="fitted"),
            Number(name="slow-down on several nodes", value=timing.slowdown, origin="fitted"),
            *((dependent,) if shared else ()),
            Number(name="worst residual", value=worst, origin="fitted"),
        ),
        verdict=f"fitted to {len(points)} points on {sizes} nodes",
        source=SOURCE,
        warning=strained,
    )
