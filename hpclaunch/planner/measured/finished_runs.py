"""What finished runs tell of their job's speed, taken in by themselves when a plan looks; it asks no scheduler.

A submission adds the run's directory to a list for its key (site, node type, job, code, settings, layout of a node:
calibrations.py). A plan reads what is new in that list, and keeps what was measured beside the calibration of
``profile``: so it looks at few runs, however many there are.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from hpclaunch.config.job import Job
from hpclaunch.core.errors import Fault, HpclaunchError, NotFound, Refused
from hpclaunch.core.files import json_object, read_text, write_text
from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.planner.measured.calibration_file import Calibration, Noise, Point, evidence_of, read_calibration
from hpclaunch.planner.measured.calibrations import place_of, run_list_of
from hpclaunch.planner.measured.measurement import WARM_UP, MeasuredRun, measured
from hpclaunch.planner.question import Evidence
from hpclaunch.resolve.case import Case
from hpclaunch.runs import Run, load

LOOKED_AT = 64
"""Runs that one plan looks at, at most, the newest; older ones that nobody looked at are left out for good."""
KEPT, TOLD = 64, 8
"""Finished runs of a key whose figures are kept, and runs not taken in that are named, the newest."""
ALIKE, SHAPES = 5, 8
"""Of runs of one shape the newest so many count, and of shapes that ``profile`` did not measure so many."""
FEWEST_STEPS, FEWEST_EPOCHS = 30, 2
"""Steps and epochs after the first that a run must have; 30 steps tell the speed, two epochs whether it held."""
STEADY, MOSTLY = 0.10, 0.75
"""A run was not disturbed if this share of its epochs is within 10 % of their median; hpclaunch's own numbers."""


@record
class Finished:
    """What one finished run tells."""

    point: Point
    noise: Noise | None
    overhead_s: float | None


@record
class Taken:
    """What the runs of a key told so far. ``read``: bytes of the list that were looked at.

    ``open``: directories of runs that had not ended then; ``passed``: runs not taken in, and why.
    """

    read: int = 0
    open: tuple[str, ...] = ()
    finished: tuple[Finished, ...] = ()
    passed: tuple[tuple[str, str], ...] = ()


def evidence_for(case: Case) -> Evidence:
    """Return what ``profile`` and finished runs of this job measured; no evidence where there is none."""
    if not case.calibration_key:
        return Evidence()
    place = place_of(case.context.environment, case.calibration_key)
    profiled = None
    with contextlib.suppress(HpclaunchError):
        profiled = read_calibration(place) if place.is_file() else None
    return _combine(profiled, taken_in(place, case.job))


def taken_in(place: Path, job: Job) -> Taken:
    """Return what the runs of the calibration file ``place`` told, after a look at those that are new.

    What cannot be written is found again the next time; two plans at once find the same.
    """
    before = _read_taken(_taken_file(place))
    listed = read_text(run_list_of(place)).encode("utf-8")
    if not listed and not before.finished:
        return Taken()
    after = _look_at_runs(before, listed, job)
    if after != before:
        with contextlib.suppress(OSError):
            write_text(_taken_file(place), json.dumps(asdict(after)) + "\n", durable=False)
    return after


def _taken_file(place: Path) -> Path:
    return place.with_suffix(".finished")


def _look_at_runs(before: Taken, listed: bytes, job: Job) -> Taken:
    """Look at the runs that are new, or had not ended."""
    whole = listed[: listed.rfind(b"\n") + 1]  # a line that is being written is read the next time
    new = whole[before.read :].decode("utf-8", errors="replace").splitlines() if before.read <= len(whole) else []
    waiting = list(dict.fromkeys([*before.open, *new]))[-LOOKED_AT:]
    still_open: list[str] = []
    finished, passed = list(before.finished), list(before.passed)
    known = {name for one in finished for name in one.point.runs}
    for path in waiting:
        name = Path(path).name
        try:
            found = None if name in known else _finished_run(load(Path(path)), job)
        except NotFound:
            continue  # deleted
        except Refused as refusal:
            passed.append((name, refusal.faults[0].what))
            continue
        if found is not None:
            finished.append(found)
        elif name not in known:
            still_open.append(path)
    return Taken(
        read=len(whole), open=tuple(still_open), finished=tuple(finished[-KEPT:]), passed=tuple(passed[-TOLD:])
    )


