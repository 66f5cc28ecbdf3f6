"""Merges measurements of one layout, and those of a study with a stored calibration; it reads and writes no file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from hpclaunch.planner.measured.calibration_file import Calibration, Point


def shape_of(point: Point) -> tuple[int, ...]:
    """Return what two points of one layout and batch have in common."""
    return point.nodes, point.ranks_per_node, point.per_rank, point.accumulation


def median_point(points: Sequence[Point]) -> Point:
    """Return the point of one layout that was measured several times, with the names of all its runs."""
    varying = [point.straggling for point in points if point.straggling is not None]
    return replace(
        points[0],
        samples_per_s=median(point.samples_per_s for point in points),
        straggling=median(varying) if varying else None,
        runs=tuple(name for point in points for name in point.runs),
    )


def merged(stored: Calibration | None, new: Calibration) -> Calibration:
    """Return the new measurements, one point for each layout, and those of other layouts that were stored before.

    Noise scale and overhead are the new ones, as far as they were measured.
    """
    shapes: dict[tuple[int, ...], list[Point]] = {}
    for point in new.points:
        shapes.setdefault(shape_of(point), []).append(point)
    points = tuple(map(median_point, shapes.values()))
    if stored is None:
        return replace(new, points=points)
    others = tuple(point for point in stored.points if shape_of(point) not in shapes)
    earlier = stored.origin.partition("; and ")[0]  # of several studies, the newest two are named
    return Calibration(
        points=(*points, *others),
        noise_scale=new.noise_scale or stored.noise_scale,
        overhead_s=stored.overhead_s if new.overhead_s is None else new.overhead_s,
        origin=f"{new.origin}; and {earlier}" if others and earlier and earlier != new.origin else new.origin,
    )
