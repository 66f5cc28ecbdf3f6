"""Submits the runs of a scaling study, each once, and waits for them; a later command continues where one ended."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hpclaunch import runs
from hpclaunch.actions.following.states import refreshed
from hpclaunch.actions.measuring.scale import StudyDesign
from hpclaunch.actions.measuring.short_runs import wait_for_ends
from hpclaunch.actions.preparing.load import with_run_dir
from hpclaunch.actions.preparing.preflight import check
from hpclaunch.actions.preparing.submit import Prepared, prepare_case
from hpclaunch.actions.queueing.start import start
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Fault, HpclaunchError, Interrupted, NewerFormat, NotFound, Refused
from hpclaunch.core.locks import locked
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.units import count
from hpclaunch.runs import Run
from hpclaunch.runs.scaling_study import STUDY, UNSUBMITTED, ScalingStudy, StudyPoint, load_study, save_study


def submit_missing(
    system: System, design: StudyDesign, *, one_by_one: bool = False, again: bool = False
) -> ScalingStudy:
    """Submit the runs that the study lacks, and return its record. With ``one_by_one`` each waits for the one before.

    ``again``: a run that failed is replaced by a new one. A run is recorded before it is made, under the lock of the
    study's folder, so that no command submits it twice. Raises HpclaunchError; Interrupted while runs are waited for.
    """
    folder = design.study.path
    is_new = not os.path.lexists(folder / STUDY)
    if is_new:  # a refusal leaves no folder
        for prepared in design.prepared:
            check(prepared)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder) as is_held:
        if not is_held:
            what, hint = "another command submits runs of this study", f"its state: hpclaunch scale {folder}"
            raise Refused(Fault(where=str(folder), what=what, next=hint))
        study = _join_recorded(design.study)
        missing = list(_find_missing(study, design, again))
        for prepared, _, _ in [] if is_new else missing:
            check(prepared)
        separately = one_by_one or not all(_has_queue(prepared) for prepared, _, _ in missing)
        for prepared, shape, number in missing:
            study = _submit(system, study, prepared, (shape, number))
            if separately:
                _wait_for_one(system, study, shape, number)
    return study


def _join_recorded(study: ScalingStudy) -> ScalingStudy:
    """Return the recorded study with the layouts of this command that it lacks; the study itself, if it is new."""
    try:
        recorded = load_study(study.path)
    except NewerFormat:
        raise
    except NotFound:
        recorded = study
    for point in study.points:
        if recorded.point(point.shape) is None:
            recorded = recorded.with_point(point)
    save_study(recorded)
    return recorded


def _find_missing(
    study: ScalingStudy, design: StudyDesign, again: bool
) -> Iterator[tuple[Prepared, tuple[int, int], int]]:
    """Yield (the prepared run, its layout, the number of the repeat) of all that must be submitted, in rounds.

    Rounds spread the repeats of a layout over time, so that a disturbance does not meet all of them.
    """
    known = {run.path: run for run in refreshed(runs_of(study))}
    for number in range(design.repeats):
        for wanted, prepared in zip(design.study.points, _prepared_of(design), strict=True):
            point = study.point(wanted.shape)
            assert point is not None
            path = Path(point.run_dirs[number]) if number < len(point.run_dirs) else None
            run = known.get(path) if path else None
            if path and run is None and os.path.lexists(path / runs.RECORD):
                continue  # it cannot be read now, and may be queued
            failed = run is not None and run.final and run.state != "COMPLETED"
            if run is None or run.state in UNSUBMITTED or (again and failed):
                yield prepared, wanted.shape, number


def _prepared_of(design: StudyDesign) -> list[Prepared]:
    """Return the prepared runs in the order of the study's points."""
    by_shape = {(one.spec.layout.nodes, one.spec.layout.tasks_per_node): one for one in design.prepared}
    return [by_shape[point.shape] for point in design.study.points]


def _has_queue(prepared: Prepared) -> bool:
    return scheduler_row(prepared.spec.scheduler).has_queue


def _submit(
    system: System, study: ScalingStudy, prepared: Prepared, place: tuple[tuple[int, int], int]
) -> ScalingStudy:
    """Record the run, then submit it; the record stays if this process ends between the two."""
    shape, number = place
    own = prepare_case(system, with_run_dir(system, prepared.case, str(study.path.parent)))
    point = study.point(shape)
    assert point is not None
    folders = [*point.run_dirs]
    folders[number : number + 1] = [own.spec.run_dir]
    study = study.with_point(replace(point, run_dirs=tuple(folders)))
    save_study(study)
    run = start(system, own)
    system.tell(f"submitted {run.label} as job {run.job_id}: {words_of(point)}, repeat {number + 1}")
    return study


def words_of(point: StudyPoint) -> str:
    """Return a layout in words."""
    parts = f" x {point.accumulation} micro-batches" if point.accumulation > 1 else ""
    ranks = f"{count(point.nodes, 'node')} x {count(point.tasks_per_node, 'rank')}"
    return f"{'one process' if point.ranks == 1 else ranks}, {count(point.per_rank, 'sample')} per rank{parts}"


def runs_of(study: ScalingStudy) -> list[Run]:
    """Return the runs of a study that have a run directory, with their recorded states."""
    found = []
    for path in (path for point in study.points for path in point.run_dirs):
        with contextlib.suppress(NotFound):  # it was recorded and never made, or is deleted
            found.append(runs.load(Path(path)))
    return found


def _wait_for_one(system: System, study: ScalingStudy, shape: tuple[int, int], number: int) -> None:
    point = study.point(shape)
    assert point is not None
    wait_for(system, study, [runs.load(Path(point.run_dirs[number]))])


def wait_for(system: System, study: ScalingStudy, found: list[Run]) -> list[Run]:
    """Wait until runs have ended, and report every change. Raises Interrupted if the user interrupts it."""
    try:
        return wait_for_ends(system, found)
    except KeyboardInterrupt:
        what = f"interrupted; the submitted runs of {study.name} continue"
        next_step = f"the same command continues; or hpclaunch scale {shell_word(str(study.path))}"
        raise Interrupted(Fault(what=what, next=next_step)) from None
    except HpclaunchError:
        system.warn(f"the submitted runs of {study.name} continue")
        raise