def _finished_run(run: Run, job: Job) -> Finished | None:
    """Return what a run tells; None while it goes on. Raises Refused, with why, for a run that is not taken in."""
    starts, codes = run.attempts(), run.exit_codes()
    if len(starts) > 1:
        raise _refusal("was started more than once")
    done = run.state == "COMPLETED" or (not run.final and 0 in codes.values())
    if run.final and not done:
        raise _refusal(f"is {run.state}")
    if any(codes.values()):
        raise _refusal(f"ended with exit code {max(codes.values())}")
    if not done:
        return None
    try:
        found = measured(run, job)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        raise _refusal("its record is damaged") from None
    point = found.point
    if point is None or len(found.rates) - WARM_UP < FEWEST_EPOCHS or found.steps < FEWEST_STEPS:
        raise _refusal(f"has fewer than {FEWEST_EPOCHS} epochs and {FEWEST_STEPS} steps after the first epoch")
    if found.synthetic:
        raise _refusal("was on stand-in samples")
    if not _is_steady(found):
        raise _refusal("was disturbed: its epochs differ in speed")
    return Finished(point=point, noise=found.noise, overhead_s=found.overhead_s)


def _is_steady(found: MeasuredRun) -> bool:
    rates = found.rates[WARM_UP:]
    middle = median(rates)
    return sum(abs(rate / middle - 1) <= STEADY for rate in rates) >= MOSTLY * len(rates)


def _refusal(why: str) -> Refused:
    return Refused(Fault(what=why))


def _combine(profiled: Calibration | None, taken: Taken) -> Evidence:
    """Return the evidence of a profile and of finished runs that are not the profile's own."""
    own = {name for point in profiled.points for name in point.runs} if profiled else set()
    fresh = [one for one in taken.finished if not own.intersection(one.point.runs)]
    remarks = tuple(f"not taken in: {name} {why}" for name, why in taken.passed)
    if not fresh:
        return evidence_of(profiled, profiled.origin, remarks) if profiled else Evidence(sources=remarks)
    calibration = Calibration(
        points=_merge_points(profiled.points if profiled else (), [one.point for one in fresh]),
        noise_scale=_longest_noise(profiled, fresh),
        overhead_s=_typical_overhead(profiled, fresh),
    )
    return evidence_of(calibration, _origin(profiled, fresh), remarks)


def _longest_noise(profiled: Calibration | None, fresh: Sequence[Finished]) -> Noise | None:
    """Return the gradient noise that was measured over the most steps; the profile's, where several are equal."""
    noises = [one.noise for one in fresh if one.noise]
    if profiled and profiled.noise_scale:
        noises.insert(0, profiled.noise_scale)
    return max(noises, key=lambda noise: noise.steps, default=None)


def _typical_overhead(profiled: Calibration | None, fresh: Sequence[Finished]) -> float | None:
    """Return the seconds that a run takes beside its training: the median of the newest, else the profile's."""
    overheads = [one.overhead_s for one in fresh if one.overhead_s is not None][-ALIKE:]
    if overheads:
        return median(overheads)
    return profiled.overhead_s if profiled else None


def _origin(profiled: Calibration | None, fresh: Sequence[Finished]) -> str:
    nodes = sorted({one.point.nodes for one in fresh})
    words = f"{count(len(fresh), 'finished run')} on {' and '.join(map(str, nodes))} node{'s' * (nodes != [1])}"
    return f"{profiled.origin}; and {words}" if profiled and profiled.origin else words


def _merge_points(profiled: Sequence[Point], fresh: Sequence[Point]) -> tuple[Point, ...]:
    """One point for every shape: the median of the newest runs; profiled shapes first, then the newest others."""
    shapes: dict[tuple[int, ...], list[Point]] = {}
    for point in profiled:
        shapes.setdefault(_shape(point), []).append(point)
    kept = len(shapes) + SHAPES
    for point in reversed(fresh):  # the newest first
        same = shapes.setdefault(_shape(point), [])
        if len(same) < ALIKE:
            same.append(point)
    return tuple(_median_point(points) for points in list(shapes.values())[:kept])


def _shape(point: Point) -> tuple[int, ...]:
    return point.nodes, point.ranks_per_node, point.per_rank, point.accumulation


def _median_point(points: Sequence[Point]) -> Point:
    varying = [point.straggling for point in points if point.straggling is not None]
    return replace(
        points[0],
        samples_per_s=median(point.samples_per_s for point in points),
        straggling=median(varying) if varying else None,
        runs=tuple(name for point in points for name in point.runs),
    )


def _read_taken(place: Path) -> Taken:
    """Return what was kept; nothing where it is damaged: the list is then read anew."""
    found = json_object(read_text(place))
    try:
        return Taken(
            read=int(found["read"]),
            open=tuple(map(str, found["open"])),
            finished=tuple(map(_read_finished, found["finished"])),
            passed=tuple((str(name), str(why)) for name, why in found["passed"]),
        )
    except (KeyError, TypeError, ValueError):
        return Taken()


def _read_finished(found: dict[str, Any]) -> Finished:
    point, noise, overhead = found["point"], found["noise"], found["overhead_s"]
    return Finished(
        point=Point(**{**point, "runs": tuple(map(str, point["runs"]))}),
        noise=None if noise is None else Noise(**noise),
        overhead_s=None if overhead is None else float(overhead),
    )
