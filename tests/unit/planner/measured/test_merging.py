"""Measurements of a study beside those that were stored before."""

from __future__ import annotations

from hpclaunch.planner.measured.calibration_file import Calibration, Noise, Point
from hpclaunch.planner.measured.merging import merged


def point(nodes: int, rate: float, run: str, straggling: float | None = None) -> Point:
    return Point(nodes=nodes, ranks_per_node=1, per_rank=8, samples_per_s=rate, straggling=straggling, runs=(run,))


def test_repeats_of_a_layout_become_one_point_and_replace_what_was_stored() -> None:
    noise = Noise(value=2.0, low=1.0, high=3.0, steps=9)
    stored = Calibration(
        points=(point(1, 5.0, "old-1"), point(8, 50.0, "old-8")), noise_scale=noise, overhead_s=3.0, origin="a profile"
    )
    runs = (point(1, 10.0, "a", 0.1), point(1, 30.0, "b", 0.3), point(1, 20.0, "c"), point(2, 18.0, "d"))
    found = merged(stored, Calibration(points=runs, origin="a study"))
    assert [(one.nodes, one.samples_per_s, one.runs) for one in found.points] == [
        (1, 20.0, ("a", "b", "c")),
        (2, 18.0, ("d",)),
        (8, 50.0, ("old-8",)),
    ]
    assert found.points[0].straggling == 0.2
    assert (found.noise_scale, found.overhead_s, found.origin) == (noise, 3.0, "a study; and a profile")


def test_the_newest_origins_are_named_and_a_study_alone_is_its_own_origin() -> None:
    first = merged(None, Calibration(points=(point(1, 10.0, "a"),), origin="one", overhead_s=0.0))
    assert first.origin == "one" and first.overhead_s == 0.0
    second = merged(first, Calibration(points=(point(2, 10.0, "b"),), origin="two"))
    third = merged(second, Calibration(points=(point(4, 10.0, "c"),), origin="three"))
    assert third.origin == "three; and two" and len(third.points) == 3
    assert merged(third, Calibration(points=third.points, origin="four")).origin == "four"
