"""Measurements from finished runs, which a plan collects automatically; it queries no scheduler.

A submission adds the run's directory to a list for its key (site, node type, job, code, settings, layout of a node:
calibrations.py). A plan reads the new entries of that list, and keeps their measurements beside the calibration of
``profile``. So it reads few runs, however many there are.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from hpclaunch.config.fileformat import NotNegative, Place, value_of
from hpclaunch.config.job import Job
from hpclaunch.core.errors import Fault, HpclaunchError, NotFound, Refused
from hpclaunch.core.files import json_object, read_text, write_text
from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.planner.job.question import Evidence
from hpclaunch.planner.measured.all_reduce_file import measured_links
from hpclaunch.planner.measured.calibration_file import Calibration, Noise, Point, evidence_of, read_calibration
from hpclaunch.planner.measured.calibrations import (
    all_reduce_file_of,
    device_file_of,
    key_of_one_process,
    place_of,
    run_list_of,
)
from hpclaunch.planner.measured.device_file import measured_devices
from hpclaunch.planner.measured.measurement import STEADY, WARM_UP, measured
from hpclaunch.planner.measured.merging import median_point, shape_of
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.environment.framework import stated_framework
from hpclaunch.runs import Run, load

LOOKED_AT = 64
"""The most runs that one plan reads, the newest first; older unread ones are never used."""
MOST_KEPT, MOST_REPORTED = 64, 8
"""How many finished runs of a key are kept, and how many unused ones are named: the newest."""
ALIKE, SHAPES = 5, 8
"""How many of the newest runs of one shape count, and how many shapes besides those of ``profile``."""
FEWEST_STEPS, FEWEST_EPOCHS = 30, 2
"""The fewest steps and epochs after the first: 30 steps give the speed, two epochs show that it was steady."""


@record
class Finished:
    """The measurements of one finished run."""

    point: Point
    noise: Noise | None
    overhead_s: float | None
    save_s: float | None = None


@record
class Taken:
    """The measurements collected for a key so far. ``read``: bytes of the list that were read.

    ``open``: directories of runs that had not ended then; ``passed``: (run, why it is not used).
    """

    read: int = 0
    open: tuple[str, ...] = ()
    finished: tuple[Finished, ...] = ()
    passed: tuple[tuple[str, str], ...] = ()


def evidence_for(case: Case) -> Evidence:
    """Return what ``profile``, finished runs of this job and ``doctor`` measured; empty evidence if that is nothing."""
    if not case.calibration_key:
        return Evidence()
    found = with_links(_measured_at(case), case)
    alone = replace(case, calibration_key=key_of_one_process(case))
    return found if alone.calibration_key == case.calibration_key else replace(found, alone=_measured_at(alone).points)


def _measured_at(case: Case) -> Evidence:
    """Return what ``profile`` and finished runs measured for the key of the case."""
    place = place_of(case.context.environment, case.calibration_key)
    profiled = None
    with contextlib.suppress(HpclaunchError):
        profiled = read_calibration(place) if os.path.isfile(place) else None
    return _combine(profiled, taken_in(place, case.job))


def with_links(evidence: Evidence, case: Case) -> Evidence:
    """Return the evidence with the all-reduces and devices that ``doctor`` measured on the case's node type."""
    if not case.calibration_key:
        return evidence
    file = all_reduce_file_of(place_of(case.context.environment, case.calibration_key))
    links = measured_links(file, stated_framework(case)[1])
    return replace(evidence, links=links, devices=measured_devices(device_file_of(file)))


def taken_in(place: Path, job: Job) -> Taken:
    """Return the measurements for the calibration file ``place``, after reading the new runs.

    If they cannot be written, the next plan collects them again. Two plans at the same time collect the same.
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
    """Read the runs that are new or had not ended."""
    whole = listed[: listed.rfind(b"\n") + 1]  # an incomplete line is read the next time
    new = whole[before.read :].decode("utf-8", errors="replace").split("\n") if before.read <= len(whole) else []
    waiting = list(dict.fromkeys([*before.open, *filter(None, new)]))[-LOOKED_AT:]
    still_open: list[str] = []
    finished, passed = list(before.finished), list(before.passed)
    known = {name for run in finished for name in run.point.runs}
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
    newest, reported = tuple(finished[-MOST_KEPT:]), tuple(passed[-MOST_REPORTED:])
    return Taken(read=len(whole), open=tuple(still_open), finished=newest, passed=reported)


def _finished_run(run: Run, job: Job) -> Finished | None:
    """Return a run's measurements, or None while it is running. Raises Refused, with the reason, if it is not used."""
    starts, codes = run.attempts(), run.exit_codes()
    if len(starts) > 1:
        raise _refusal("was started more than once")
    done = run.state == "COMPLETED" or (not run.final and any(map(run.has_completed, starts)))
    if run.final and not done:
        raise _refusal(f"is {run.state}")
    if any(codes.values()):
        raise _refusal(f"ended with exit code {max(codes.values())}")
    if not done:
        return None
    found = measured(run, job)
    point = found.point
    if point is None or len(found.rates) - WARM_UP < FEWEST_EPOCHS or found.steps < FEWEST_STEPS:
        raise _refusal(f"has fewer than {FEWEST_EPOCHS} epochs and {FEWEST_STEPS} steps after the first epoch")
    if found.synthetic:
        raise _refusal("used synthetic samples")
    if not found.is_steady(STEADY):
        raise _refusal("was disturbed: its epochs differ in speed")
    return Finished(point=point, noise=found.noise, overhead_s=found.overhead_s, save_s=found.save_s)


