"""Fits the step-time model to measured throughputs: most probable values under priors; it measures nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from hpclaunch.core.records import record
from hpclaunch.guidelines.hardware import UNMEASURED, Compute
from hpclaunch.guidelines.reasoning import Number, Reason, combined, positive
from hpclaunch.guidelines.stragglers import ASSUMED
from hpclaunch.guidelines.throughput import Machine, Shape, Timing, Work, step_time

RESIDUAL = 0.015
"""Relative standard deviation of a measured throughput."""
BANDWIDTH_SPREAD = 0.7
"""Standard deviation of the logarithm of the all-reduce bandwidth around its default."""
UNKNOWN_SPREAD = math.log(10)
"""The same where the links are not known: the default may be ten times too high or too low."""
SLOWDOWN_SPREAD = 0.04
"""Standard deviation of the slow-down on several nodes; the slow-down is never negative."""
ONE_NODE, SEVERAL_NODES = 0.15, 0.08
"""Relative half-width (80 %) of predictions after measuring one node, and several (published tables to 32 nodes)."""
REACH = 3.0
"""The search ends this many standard deviations from the priors."""
COARSE, FINE = 0.25, 0.025
"""Steps of the search in standard deviations: coarse over the whole range, then fine around the best place."""
SOLVING = 4
"""How often the compute time is corrected, until the residuals have no common part."""
SOURCE = "maximum a posteriori; priors from published TensorFlow + Horovod tables"


@record
class Measured:
    """One measured point: its layout, samples/s of all ranks, and the relative standard deviation of its steps."""

    shape: Shape
    samples_per_s: float
    straggling: float | None = None

    @property
    def step_s(self) -> float:
        """Seconds of a step."""
        return self.shape.samples / self.samples_per_s


def default_timing(compute: Compute, machine: Machine) -> Timing:
    """Return the timing without measurements, from the defaults of GPU and links, which name their sources."""
    return Timing(
        fixed_s=0.0,
        per_sample_s=compute.sample_s.middle,
        inside=machine.links.inside_bytes_per_s,
        between=machine.links.between_bytes_per_s,
        uncertainty=UNMEASURED,
        origin="default",
        reasons=(compute.reason,),
    )


def calibrate(points: Sequence[Measured], work: Work, machine: Machine) -> Timing:
    """Return the most probable timing, given measured throughputs of one job on one node type.

    Fitted are the compute time, the all-reduce bandwidth (between nodes, or inside a node if nothing else was
    measured) and the slow-down on several nodes. Points with two batch sizes per rank separate a step's fixed time
    from its time per sample. The priors keep the bandwidth plausible where there are only two points.
    Raises ValueError without a point. Source: ``SOURCE``.
    """
    if not points:
        raise ValueError("calibrating needs at least one measured point")
    for point in points:
        positive(samples_per_s=point.samples_per_s)
    start = _start(points, machine)
    search = _Search(start=start, points=tuple(points), work=work, machine=machine)
    place = search.nearest((0.0, 0.0), reach=REACH, step=COARSE) if search.free else (0.0, 0.0)
    place = search.nearest(place, reach=COARSE, step=FINE) if search.free else place
    best = search.timing(place)
    residuals = search.residuals(best)
    worst = max(abs(residual) for residual in residuals)
    base = SEVERAL_NODES if search.several else ONE_NODE
    uncertainty = combined(base, worst) if worst > 2 * RESIDUAL else base
    reason = _reason(best, points, residuals)
    return replace(best, uncertainty=uncertainty, origin="fitted", reasons=(reason,))


@record
class _Search:
    """Search for the most probable place: (log bandwidth, slow-down), in standard deviations from their priors."""

    start: Timing
    points: tuple[Measured, ...]
    work: Work
    machine: Machine

    @property
    def several(self) -> bool:
        return any(point.shape.nodes > 1 for point in self.points)

    @property
    def free(self) -> bool:
        """Whether any point had more than one rank, and so says something about bandwidth."""
        return any(point.shape.group.ranks > 1 for point in self.points)

    def nearest(self, centre: tuple[float, float], *, reach: float, step: float) -> tuple[float, float]:
        """Return the most probable place of a grid around ``centre``."""
        offsets = [step * index for index in range(-round(reach / step), round(reach / step) + 1)]
        slowdowns = [centre[1] + offset for offset in offsets if centre[1] + offset >= 0] if self.several else [0.0]
        places = [(centre[0] + offset, slowdown) for offset in offsets for slowdown in slowdowns]
        return min(places, key=self.improbability)

    def improbability(self, place: tuple[float, float]) -> float:
        """Return minus twice the logarithm of the posterior density, without its constant."""
        misfit = sum((residual / RESIDUAL) ** 2 for residual in self.residuals(self.timing(place)))
        return misfit + place[0] ** 2 + place[1] ** 2

    def timing(self, place: tuple[float, float]) -> Timing:
        """Return the timing at a place, with the compute time that leaves the residuals no common part."""
        links = self.machine.links
        known = links.node_known if self.several else links.gpu_gbytes_per_s is not None
        faster = math.exp(place[0] * (BANDWIDTH_SPREAD if known else UNKNOWN_SPREAD))
        timing = replace(self.start, slowdown=place[1] * SLOWDOWN_SPREAD)
        if self.several:
            timing = replace(timing, between=timing.between * faster)
        else:
            timing = replace(timing, inside=timing.inside * faster)
        for _ in range(SOLVING):
            residuals = self.residuals(timing)
            longer = math.exp(sum(residuals) / len(residuals))
            timing = replace(timing, fixed_s=timing.fixed_s * longer, per_sample_s=timing.per_sample_s * longer)
        return timing

    def residuals(self, timing: Timing) -> list[float]:
        """Return the logarithm of measured over predicted step time of every point."""
        return [
            math.log(point.step_s / step_time(point.shape, self.work, self.machine, timing).total_s)
            for point in self.points
        ]


def _start(points: Sequence[Measured], machine: Machine) -> Timing:
    """Return the timing before the search: default bandwidths, and the compute time without any waiting."""
    fixed_s, per_sample_s = _fixed_and_per_sample(points)
    measured = [point.straggling for point in points if point.straggling is not None]
    return Timing(
        fixed_s=fixed_s,
        per_sample_s=per_sample_s,
        inside=machine.links.inside_bytes_per_s,
        between=machine.links.between_bytes_per_s,
        straggling=median(measured) if measured else ASSUMED,
        straggling_origin="profile" if measured else "default",
        uncertainty=ONE_NODE,
        origin="profile",
    )


def _fixed_and_per_sample(points: Sequence[Measured]) -> tuple[float, float]:
    """Return seconds of a micro-batch in the smallest layout: the fixed part, and the part of each sample.

    With only one batch size their sum alone is known.
    """
    fewest = min(point.shape.group.ranks for point in points)
    micro = {
        point.shape.per_rank: point.step_s / point.shape.accumulation
        for point in points
        if point.shape.group.ranks == fewest
    }
    small, large = min(micro), max(micro)
    if small == large:
        return 0.0, micro[small] / small
    per_sample_s = (micro[large] - micro[small]) / (large - small)
    fixed_s = micro[small] - per_sample_s * small
    if per_sample_s <= 0 or fixed_s <= 0:
        return 0.0, micro[large] / large
    return fixed_s, per_sample_s


def _reason(timing: Timing, points: Sequence[Measured], residuals: Sequence[float]) -> Reason:
    """Return the reason: the fitted values, the points, and the residuals."""
    worst = max(abs(residual) for residual in residuals)
    sizes = ", ".join(str(nodes) for nodes in sorted({point.shape.nodes for point in points}))
    strained = f"the measured points differ by up to {worst:.1%} from the fitted model: predictions are less certain"
    return Reason(
        rule="most probable compute time, all-reduce bandwidth and slow-down, given the measured points",
        numbers=(
            Number(name="fixed time of a micro-batch", value=timing.fixed_s, unit="s", origin="fitted"),
            Number(name="time per sample", value=timing.per_sample_s, unit="s", origin="fitted"),
            Number(name="bandwidth inside a node", value=timing.inside / 1e9, unit="GB/s", origin="fitted"),
            Number(name="bandwidth between nodes", value=timing.between / 1e9, unit="GB/s", origin="fitted"),
            Number(name="slow-down on several nodes", value=timing.slowdown, origin="fitted"),
            Number(name="worst residual", value=worst, origin="fitted"),
        ),
        verdict=f"fitted to {len(points)} points on {sizes} nodes",
        source=SOURCE,
        warning=strained if worst > 2 * RESIDUAL else "",
    )
