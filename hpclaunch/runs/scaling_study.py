"""The record of a scaling study, ``study.json`` in its folder: its layouts and their runs; it submits nothing.

The folder lies beside the run directories of its runs, which are runs like all others. docs/scaling.md has the format.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, field, fields, replace
from pathlib import Path
from typing import Any

from hpclaunch.core import inside
from hpclaunch.core.errors import Fault, NewerFormat, NotFound, Refused
from hpclaunch.core.files import json_object, write_text
from hpclaunch.core.records import record

STUDY, RESULTS = "study.json", "results.json"
PREFIX = "scale-"
"""How the names of the folders begin."""
FORMAT = 1
KIND = "scaling"
UNSUBMITTED = ("NOT_SUBMITTED", "RENDERED", "INCOMPLETE")
"""States of a run that is no part of a study, because no scheduler has it: another one takes its place."""


@record
class StudyPoint:
    """One layout: nodes, tasks of each, samples of a rank in a micro-batch, and micro-batches in a step.

    ``predicted``: samples/s of the plan before the study ran, with the ends of its 80 % interval; None: not predicted.
    ``per_hour``: price of an hour in ``unit``; None: not known. ``shortest_s``, ``least``: what a job costs at least.
    ``run_dirs``: one run directory for each repeat, recorded before it is made.
    """

    nodes: int
    tasks_per_node: int
    per_rank: int
    accumulation: int = 1
    predicted: tuple[float, float, float] | None = None
    from_measurements: bool = False
    per_hour: float | None = None
    shortest_s: int = 0
    least: float = 0.0
    unit: str = ""
    run_dirs: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """The ranks on all nodes."""
        return self.nodes * self.tasks_per_node

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes, and tasks of each."""
        return self.nodes, self.tasks_per_node

    def cost(self, seconds: float) -> float | None:
        """Return the charge for a job of so many seconds; None if it is not known."""
        if self.per_hour is None:
            return None
        return max(self.least if self.per_hour else 0.0, self.per_hour * max(seconds, self.shortest_s) / 3600)


@record
class ScalingStudy:
    """A study. ``mode``: strong or weak; ``batch``: the kept global batch, or the kept batch per rank, in samples.

    ``samples``: those of an epoch of the job's whole data set. ``steps``: the most steps of a run's epoch. ``key``:
    under which measurements of the job are kept. ``device``: of a rank, in words. ``request``: what was typed, of the
    job alone; ``cwd``: where.
    """

    path: Path
    job: str
    target: str
    site: str
    node_type: str
    created: str
    mode: str
    batch: int
    samples: int
    steps: int
    key: str
    device: str
    cwd: str
    request: dict[str, Any]
    points: tuple[StudyPoint, ...] = field(default=())

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.name

    def with_point(self, point: StudyPoint) -> ScalingStudy:
        """Return the study with a point, in the place of that of the same layout."""
        others = [one for one in self.points if one.shape != point.shape]
        return replace(self, points=tuple(sorted([*others, point], key=lambda one: (one.ranks, one.nodes))))

    def point(self, shape: tuple[int, int]) -> StudyPoint | None:
        """Return the point of a layout, (nodes, tasks of each)."""
        return next((one for one in self.points if one.shape == shape), None)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values."""
        values = {**asdict(self), "path": str(self.path), "points": [asdict(point) for point in self.points]}
        return {"format": FORMAT, "kind": KIND, **values}


def save_study(study: ScalingStudy) -> None:
    """Write the record; its folder must exist. Raises OSError."""
    values = study.to_json()
    del values["path"]  # a folder can be moved
    write_text(study.path / STUDY, json.dumps(values, indent=1) + "\n")


def load_study(folder: Path) -> ScalingStudy:
    """Return the study in a folder. Raises NotFound, NewerFormat, and Refused for a damaged record."""
    text = inside.read_text(folder, STUDY)
    if not text and os.path.lexists(folder / STUDY):
        why = inside.problem(folder, STUDY)
        what = "the record of the study cannot be read" + (f": it {why}" if why else "")
        raise Refused(Fault(where=str(folder / STUDY), what=what, next="try again"))
    if not text:
        what = "this folder has no scaling study"
        raise NotFound(Fault(where=str(folder), what=what, next="hpclaunch scale JOB --nodes 1,2,4"))
    values = json_object(text)
    if isinstance(values.get("format"), int) and values["format"] > FORMAT:
        raise NewerFormat(Fault(where=str(folder / STUDY), what="a newer hpclaunch wrote this study"))
    try:
        return _study(folder, values)
    except (AttributeError, KeyError, TypeError, ValueError):
        what = "the record of the study is damaged"
        raise Refused(Fault(where=str(folder / STUDY), what=what, next=f"mv {folder} {folder}.damaged")) from None


def _study(folder: Path, values: dict[str, Any]) -> ScalingStudy:
    """Return the record. Raises AttributeError, KeyError, TypeError or ValueError for one that is damaged."""
    if values["kind"] != KIND or not isinstance(values["request"], dict):
        raise ValueError("of another kind")
    texts = ("job", "target", "site", "node_type", "created", "mode", "key", "device", "cwd")
    numbers = ("batch", "samples", "steps")
    return ScalingStudy(
        path=folder,
        request=values["request"],
        points=tuple(map(_point, values["points"])),
        **{name: _check_type(values[name], str) for name in texts},
        **{name: _check_type(values[name], int) for name in numbers},
    )


def _point(values: dict[str, Any]) -> StudyPoint:
    known = {one.name for one in fields(StudyPoint)}
    kept = {name: value for name, value in values.items() if name in known}
    predicted = kept.get("predicted")
    if predicted is not None:
        low, middle, high = predicted
        kept["predicted"] = (float(low), float(middle), float(high))
    point = StudyPoint(**{**kept, "run_dirs": tuple(_check_type(one, str) for one in kept["run_dirs"])})
    counts = (point.nodes, point.tasks_per_node, point.per_rank, point.accumulation)
    if not all(isinstance(number, int) and number > 0 for number in counts):
        raise ValueError("a layout needs whole numbers above zero")
    return point


def _check_type(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def studies_in(folders: Iterator[Path] | list[Path]) -> list[ScalingStudy]:
    """Return the readable studies in folders that hold run directories, newest first."""
    found = []
    for folder in folders:
        for path in sorted(folder.glob(f"{PREFIX}*/{STUDY}")):
            try:
                found.append(load_study(path.parent))
            except (NotFound, Refused):
                continue
    return sorted(found, key=lambda study: study.created, reverse=True)


def table_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a study's results, as ``hpclaunch scale --json`` has them; empty before there are any.

    Each row has nodes, ranks, batch_per_rank, global_batch, runs, samples_per_s (with _low and _high), speed_up,
    efficiency, step_s, split (or None), predicted, prediction_error, cost_of_epoch, unit, verdict. It is for pages that
    show studies: it reads one file, and computes nothing.
    """
    rows = json_object(inside.read_text(folder, RESULTS)).get("rows")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
