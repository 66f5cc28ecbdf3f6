"""Collects the results of a scaling study from its runs, and keeps their measurements for later plans."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpclaunch import runs
from hpclaunch.actions.following.states import refreshed
from hpclaunch.actions.system import System
from hpclaunch.config.catalog import Catalog
from hpclaunch.config.job import Job, load_job
from hpclaunch.core.errors import HpclaunchError, NotFound, Refused
from hpclaunch.core.files import write_text
from hpclaunch.core.folders import user_folder
from hpclaunch.core.records import record
from hpclaunch.guidelines.scaling import MeasuredPoint, ScaledPoint, StepSplit, median_split, scale
from hpclaunch.planner.measured.calibration_file import read_calibration, store
from hpclaunch.planner.measured.calibrations import place_of
from hpclaunch.planner.measured.measurement import (
    STEADY_PROFILE,
    WARM_UP,
    MeasuredRun,
    calibration_of,
    elapsed_s,
    measured,
    split_of,
)
from hpclaunch.planner.measured.merging import merged
from hpclaunch.planner.speed.scaling import Mode, warnings_of
from hpclaunch.runs import Run
from hpclaunch.runs.scaling_study import RESULTS, ScalingStudy, StudyPoint


@record
class StudyRow:
    """A layout of a study with what was measured of it; ``scaled`` is None without a measured run, or one process.

    ``open``: its runs that have not ended.
    """

    point: StudyPoint
    measured: MeasuredPoint | None
    scaled: ScaledPoint | None
    runs: tuple[str, ...]
    open: int

    @property
    def prediction_error(self) -> float | None:
        """How much higher the predicted samples/s are than the measured ones, relative to these."""
        if self.measured is None or self.point.predicted is None:
            return None
        return self.point.predicted[1] / self.measured.samples_per_s - 1

    def cost_of_epoch(self, samples: int) -> float | None:
        """Return the charge for one epoch of so many samples at the measured speed, as a part of a longer job."""
        if self.measured is None or self.point.per_hour is None:
            return None
        return self.point.per_hour * samples / self.measured.samples_per_s / 3600

    def to_json(self, samples: int) -> dict[str, Any]:
        """Return plain values (runs.scaling_study.table_rows documents them)."""
        found, scaled, point = self.measured, self.scaled, self.point
        return {
            "nodes": point.nodes,
            "ranks": point.ranks,
            "batch_per_rank": point.per_rank,
            "accumulation": point.accumulation,
            "global_batch": point.ranks * point.per_rank * point.accumulation,
            "runs": list(self.runs),
            "open": self.open,
            "rates": list(found.rates) if found else [],
            "samples_per_s": found.samples_per_s if found else None,
            "samples_per_s_low": min(found.rates) if found else None,
            "samples_per_s_high": max(found.rates) if found else None,
            "deviation": found.deviation if found else None,
            "step_s": found.step_s if found else None,
            "split": _split_values(found.split) if found and found.split else None,
            "speed_up": scaled.speed_up if scaled else None,
            "speed_up_low": scaled.low if scaled else None,
            "speed_up_high": scaled.high if scaled else None,
            "efficiency": scaled.efficiency if scaled else None,
            "verdict": scaled.verdict if scaled and point.ranks > 1 else "",
            "causes": [{"name": cause.name, "seconds": cause.seconds} for cause in scaled.causes] if scaled else [],
            "predicted": point.predicted[1] if point.predicted else None,
            "predicted_low": point.predicted[0] if point.predicted else None,
            "predicted_high": point.predicted[2] if point.predicted else None,
            "prediction_error": self.prediction_error,
            "cost_of_epoch": self.cost_of_epoch(samples),
            "unit": point.unit,
        }


def _split_values(split: StepSplit) -> dict[str, float]:
    return {
        "compute_s": split.compute_s,
        "communication_s": split.communication_s,
        "waiting_s": split.waiting_s,
        "input_s": split.input_s,
    }


@record
class StudyResults:
    """The results of a study so far. ``problems``: runs that gave no measurement, each with the reason.

    ``disturbed``: runs whose epochs differ so much in speed that no plan uses them.
    ``spent``: what its runs have cost, in ``unit``; None: not known. ``place``: of the calibration that later plans
    read; empty if nothing was stored. ``synthetic``: the samples were made up.
    """

    study: ScalingStudy
    rows: tuple[StudyRow, ...]
    warnings: tuple[str, ...] = ()
    disturbed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    spent: float | None = None
    unit: str = ""
    place: str = ""
    synthetic: bool = False

    @property
    def open(self) -> int:
        """The number of runs that have not ended."""
        return sum(row.open for row in self.rows)

    @property
    def is_complete(self) -> bool:
        """Whether every layout has a measured run, and none is open."""
        return not self.open and all(row.measured for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "study": self.study.to_json(),
            "rows": [row.to_json(self.study.samples) for row in self.rows],
            "warnings": list(self.warnings),
            "disturbed": list(self.disturbed),
            "problems": list(self.problems),
            "open": self.open,
            "complete": self.is_complete,
            "spent": self.spent,
            "unit": self.unit,
            "calibration": self.place,
            "synthetic": self.synthetic,
        }


def collect(system: System, study: ScalingStudy) -> StudyResults:
    """Return what the study's runs have measured so far, and keep it for later plans.

    The scheduler is asked once for all runs.
    """
    job = job_of(system, study)
    states = _states(study.points)
    found_rows, problems, counted = [], list[str](), list[MeasuredRun]()
    for point in study.points:
        found = [states[path] for path in point.run_dirs if path in states]
        usable, reasons = _measure_all(found, job)
        lost = [Path(path).name for path in point.run_dirs if path not in states]
        problems += [*reasons, *(f"{name}: its run directory is missing or cannot be read" for name in lost)]
        counted += usable
        found_rows.append(_row(point, usable, found))
    rows = _compare_with_one(found_rows)
    slower = warnings_of([row.scaled for row in rows if row.scaled], study.samples, _mode(study))
    disturbed = [one for one in counted if not one.is_steady(STEADY_PROFILE)]
    return StudyResults(
        study=study,
        rows=rows,
        warnings=(*slower, *map(_disturbance, disturbed)),
        disturbed=tuple(one.run.id for one in disturbed),
        problems=tuple(problems),
        spent=_charge_of_all(rows, states),
        unit=next((row.point.unit for row in rows if row.point.unit), ""),
        place=_keep(system, study, counted),
        synthetic=any(one.synthetic for one in counted),
    )


def _mode(study: ScalingStudy) -> Mode:
    return "weak" if study.mode == "weak" else "strong"


def job_of(system: System, study: ScalingStudy) -> Job:
    """Return the job of a study, as it is now. Raises HpclaunchError."""
    catalog = Catalog(project=Path(study.cwd), user=user_folder(system.environment), keeper=system.keeper)
    return load_job(catalog, study.target, Path(study.cwd))


def _states(points: Sequence[StudyPoint]) -> dict[str, Run]:
    """Return the runs of the points by their recorded path, with their present states."""
    found = {}
    for path in (path for point in points for path in point.run_dirs):
        with contextlib.suppress(NotFound):
            found[path] = runs.load(Path(path))
    return dict(zip(found, refreshed(list(found.values())), strict=True))


def _measure_all(found: Sequence[Run], job: Job) -> tuple[list[MeasuredRun], list[str]]:
    """Return the measurements of the runs that completed, and why others count for nothing."""
    usable, reasons = [], []
    for run in found:
        if run.state != "COMPLETED":
            if run.final:
                reasons.append(f"{run.label} is {run.state}{f' ({run.reason})' if run.reason else ''}")
            continue
        try:
            one = measured(run, job)
        except Refused as refusal:
            reasons.append(f"{run.label}: {refusal.faults[0].what}")
            continue
        if one.point is None:
            reasons.append(f"{run.label} reported the speed of no epoch after the first")
            continue
        usable.append(one)
    return usable, reasons


def _disturbance(one: MeasuredRun) -> str:
    slow, fast = min(one.rates[WARM_UP:]), max(one.rates[WARM_UP:])
    words = f"{one.run.label} was disturbed: its epochs ran at {slow:.4g} to {fast:.4g} samples/s"
    return f"{words}; it counts here, and no plan uses it"


def _row(point: StudyPoint, usable: Sequence[MeasuredRun], found: Sequence[Run]) -> StudyRow:
    rates = tuple(one.point.samples_per_s for one in usable if one.point)
    splits = [(one.point.samples_per_s, split) for one in usable if one.point and (split := split_of(one.run))]
    measured = None
    if rates:
        measured = MeasuredPoint(
            nodes=point.nodes,
            ranks=point.ranks,
            per_rank=point.per_rank,
            accumulation=point.accumulation,
            rates=rates,
            split=median_split(splits) if len(splits) == len(usable) else None,
        )
    return StudyRow(
        point=point,
        measured=measured,
        scaled=None,
        runs=tuple(run.id for run in found),
        open=sum(not run.final for run in found),
    )


def _compare_with_one(rows: Sequence[StudyRow]) -> tuple[StudyRow, ...]:
    """Return the rows with their speed-up over one process, if that was measured."""
    known = [row.measured for row in rows if row.measured is not None]
    if not any(point.ranks == 1 for point in known):
        return tuple(rows)
    scaled = {(one.point.nodes, one.point.ranks): one for one in scale(known)}
    return tuple(
        StudyRow(
            point=row.point,
            measured=row.measured,
            scaled=scaled.get((row.point.nodes, row.point.ranks)),
            runs=row.runs,
            open=row.open,
        )
        for row in rows
    )


def _charge_of_all(rows: Sequence[StudyRow], states: Mapping[str, Run]) -> float | None:
    """Return what all ended runs have cost; None if a price is not known."""
    charges = []
    for row in rows:
        for path in row.point.run_dirs:
            seconds = elapsed_s(states[path]) if path in states else None
            if seconds is None:
                continue
            charge = row.point.cost(seconds)
            if charge is None:
                return None
            charges.append(charge)
    return sum(charges) if charges else None


def _keep(system: System, study: ScalingStudy, counted: Sequence[MeasuredRun]) -> str:
    """Store the measurements of undisturbed runs for later plans, and return the file; empty if there are none."""
    steady = [one for one in counted if one.is_steady(STEADY_PROFILE)]
    if not steady:
        return ""
    place = place_of(system.environment, study.key)
    stored = None
    with contextlib.suppress(HpclaunchError):
        stored = read_calibration(place) if os.path.isfile(place) else None
    try:
        store(place, merged(stored, calibration_of(steady)))
    except OSError as error:
        system.warn(f"{place}: the measurements cannot be stored for later plans: {error.strerror}")
        return ""
    return str(place)


def write_results(results: StudyResults, texts: dict[str, str]) -> None:
    """Write the results as JSON, and other files by their names, into the folder of the study. Raises OSError."""
    folder = results.study.path
    write_text(folder / RESULTS, json.dumps(results.to_json(), indent=1) + "\n")
    for name, text in texts.items():
        write_text(folder / name, text)