def _refusal(why: str) -> Refused:
    return Refused(Fault(what=why))


def _combine(profiled: Calibration | None, taken: Taken) -> Evidence:
    """Return the evidence of a profile and of finished runs that are not the profile's own."""
    own = {name for point in profiled.points for name in point.runs} if profiled else set()
    fresh = [run for run in taken.finished if not own.intersection(run.point.runs)]
    remarks = tuple(f"not used: {name} {why}" for name, why in taken.passed)
    if not fresh:
        return evidence_of(profiled, profiled.origin, remarks) if profiled else Evidence(sources=remarks)
    calibration = Calibration(
        points=_merge_points(profiled.points if profiled else (), [run.point for run in fresh]),
        noise_scale=_longest_noise(profiled, fresh),
        overhead_s=_typical_overhead(profiled, fresh),
        save_s=_typical_saving(profiled, fresh),
    )
    return evidence_of(calibration, _origin(profiled, fresh), remarks)


def _longest_noise(profiled: Calibration | None, fresh: Sequence[Finished]) -> Noise | None:
    """Return the gradient noise that was measured over the most steps; the profile's, where several are equal."""
    noises = [run.noise for run in fresh if run.noise]
    if profiled and profiled.noise_scale:
        noises.insert(0, profiled.noise_scale)
    return max(noises, key=lambda noise: noise.steps, default=None)


def _typical_overhead(profiled: Calibration | None, fresh: Sequence[Finished]) -> float | None:
    """Return the seconds that a run takes beside its training: the median of the newest, else the profile's."""
    overheads = [run.overhead_s for run in fresh if run.overhead_s is not None][-ALIKE:]
    if overheads:
        return median(overheads)
    return profiled.overhead_s if profiled else None


def _typical_saving(profiled: Calibration | None, fresh: Sequence[Finished]) -> float | None:
    """Return the seconds of a checkpoint: the median of the newest runs, else the profile's."""
    found = [run.save_s for run in fresh if run.save_s is not None][-ALIKE:]
    if found:
        return median(found)
    return profiled.save_s if profiled else None


def _origin(profiled: Calibration | None, fresh: Sequence[Finished]) -> str:
    nodes = sorted({run.point.nodes for run in fresh})
    words = f"{count(len(fresh), 'finished run')} on {' and '.join(map(str, nodes))} node{'s' * (nodes != [1])}"
    return f"{profiled.origin}; and {words}" if profiled and profiled.origin else words


def _merge_points(profiled: Sequence[Point], fresh: Sequence[Point]) -> tuple[Point, ...]:
    """Return one point per shape: the median of the newest runs. Profiled shapes come first, then the newest others."""
    shapes: dict[tuple[int, ...], list[Point]] = {}
    for point in profiled:
        shapes.setdefault(shape_of(point), []).append(point)
    kept = len(shapes) + SHAPES
    for point in reversed(fresh):  # the newest first
        same = shapes.setdefault(shape_of(point), [])
        if len(same) < ALIKE:
            same.append(point)
    return tuple(median_point(points) for points in list(shapes.values())[:kept])


def _read_taken(place: Path) -> Taken:
    """Return the kept measurements; none if the file is damaged, so that the list is read again."""
    found, faults, where = json_object(read_text(place)), list[Fault](), Place(str(place), ())
    try:
        taken = Taken(
            read=value_of(int, found["read"], where, faults),
            open=tuple(map(str, found["open"])),
            finished=tuple(_read_finished(one, where, faults) for one in found["finished"]),
            passed=tuple((str(name), str(why)) for name, why in found["passed"]),
        )
    except (HpclaunchError, KeyError, TypeError, ValueError):
        return Taken()
    return Taken() if faults else taken


def _read_finished(found: dict[str, Any], where: Place, faults: list[Fault]) -> Finished:
    """Return the measurements of one run, with the checks of a calibration file."""
    return Finished(
        point=value_of(Point, found["point"], where, faults),
        noise=value_of(Noise | None, found["noise"], where, faults),
        overhead_s=value_of(NotNegative | None, found["overhead_s"], where, faults),
        save_s=value_of(NotNegative | None, found.get("save_s"), where, faults),
    )
